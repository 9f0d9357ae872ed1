"""`gputune tui` as a user meets it: without a terminal, on a real one, and on what is no run."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputune.core.events import Event, FetchCode, Kind, Record
from gputune.core.sample import Guest, Note, Reading
from gputune.recording import Recording
from tests.conftest import Run

PATIENCE = 60.0  # s
MS = 1_000_000
BEGAN = 10**12
EVIL = "\x1b]52;c;ZXZpbA==\x07"


def readings() -> list[Reading]:
    """Return a training whose batches take 30 ms to make, and whose steps take 10 ms."""
    found: list[Reading] = [
        Guest(0, 4711, 1, BEGAN, 0, "main", "ring"),
        Note(
            0,
            {
                "n": "loader",
                "id": 1,
                "where": f"{EVIL}.py:41",
                "num_workers": 0,
                "batch_size": 16,
                "prefetch_factor": None,
            },
        ),
        Event(0, Record(Kind.ITERATOR, 0, BEGAN, BEGAN + MS, 1, 1, 0, 1, 0)),
    ]
    for index in range(100):
        at = BEGAN + index * 40 * MS
        found.append(Event(0, Record(Kind.FETCH, FetchCode.INLINE, at, at + 30 * MS, 2 * MS, 0, MS, 4096, 16)))
        found.append(Event(0, Record(Kind.BATCH, 0, at, at + 30 * MS, 1, index, -1, 0, 16)))
        found.append(Event(0, Record(Kind.STEP, 0, at + 39 * MS, at + 40 * MS, 1, 0, 0, 0, 0)))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of that run, whose command would write the clipboard of whoever shows it."""
    about = {"command": ["python", f"train{EVIL}.py"], "started": BEGAN, "ended": BEGAN + 4000 * MS, "exit_code": 0}
    recording = Recording.create(tmp_path / "run", about, max_size=1 << 24)  # type: ignore[arg-type] # a dict of Json
    recording.take(readings())
    recording.close()
    return tmp_path / "run"


def test_without_a_terminal_it_says_so_and_how_to_get_the_rows(gputune: Run, folder: Path) -> None:
    done = gputune("tui", str(folder))
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no terminal for a screen")
    assert f"hint: `gputune tui {folder} --json` prints" in done.stderr
    assert done.stdout == ""


def test_without_a_terminal_the_hint_keeps_what_was_typed(gputune: Run, tmp_path: Path) -> None:
    (tmp_path / "my hosts").write_text("m8\n")
    done = gputune("tui", "--nodes", "m8,m9", "--nodes", "m10", "--light")
    assert "hint: `gputune tui --nodes m8,m9 --nodes m10 --json` prints" in done.stderr
    done = gputune("tui", "--hostfile", "my hosts", "--credentials", "c")
    assert "hint: `gputune tui --hostfile 'my hosts' --credentials c --json` prints" in done.stderr


def test_json_prints_the_rows_of_a_run(gputune: Run, folder: Path) -> None:
    done = gputune("tui", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (run,) = document["runs"]
    assert (document["schema_version"], run["state"], run["verdict"]["batches"]) == (1, "ended", 100)
    assert document["nodes"][0]["link"] == "recorded"


def test_json_prints_this_machine(gputune: Run) -> None:
    done = gputune("tui", "--json")
    assert done.returncode == 0, done.stderr
    (node,) = json.loads(done.stdout)["nodes"]
    assert (node["name"], node["link"]) == (os.uname().nodename, "local")
    assert node["memory_total"] > 2**20


def test_what_is_no_run_is_one_sentence(gputune: Run, tmp_path: Path) -> None:
    done = gputune("tui", str(tmp_path / "nowhere"), "--json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "is no run folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_recording_from_the_future_is_one_sentence(gputune: Run, folder: Path) -> None:
    story = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**story, "schema_version": 7, "gputune": "9.0"}))
    done = gputune("tui", str(folder), "--json")
    assert done.returncode == 1
    assert "has schema version 7, written by gputune 9.0" in done.stderr
    assert "pip install --upgrade gputune" in done.stderr


CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "gputune", *sys.argv[1:]])
"""  # of a session of its own: the terminal's end is told by SIGHUP


class Terminal:
    """A `gputune` on a terminal of its own, which may be that of its session. `said` is all that it has written."""

    def __init__(
        self, *arguments: str, cwd: Path, size: tuple[int, int] = (24, 80), controls: bool = False, **environ: str
    ) -> None:
        self.said = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        plain = {
            name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_") and name != "NO_COLOR"
        }
        self.process = subprocess.Popen(
            [sys.executable, *(("-c", CONTROLLED) if controls else ("-m", "gputune")), *arguments],
            cwd=cwd, env={**plain, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environ},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def until(self, what: bytes) -> None:
        """Read until this was written."""
        end = time.monotonic() + PATIENCE
        while what not in self.said:
            assert self._read(end), self.said[-2000:]

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._master, keys)

    def leave(self) -> int:
        """Read to the end, and return the status."""
        end = time.monotonic() + PATIENCE
        while self._read(end):
            pass
        return self.process.wait(PATIENCE)

    def vanish(self) -> None:
        """Take the terminal away, as a terminal that is killed does."""
        os.close(self._master)
        self._master = -1

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # nobody has the other side open any more
            data = b""
        self.said += data
        return bool(data)

    def close(self) -> None:
        """End it, however it stands."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Make terminals that are gone afterwards."""
    made: list[Terminal] = []

    def make(*arguments: str, **options: object) -> Terminal:
        made.append(Terminal(*arguments, cwd=tmp_path, **options))  # type: ignore[arg-type] # a test's own
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_run_is_shown_on_a_terminal_and_q_leaves(terminal: Callable[..., Terminal], folder: Path) -> None:
    screen = terminal("tui", str(folder))
    screen.until(b"loader.wait")
    screen.press(b"?")
    screen.until(b"EVERYWHERE")
    screen.press(b"q")
    assert screen.leave() == 0
    assert b"]52;c;ZXZpbA==" not in screen.said.replace(b"\\x1b]52;c;ZXZpbA==", b"")
    assert b"\\x1b]52;" in screen.said


def test_this_machine_is_shown_on_a_terminal(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("tui", "--ascii")
    screen.until(b"memory")
    screen.press(b"\x10")
    screen.until(b"Sort by")  # the command palette, too
    screen.process.send_signal(signal.SIGTERM)
    assert screen.leave() == -signal.SIGTERM
    assert screen.said.isascii()


def test_without_colour_none_is_written(terminal: Callable[..., Terminal], folder: Path) -> None:
    screen = terminal("tui", str(folder), NO_COLOR="1")
    screen.until(b"loader.wait")
    screen.press(b"q")
    assert screen.leave() == 0
    assert b"38;2;" not in screen.said
    assert b"48;2;" not in screen.said


def test_a_terminal_that_can_only_write_lines_is_none(terminal: Callable[..., Terminal], folder: Path) -> None:
    screen = terminal("tui", str(folder), TERM="dumb")
    assert screen.leave() == 2
    assert b"error: there is no terminal for a screen: `TERM` says" in screen.said


SCRIPT = """
import pathlib, sys, time
print("hello from the command", flush=True)
print("its input is", repr(sys.stdin.read()))
while not pathlib.Path("enough").exists():
    time.sleep(0.01)
sys.exit(7)
"""


def test_watch_shows_a_run_that_is_being_started_and_leaving_ends_nothing(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    screen = terminal("watch", "--tui", "--out", "shown", "--", sys.executable, "train.py")
    screen.until(b"leave")
    screen.press(b"q")
    screen.until(b"the command goes on")
    assert screen.process.poll() is None
    (tmp_path / "enough").touch()
    assert screen.leave() == 7
    assert (tmp_path / "shown" / "run.json").exists()
    log = tmp_path / "shown.log"
    assert "hello from the command" in log.read_text()
    assert "its input is ''" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_watch_on_a_screen_needs_a_terminal_before_anything_is_started(gputune: Run, tmp_path: Path) -> None:
    done = gputune("watch", "--tui", "--out", "shown", "--", sys.executable, "-c", "open('ran', 'w')")
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no terminal for a screen")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [("--prove", "top"), ("--pid", "1")])
def test_watch_on_a_screen_does_nothing_else_as_well(gputune: Run, more: tuple[str, ...]) -> None:
    done = gputune("watch", "--tui", *more, "--", sys.executable, "-c", "")
    assert done.returncode == 2
    assert "do not go together" in done.stderr or "looks at a training that runs already" in done.stderr


def test_a_signal_gives_the_terminal_back_first(terminal: Callable[..., Terminal], folder: Path) -> None:
    screen = terminal("tui", str(folder))
    screen.until(b"loader.wait")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.leave() == -signal.SIGTERM
    assert b"\x1b[?1049l" in screen.said


@pytest.mark.parametrize("controls", [True, False])
def test_a_terminal_that_vanishes_ends_the_screen(
    terminal: Callable[..., Terminal], folder: Path, *, controls: bool
) -> None:
    screen = terminal("tui", str(folder), controls=controls)
    screen.until(b"loader.wait")
    screen.vanish()
    assert screen.process.wait(PATIENCE) == -signal.SIGHUP


def test_a_screen_whose_terminal_takes_nothing_any_more_is_ended_by_a_signal(
    terminal: Callable[..., Terminal], folder: Path
) -> None:
    screen = terminal("tui", str(folder), size=(300, 500))  # more than a terminal keeps for who does not read
    screen.until(b"\x1b[?1049h")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.process.wait(PATIENCE) == -signal.SIGTERM


def test_a_command_goes_on_when_its_screen_has_vanished(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    screen = terminal("watch", "--tui", "--out", "shown", "--", sys.executable, "train.py")
    screen.until(b"leave")
    screen.vanish()
    (tmp_path / "enough").touch()
    assert screen.process.wait(PATIENCE) == 7
    assert json.loads((tmp_path / "shown" / "run.json").read_text())["exit_code"] == 7


@pytest.mark.parametrize("more", [("run",), ("--nodes", "m8"), ("--json",)])
def test_signals_are_for_processes_of_this_machine(gputune: Run, more: tuple[str, ...]) -> None:
    done = gputune("tui", "--allow-signals", *more)
    assert done.returncode == 2
    assert done.stderr.startswith("error: `--allow-signals` is for the processes of this machine")
    assert "hint: `gputune tui --allow-signals`" in done.stderr


def test_signals_that_are_allowed_for_good_stand_in_nobodys_way(gputune: Run, folder: Path) -> None:
    done = gputune("tui", str(folder), "--json", GPUTUNE_ALLOW_SIGNALS="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--every", "10s"), "`--every` is for agents on nodes"),
        (("--nodes", "m8", "--every", "0.5s"), "`--every 0.5s` is not a time of at least a second"),
        (("--nodes", "m8", "--every", "often"), "`--every often` is not a time of at least a second"),
    ],
)
def test_how_often_agents_are_asked_is_a_time_and_for_agents(gputune: Run, words: tuple[str, ...], says: str) -> None:
    done = gputune("tui", *words, "--json")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {says}")
