"""Whether one process may read the memory of another, as py-spy must, and what to do where it may not."""

import os
from pathlib import Path

from gputune.host.procfs import read_text


def allowed(proc: Path, pid: int) -> bool:
    """Return whether we may. Opening `mem` asks the kernel just what process_vm_readv(2) does, and touches nothing."""
    try:
        os.close(os.open(proc / str(pid) / "mem", os.O_RDONLY))
    except PermissionError:
        return False
    except OSError:  # it is gone, or has no memory: that is another matter
        return True
    return True


def refusal(proc: Path) -> tuple[str, str]:
    """Return why the system refuses it, in a sentence, and the hint what to type."""
    scope = (read_text(proc / "sys/kernel/yama/ptrace_scope") or "0").strip()
    if scope != "0":
        why = f"the system does not let py-spy look into other processes (ptrace_scope is {scope})"
        return why, "sudo sysctl kernel.yama.ptrace_scope=0"
    why = "the system does not let py-spy look into other processes (no CAP_SYS_PTRACE, as in a plain container)"
    return why, "start the container with `--cap-add=SYS_PTRACE`"
