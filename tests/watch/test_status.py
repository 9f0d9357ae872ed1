"""`gputune watch` leaves as its command left: whatever it was that ended it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SUPERVISED = Path(__file__).parent / "supervised.py"


def supervised(what: str) -> dict[int, int]:
    out = subprocess.run((sys.executable, SUPERVISED, what), check=True, capture_output=True, timeout=200).stdout
    return {int(key): value for key, value in json.loads(out).items()}


def without_internal(status: str) -> list[tuple[str, int]]:
    """Return the masks without 32 and 33: posix_spawn of glibc leaves these ignored, and nobody can send them."""
    pairs = (line.split() for line in status.splitlines())
    return [(name, int(value, 16) & ~0x180000000) for name, value in pairs]


def test_every_exit_code_comes_back() -> None:
    assert supervised("codes") == {code: code for code in range(256)}


def test_who_watches_dies_of_the_signal_that_its_command_died_of() -> None:
    deaths = supervised("deaths")
    assert len(deaths) >= 50
    assert deaths == {number: -number for number in deaths}


def test_every_signal_that_is_sent_reaches_the_command() -> None:
    forwarded = supervised("forwarded")
    assert len(forwarded) >= 49
    assert forwarded == {number: number for number in forwarded}


def test_the_status_comes_back_through_the_whole_of_watch(watch) -> None:
    assert watch("--", "sh", "-c", "exit 7").returncode == 7
    assert watch("--", "sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("no-such-program", 127, "`no-such-program` was not found in PATH"),
        ("./no-such-program", 127, "`./no-such-program` does not exist"),
        ("./plain", 126, "`./plain` is not executable"),
        ("./folder", 126, "`./folder` is a folder"),
        ("./odd", 126, "the interpreter of `./odd` does not exist"),
        ("", 127, "`` was not found in PATH"),
        ("train.py", 127, "`train.py` is no command"),
    ],
)
def test_what_cannot_be_executed_is_refused_as_a_shell_does(watch, tmp_path, command, status, says) -> None:
    for name in ("plain", "train.py"):
        (tmp_path / name).write_text("print(1)\n")
    (tmp_path / "folder").mkdir()
    odd = tmp_path / "odd"
    odd.write_text("#!/no/such/interpreter\n")
    odd.chmod(0o755)
    done = watch("--", command)
    assert done.returncode == status
    error, _, hint = done.stderr.partition("\n\n")
    assert error == f"error: {says}"
    assert hint.startswith("hint: ")
    assert done.stderr.count("error:") == 1
    assert not list(tmp_path.glob("gputune-runs/*"))


def test_a_script_without_a_first_line_is_run_by_sh(watch, tmp_path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert watch("--", "./script").returncode == 9


def test_the_command_sees_the_signals_that_it_would_see_without_us(watch) -> None:
    look = ("grep", "-E", "^(Sig(Ign|Blk|Cgt)|NoNewPrivs|Umask)", "/proc/self/status")
    watched = watch("--", *look).stdout
    bare = subprocess.run(look, check=True, capture_output=True, text=True).stdout
    assert without_internal(watched) == without_internal(bare)


def test_a_writer_into_a_closed_pipe_dies_of_it(watch) -> None:
    done = subprocess.run(
        ("bash", "-c", f"{sys.executable} -m gputune watch --quiet -- yes | head -1; echo ${{PIPESTATUS[0]}}"),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["y", str(128 + signal.SIGPIPE)]


def test_a_signal_that_was_ignored_before_stays_ignored(watch) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert watch("--", "sh", "-c", "kill -HUP $$; exit 4", preexec_fn=ignore).returncode == 4


def test_a_parent_that_ignores_its_children_costs_no_status(watch) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert watch("--", "sh", "-c", "exit 4", preexec_fn=ignore).returncode == 4


def test_no_core_is_left_by_who_only_passes_a_death_on(watch, tmp_path) -> None:
    watch("--", "sh", "-c", "ulimit -c 0; kill -QUIT $$")
    assert not list(tmp_path.glob("core*"))
