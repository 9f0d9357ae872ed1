"""`gputune` as it is installed: nothing of the user's reaches its start, and a Ctrl-C in it is no traceback."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALLED = Path(sys.executable).with_name("gputune")
TRICKS = ("sitecustomize", "usercustomize", "types", "gputune", "signal", "os", "re", "click", "enum")
OFFSETS = [ms / 1e3 for ms in (0, 1, 2, 3, 5, 8, 10, 13, 17, 25, 40, 60)]

pytestmark = pytest.mark.skipif(not INSTALLED.exists(), reason="gputune is not installed beside this Python")


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PYTHONPATH, which is the current one, too, with files that are named like what a start imports."""
    for name in TRICKS:
        (tmp_path / f"{name}.py").write_text(
            f"import sys\nsys.stderr.write('theirs: {name}\\n')\nraise SystemExit(9)\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "types.py"))
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status"),
    [(("--version",), 0), (("explain", "few-workers"), 0), (("watch", "--quiet", "--", "sh", "-c", "exit 3"), 3)],
)
def test_files_of_the_user_s_do_not_reach_it(theirs: Path, words: tuple[str, ...], status: int) -> None:
    done = subprocess.run([INSTALLED, *words], cwd=theirs, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (status, "")


def test_the_command_has_them_all_the_same(theirs: Path) -> None:
    told = f"import os; assert os.environ['PYTHONPATH'].endswith({str(theirs)!r})"
    words = ("watch", "--quiet", "--", sys.executable, "-I", "-c", told)
    done = subprocess.run([INSTALLED, *words], cwd=theirs, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_starts_through_a_link_and_by_any_name_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(INSTALLED)
    (tmp_path / "again").symlink_to("link")
    for command, where in (
        ("./again", tmp_path),
        ("./gputune", INSTALLED.parent),
        (f"../{INSTALLED.parent.name}/gputune", INSTALLED.parent),
    ):
        done = subprocess.run(
            [command, "--version"], cwd=where, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("gputune ")


def test_its_python_is_isolated_also_where_its_second_half_is_called(tmp_path: Path) -> None:
    """As an installer has it that cannot put a long path into a first line."""
    for program in (INSTALLED, INSTALLED.with_name("gputune-python")):
        with subprocess.Popen(
            [program, "watch", "--quiet", "--", "cat"], cwd=tmp_path, stdin=subprocess.PIPE
        ) as running:
            started = time.monotonic()
            while (
                b"watch" not in (words := Path(f"/proc/{running.pid}/cmdline").read_bytes().split(b"\0"))
                or b"-I" not in words
            ):
                assert time.monotonic() - started < 60
                time.sleep(0.01)
            assert words[1:3] == [b"-I", b"-S"]
            assert next(word for word in words[3:] if not word.startswith(b"-X")).endswith(b"/gputune")
            assert running.stdin is not None
            running.stdin.close()
            assert running.wait(60) == 0


@pytest.mark.parametrize("words", [("watch", "--quiet", "--", "sleep", "60"), ("explain", "few-workers")], ids=" ".join)
def test_a_ctrl_c_as_it_starts_is_no_traceback(
    popen: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, words: tuple[str, ...]
) -> None:
    for offset in OFFSETS:
        with popen(
            [INSTALLED, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as running:  # fmt: skip
            time.sleep(offset)
            os.killpg(running.pid, signal.SIGINT)
            said = running.communicate(timeout=60)[1]
        assert said == "", offset
        assert running.returncode in {-signal.SIGINT, 128 + signal.SIGINT, *([0] if words[0] == "explain" else [])}, (
            offset
        )


PRESSED = """#!/bin/sh
case $1 in
--block-signal=INT) shift; exec {env} --block-signal=INT sh -c 'kill -INT $$; exec "$@"' sh "$@" ;;
esac
exec {env} "$@"
"""
HOLDS = (
    shutil.which("env") is not None
    and not subprocess.run(["env", "--block-signal=INT", "true"], capture_output=True, check=False).returncode
)


@pytest.mark.skipif(not HOLDS, reason="this env cannot hold a signal back")
def test_a_ctrl_c_between_shell_and_python_ends_it_in_silence(tmp_path: Path) -> None:
    """It is there before the first line of Python is."""
    pressed = tmp_path / "env"
    pressed.write_text(PRESSED.format(env=shutil.which("env")))
    pressed.chmod(0o755)
    done = subprocess.run(
        [INSTALLED, "explain", "few-workers"], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("held", [(), (signal.SIGINT,)], ids=["free", "held"])
def test_who_starts_it_decides_what_is_held_back_from_its_command(tmp_path: Path, held: tuple[int, ...]) -> None:
    words = (INSTALLED, "watch", "--quiet", "--", "grep", "SigBlk", "/proc/self/status")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert done.returncode == 0, done.stderr
    assert bool(int(done.stdout.split()[1], 16) & 1 << signal.SIGINT - 1) == bool(held)
