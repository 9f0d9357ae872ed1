"""docs/api.md: its examples run, and are what a type checker lets pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gputune
from tests.inside.conftest import TRAINING, plain

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
OWN = [example for example in EXAMPLES if "integrations" not in example]  # `make loops` runs the others
NAMED = "gputune-runs/20261127-100106-train"
ASSUMED = """
from typing import Any
def train() -> None: ...
module: Any
loader: Any
model: Any
dataset: Any
"""


def test_the_examples_run_one_after_the_other(tmp_path: Path) -> None:
    block, function, reading = OWN
    (tmp_path / "own.py").write_text(TRAINING + block + "assert run.verdict.batches == 60\n" + function)
    done = subprocess.run(
        [sys.executable, "own.py"], cwd=tmp_path, env=plain(), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("60 batches") == 2
    run, *_ = sorted((tmp_path / "gputune-runs").glob("*-own*"))
    (tmp_path / NAMED).symlink_to(run)
    (tmp_path / "reading.py").write_text(reading)
    done = subprocess.run(
        [sys.executable, "reading.py"],
        cwd=tmp_path,
        env=plain(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ended ")


@pytest.mark.slow
def test_the_examples_are_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(ASSUMED + example)
    home = Path(gputune.__file__).parents[1]
    path = {} if home.name == "site-packages" else {"MYPYPATH": str(home)}
    wrong = tmp_path / "wrong.py"
    wrong.write_text('import gputune\ngputune.load("run").table("losses")\ngputune.watch(hz="10")\n')
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull,
         "--ignore-missing-imports", "--follow-imports", "silent", *map(str, tmp_path.glob("*.py"))],
        cwd=tmp_path, env={**plain(), **path}, capture_output=True, text=True, timeout=230, check=False,
    )  # fmt: skip
    assert {line.partition(":")[0] for line in done.stdout.splitlines() if ": error:" in line} == {"wrong.py"}, (
        done.stdout
    )
    assert done.stdout.count(": error:") == 2, done.stdout
