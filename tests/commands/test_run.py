"""`gputune run`: the command as it is, with other loader settings, and a word on what became of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run

PATIENCE = 120.0  # s; only a hang ends here
TOML = """
[[loader]]
where = "train.py:9"
num_workers = 1
prefetch_factor = 4
"""
SCRIPT = """
import json, os, sys, torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    data = TensorDataset(torch.zeros(8))
    made = []
    made.append(
        DataLoader(data, batch_size=2))
    loader = made[0]
    print(json.dumps([loader.num_workers, loader.prefetch_factor, sys.argv[1:], len(list(loader))]))
    sys.exit(7)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "gputune.toml").write_text(TOML)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_the_loader_is_built_with_the_settings_and_nothing_is_recorded(gputune: Run, script: Path) -> None:
    done = gputune("run", "--with", "gputune.toml", "--", sys.executable, "train.py", "--lr", "1", "--", "x")
    assert (done.returncode, json.loads(done.stdout)) == (7, [1, 4, ["--lr", "1", "--", "x"], 4]), done.stderr
    assert done.stderr == "gputune: the loader at `train.py:9` was built with num_workers=1, prefetch_factor=4\n"
    assert not (script / "gputune-runs").exists()


def test_a_line_that_has_moved_is_said(gputune: Run, script: Path) -> None:
    (script / "train.py").write_text("\n" + SCRIPT)
    done = gputune("run", "--", sys.executable, "train.py")
    assert (done.returncode, json.loads(done.stdout)[0]) == (7, 0)
    assert done.stderr == "gputune: no loader was built at `train.py:9`: nothing was changed\n"
    assert gputune("run", "--quiet", "--", sys.executable, "train.py").stderr == ""


def test_under_a_watch_it_is_the_watch_that_is_told(gputune: Run, script: Path) -> None:
    inner = [sys.executable, "-m", "gputune", "run", "--", sys.executable, "train.py"]
    done = gputune("watch", "--quiet", "--json", "found.json", "--", *inner)
    assert (done.returncode, json.loads(done.stdout)[0]) == (7, 1), done.stderr
    (loader,) = json.loads((script / "found.json").read_text())["loaders"]
    assert loader["num_workers"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["run"], 2, "no command to run"),
        (["run", "--with", "none.toml", "--", "true"], 2, "`none.toml` cannot be read"),
        (["run", "--", "no-such-program"], 127, "was not found in PATH"),
        (["run", "--", "true"], 0, "no loader was built"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    gputune: Run, script: Path, arguments: list[str], status: int, says: str
) -> None:
    done = gputune(*arguments)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_reaches_the_command_and_is_what_gputune_dies_of(
    script: Path, eventually: Callable[..., None]
) -> None:
    code = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(600)"
    command = [sys.executable, "-m", "gputune", "run", "--", sys.executable, "-c", code]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    process = subprocess.Popen(command, cwd=script, env=plain, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually((script / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
