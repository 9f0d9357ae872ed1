"""A terminal is the command's own: keys, questions, sizes and job control reach it as if nobody watched."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

GPUTUNE = (sys.executable, "-m", "gputune", "watch")
MINISHELL = Path(__file__).parent / "minishell.py"
PATIENCE = 60.0


class Terminal:
    """A real terminal with one process session on it."""

    def __init__(self, *argv: str) -> None:
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execv(argv[0], argv)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def until(self, text: str) -> str:
        """Read until `text` has appeared; return everything seen so far."""
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.seen!r}"
            if not self._read(0.2):
                break
        assert text.encode() in self.seen, self.seen
        return self.seen.decode()

    def end(self) -> int:
        """Read to the end; return the exit code of the session's leader."""
        while self._read(PATIENCE):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def kill(self) -> None:
        """End the leader, if a failed test has left it running."""
        with contextlib.suppress(ChildProcessError):
            if not os.waitpid(self.pid, os.WNOHANG)[0]:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)

    def _read(self, longest: float) -> bool:
        if not select.select([self.fd], [], [], longest)[0]:
            return longest < PATIENCE
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the last process on the terminal is gone
            return False
        self.seen += data
        return bool(data)


@pytest.fixture
def terminal() -> Iterator[type[Terminal]]:
    made: list[Terminal] = []

    class Kept(Terminal):
        def __init__(self, *argv: str) -> None:
            super().__init__(*argv)
            made.append(self)

    yield Kept
    for one in made:
        one.kill()


def python(program: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-S", "-u", "-c", program)


SLEEPER = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("ready", flush=True)
time.sleep(60)
"""

COUNTER = """
import signal, sys, time
count = 0
def hear(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, hear)
print("ready", flush=True)
deadline = time.monotonic() + 60
while not count and time.monotonic() < deadline: time.sleep(0.01)
time.sleep(0.3)  # for a second one, that must not come
print(f"heard {count}", flush=True)
sys.exit(5)
"""


def test_a_ctrl_c_reaches_the_command_exactly_once(terminal) -> None:
    one = terminal(*GPUTUNE, "--quiet", *python(COUNTER))
    one.until("ready")
    one.type(b"\x03")
    one.until("heard 1")
    assert one.end() == 5


def test_a_ctrl_c_reaches_a_command_that_left_our_process_group(terminal) -> None:
    program = "import os; os.setpgid(0, 0)" + COUNTER
    one = terminal(*GPUTUNE, "--quiet", *python(program))
    one.until("ready")
    one.type(b"\x03")
    one.until("heard 1")
    assert one.end() == 5


def test_a_ctrl_c_through_nested_watches_comes_once(terminal) -> None:
    one = terminal(*GPUTUNE, "--quiet", "--", *GPUTUNE, "--quiet", *python(COUNTER))
    one.until("ready")
    one.type(b"\x03")
    one.until("heard 1")
    assert one.end() == 5


def test_a_ctrl_c_ends_both_and_the_verdict_still_comes(terminal) -> None:
    one = terminal(*GPUTUNE, *python(SLEEPER))
    one.until("ready")
    one.type(b"\x03")
    assert one.end() == -signal.SIGINT
    assert b"exit status 130" in one.seen


def test_a_ctrl_backslash_ends_both(terminal) -> None:
    one = terminal(*GPUTUNE, "--quiet", *python("import resource; resource.setrlimit(4, (0, 0))" + SLEEPER))
    one.until("ready")
    one.type(b"\x1c")
    assert one.end() == -signal.SIGQUIT


def test_questions_are_asked_and_answered(terminal) -> None:
    one = terminal(*GPUTUNE, "--quiet", *python("name = input('who? '); print(f'hello {name}')"))
    one.until("who? ")
    one.type(b"ada\n")
    one.until("hello ada")
    assert one.end() == 0


PROGRESS = """
import sys
from tqdm import tqdm
tqdm.monitor_interval = 0  # no thread that redraws when it finds the machine slow
name = input("who? ")
for number in tqdm(range(7), desc=name, mininterval=0, miniters=1, bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt}"):
    if number == 3:
        tqdm.write("a line above the bar")
print(input("again? "), sys.stderr.isatty())
"""


def test_a_progress_bar_and_questions_look_the_same_to_the_byte(terminal) -> None:
    pytest.importorskip("tqdm", reason="the bar is tqdm's")

    def told(*argv: str) -> bytes:
        one = terminal(*argv, sys.executable, "-c", PROGRESS)
        one.resize(24, 80)
        one.until("who? ")
        one.type(b"ada\n")
        one.until("again? ")
        one.type("jürgen\n".encode())
        assert one.end() == 0
        return one.seen

    bare = told("/usr/bin/env")
    assert bare.count(b"\r") > 14
    assert told(*GPUTUNE, "--quiet", "--") == bare
    watched = told(*GPUTUNE, "--")
    assert watched.startswith(bare + b"\r\n")
    assert b"gputune:" in watched[len(bare) :]


def test_the_terminal_looks_the_same(terminal) -> None:
    look = (
        "import os; print('LOOK', [(os.isatty(n), os.ttyname(n)) for n in (0, 1, 2)], "
        "os.getpgrp() == os.tcgetpgrp(0), os.getsid(0) == os.getpid() or 'ours')"
    )
    watched = terminal(*GPUTUNE, "--quiet", *python(look))
    watched.end()
    line = next(line for line in watched.seen.decode().splitlines() if line.startswith("LOOK"))
    assert line.count("(True, '/dev/pts/") == 3
    assert line.endswith("True ours")


def test_a_new_window_size_is_heard_once(terminal) -> None:
    program = """
import os, signal, time
heard = []
signal.signal(signal.SIGWINCH, lambda *_: heard.append(os.get_terminal_size(0)))
print("ready", flush=True)
deadline = time.monotonic() + 60
while not heard and time.monotonic() < deadline: time.sleep(0.01)
time.sleep(0.3)
print(len(heard), heard[0].columns, heard[0].lines, flush=True)
"""
    one = terminal(*GPUTUNE, "--quiet", *python(program))
    one.until("ready")
    one.resize(33, 111)
    one.until("1 111 33")
    assert one.end() == 0


def test_a_ctrl_z_stops_both_and_both_go_on(terminal) -> None:
    program = """
import signal, sys, time
going_on = []
signal.signal(signal.SIGCONT, lambda *_: going_on.append(1))
print("ready", flush=True)
deadline = time.monotonic() + 60
while not going_on and time.monotonic() < deadline: time.sleep(0.01)
print("going on", flush=True)
sys.exit(6)
"""
    one = terminal(sys.executable, str(MINISHELL), *GPUTUNE, "--quiet", *python(program))
    one.until("ready")
    one.type(b"\x1a")
    one.until("shell: stopped by SIGTSTP")
    one.until("going on")
    one.until("shell: ended with 6")
    one.end()


def test_a_command_that_stops_itself_is_a_stopped_job(terminal) -> None:
    one = terminal(sys.executable, str(MINISHELL), *GPUTUNE, "--quiet", "--", "sh", "-c", "kill -STOP $$; exit 8")
    one.until("shell: stopped by SIGSTOP")
    one.until("shell: ended with 8")
    one.end()


def test_a_hang_up_ends_both(terminal) -> None:
    one = terminal(*GPUTUNE, "--quiet", *python(SLEEPER))
    one.until("ready")
    os.kill(one.pid, signal.SIGHUP)
    assert one.end() == -signal.SIGHUP
