"""A new machine, as CI runs everything on: an empty home, the system's own Python, and shims that start nothing."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "new_machine.sh"
OTHER = "3.8" if sys.version_info[:2] != (3, 8) else "3.9"


def on_it(command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["sh", SCRIPT, "sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)


def test_what_is_there_is_empty_and_goes_with_it() -> None:
    done = on_it('ls -A "$HOME"; echo "$HOME"')
    assert done.returncode == 0
    (home,) = done.stdout.split()
    assert not Path(home).exists()


def test_its_python_can_make_an_environment() -> None:
    done = on_it('"$PYTHON" -c "import ensurepip, sys, venv; print(sys.version_info >= (3, 10))"')
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_another_python_is_there_first_and_starts_nothing() -> None:
    done = on_it(f"python{OTHER} -c pass; echo $?; echo $PATH")
    status, path = done.stdout.split("\n")[:2]
    assert status == "127"
    assert "command not found" in done.stderr
    assert not any("pyenv" in folder for folder in path.split(":"))
    assert path.split(":")[0].endswith("/shims")


def test_the_status_is_the_command_s() -> None:
    assert on_it("exit 7").returncode == 7
