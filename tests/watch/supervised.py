"""Run as a script: supervises many commands with a recorder that does nothing, and prints what each left with.

supervised.py codes            every exit code
supervised.py deaths           every signal that ends a process, from inside the command
supervised.py forwarded        every signal that can be sent, sent to the supervisor
"""

import json
import os
import signal
import sys

from gputune.launch.link import PipeEnd, Plan, Started
from gputune.launch.supervisor import supervise

STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
LOST = {signal.SIGKILL, *STOPS, signal.SIGCHLD}  # not for the command, or not to be caught


def run(argv: tuple[str, ...]) -> int:
    """Fork a supervisor of `argv` and return its pid."""
    pid = os.fork()
    if pid:
        return pid

    def record(link: PipeEnd, _run: dict[str, object]) -> int:
        link.send(Plan(argv, {}, "", {}, keeps_stdout=False))
        while isinstance(link.receive(), Started):
            pass
        return 0

    supervise(record, record)
    raise AssertionError("a supervisor does not return")


def status(pid: int) -> int:
    """Return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def codes() -> dict[int, int]:
    return {code: status(run(("/bin/sh", "-c", f"exit {code}"))) for code in range(256)}


def deaths() -> dict[int, int]:
    fatal = signal.valid_signals() - STOPS - HARMLESS
    return {int(number): status(run(("/bin/sh", "-c", f"kill -{int(number)} $$"))) for number in sorted(fatal)}


def forwarded() -> dict[int, int]:
    """Send each to a supervisor whose command waits for just that one, and leaves with its number."""
    result = {}
    for number in sorted(signal.valid_signals() - LOST):
        ready, tell = os.pipe()
        os.set_inheritable(tell, True)
        program = f"import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{{int(number)}}}); "
        program += f"os.write({tell}, b'.'); os._exit(signal.sigwait({{{int(number)}}}))"
        pid = run((sys.executable, "-I", "-S", "-c", program))
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        os.kill(pid, number)
        result[int(number)] = status(pid)
    return result


if __name__ == "__main__":
    what = {"codes": codes, "deaths": deaths, "forwarded": forwarded}[sys.argv[1]]
    print(json.dumps(what()))
