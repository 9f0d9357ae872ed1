"""Signals to processes of watched runs on this machine, for a screen that was allowed to send them.

Between the moment at which somebody was shown a process and the one at which he says yes, it may have ended and its
number be another's: so who is there is looked at again, by its start time, while a descriptor holds on to it.
"""

import errno
import os
import signal
from pathlib import Path
from typing import Final

from gputune.feeds.rows import TaskRow
from gputune.host.procfs import read_bytes, stat_of

SIGNALS: Final = {
    "TERM": signal.SIGTERM,
    "KILL": signal.SIGKILL,
    "STOP": signal.SIGSTOP,
    "CONT": signal.SIGCONT,
}
DEAD = (b"Z", b"X")  # states in which it only waits to be buried


def send(task: TaskRow, name: str, proc: Path = Path("/proc")) -> str:
    """Send the signal TERM, KILL, STOP or CONT, and return in words what came of it.

    Nothing is sent unless the process belongs to a run that is watched, to this user, and began when `task` says.
    """
    why = _forbidden(task)
    if why:
        return f"nothing was sent: {why}"
    try:
        held = _held(task.pid)
        try:
            why = _another(task, proc)
            if why:
                return f"nothing was sent: {why}"
            _signal(task.pid, held, SIGNALS[name])
        finally:
            if held >= 0:
                os.close(held)
    except (ProcessLookupError, FileNotFoundError):
        return f"nothing was sent: {task.pid} has ended"
    except OSError as error:
        return f"nothing was sent to {task.pid}: {error.strerror or error}"
    return f"SIG{name} was sent to {task.pid} ({task.name})"


def _forbidden(task: TaskRow) -> str:
    """Return why such a process gets no signal whatever it is by now, empty where it may get one."""
    if not task.run or task.role == "foreign":
        return f"{task.pid} belongs to no run that is watched"
    if task.pid <= 1 or task.pid == os.getpid() or not task.started:
        return f"it is not known which process {task.pid} is"
    return ""


def _another(task: TaskRow, proc: Path) -> str:
    """Return why the process that has this number now gets no signal."""
    stat = stat_of(read_bytes(f"{proc}/{task.pid}/stat"))
    if stat is None or stat.state in DEAD:
        return f"{task.pid} has ended"
    if stat.started != task.started:
        return f"{task.pid} has ended, and its number is another process's"
    if (proc / str(task.pid)).stat().st_uid != os.geteuid():
        return f"{task.pid} belongs to somebody else"
    return ""


def _held(pid: int) -> int:
    """Return a descriptor that holds on to the process, -1 where the kernel has none (before 5.3, or a sandbox)."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EPERM}:
            return -1
        raise


def _signal(pid: int, held: int, number: int) -> None:
    if held >= 0:
        signal.pidfd_send_signal(held, number)
    else:
        os.kill(pid, number)
