"""What is said of a run whose recorder never gave its verdict, and who writes the file that others wait for.

Asked once the command has ended, by the supervisor: what is imported before that delays every command.
"""

import os
import signal
import time
from collections.abc import Callable

from gputune.core.errors import TOO_LOW
from gputune.launch import folders
from gputune.launch.descriptors import say
from gputune.launch.link import Ended

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=,:@%")

# Writes what is known into the file of `--json`: the run, how the command ended, and why there is no more.
Hand = Callable[["dict[str, object]", "Ended", str], None]


def tell(run: "dict[str, object]", ended: Ended, why: str, hand: "Hand | None") -> None:
    """Say that there is no verdict, why, and what shows what was recorded; have what is known written."""
    folder = str(run.get("folder") or "")
    recorded = bool(folder) and os.path.exists(os.path.join(folder, "run.json"))
    shown = f"`gputune report {_typed(folder)}` shows what was recorded" if recorded else "nothing was recorded"
    say(f"\ngputune: no verdict: {why}; {shown}\n")
    if hand is not None:
        _apart(lambda: hand(run, ended, why))


def unjudged(run: "dict[str, object]") -> int:
    """Return the status of a command that ended well, and no recorder has spoken: a gate that nobody judged failed."""
    wishes = run.get("wishes")
    asked = isinstance(wishes, dict) and wishes.get("fail_under") is not None
    if asked:
        say("gputune: `--fail-under` failed: the recorder was lost\n")
    return TOO_LOW if asked else 0


def death(code: int) -> str:
    """Return what has become of a recorder that left with this exit code, negative for a signal."""
    if code >= 0:
        return f"the recorder failed again and again (status {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the recorder was killed again and again ({name})"


def _typed(folder: str) -> str:
    """Return a path as it can be typed; from the current folder where that is shorter."""
    path = folders.typed(folder)
    if set(path) <= PLAIN:
        return path
    return "'" + path.replace("'", "'\\''") + "'" if path.isprintable() else ascii(path)


def _apart(write: "Callable[[], None]") -> None:
    """Do it in a process of its own: whatever becomes of it, the supervisor leaves as the command left."""
    try:
        pid = os.fork()
    except OSError:  # no process can be started: nothing more is written
        return
    if not pid:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            write()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 5.0  # s for the writing of one document
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        signal.sigtimedwait({signal.SIGCHLD}, max(0.0, deadline - time.monotonic()))
    os.kill(pid, signal.SIGKILL)
