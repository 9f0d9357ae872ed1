"""Another gputune run in our place, on our terminal, by one that has something to do afterwards.

As the supervisor does with its command: what a terminal sends has reached it already, what is sent to us alone is
handed on, and when it stops, so do we.
"""

import os
import signal

from gputune.launch import signals
from gputune.launch.program import IGNORED_BY_PYTHON


def relay(argv: "list[str]") -> int:
    """Run `argv` (its first word is a path) to its end; return its exit code, negative if it died of a signal.

    Raises OSError where it cannot be started.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)
    try:
        pid = os.posix_spawn(argv[0], argv, os.environ, setsigmask=mask, setsigdef=IGNORED_BY_PYTHON)
        while True:
            info = signal.sigwaitinfo(signals.WATCHED)
            if info.si_signo != signal.SIGCHLD:
                if not signals.from_group(info, pid):
                    signals.send(pid, info.si_signo)
                continue
            met, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if met and os.WIFSTOPPED(status):
                os.kill(os.getpid(), signal.SIGSTOP)
                signals.send(pid, signal.SIGCONT)  # somebody has continued us
            elif met:
                return os.waitstatus_to_exitcode(status)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
