"""How a run ended, in words: the signal behind an exit status, and what such an end often means."""

import signal

from gputune.document import Verdict

BY_SIGNAL = 128  # a shell shows the death by signal n as 128 + n
OFTEN = {  # what a signal that nobody sent by hand stands for, as a rule
    "SIGKILL": "often the out-of-memory killer, or a batch system",
    "SIGBUS": "often a full /dev/shm, through which workers hand over batches",
    "SIGXCPU": "its limit of CPU time",
}


def status(code: int) -> str:
    """Return an exit status with the signal that it stands for: `exit status 137 (SIGKILL)`."""
    name = _signal(code)
    return f"exit status {code} ({name})" if name else f"exit status {code}"


def cause(verdict: Verdict) -> str:
    """Return what is known of an untimely end, or what it often is; nothing where neither is worth a line."""
    if verdict.oom_kills:
        count = "a process" if verdict.oom_kills == 1 else f"{verdict.oom_kills} processes"
        where = "this machine" if verdict.oom_kills_where == "machine" else "the run's control group"
        return f"the kernel killed {count} of {where} for want of memory during the run"
    name = _signal(verdict.exit_code or 0)
    return f"{name} ({verdict.exit_code}): {OFTEN[name]}" if name in OFTEN else ""


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - BY_SIGNAL).name
    except ValueError:
        return ""
