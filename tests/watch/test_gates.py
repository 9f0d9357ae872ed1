"""`--fail-under` and `--stop-when`: what a run leaves with, and that nothing else changes."""

import json
import sys
from pathlib import Path

import pytest

TRAINING = """
import signal, sys, time, torch
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return int(sys.argv[1])
    def __getitem__(self, i):
        time.sleep(0.05)
        return torch.zeros(4)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=2):
    time.sleep(0.01)
"""


@pytest.mark.parametrize(("command", "status"), [("true", 3), ("false", 1), ("exit 7", 7), ("kill -9 $$", -9)])
def test_a_gate_that_nothing_was_measured_for_has_failed_and_a_failure_stays_its_own(watch, command, status) -> None:
    done = watch("--fail-under", "70", "--quiet", "--", "sh", "-c", command)
    assert done.returncode == status
    assert ("`--fail-under 70` failed: neither" in done.stderr) is (status == 3)


def test_without_a_gate_nothing_is_said_of_one(watch) -> None:
    done = watch("--", "true")
    assert done.returncode == 0
    assert "fail-under" not in done.stderr


@pytest.mark.slow
def test_a_run_that_waits_fails_a_high_gate_and_passes_a_low_one(watch) -> None:
    pytest.importorskip("torch")
    Path("train.py").write_text(TRAINING)
    done = watch("--fail-under", "60", "--out", "run", "--", sys.executable, "train.py", "60")
    told = json.loads(Path("run/findings.json").read_text())
    if told["batches"] == 0:
        pytest.skip("the training's Python did not let the guest in")
    assert done.returncode == 3
    assert "`--fail-under 60` failed: the training worked in" in done.stderr
    assert told["exit_code"] == 0
    assert not Path("run/live.json").exists()
    done = watch("--fail-under", "1", "--out", "again", "--", sys.executable, "train.py", "60")
    assert done.returncode == 0
    assert "fail-under" not in done.stderr


@pytest.mark.slow
def test_a_run_that_starves_is_ended_and_says_so(watch) -> None:
    pytest.importorskip("torch")
    Path("train.py").write_text(TRAINING)
    done = watch(
        "--stop-when", "starving:2s", "--out", "run", "--", "sh", "-c", f"{sys.executable} train.py 1000000; exit 0"
    )
    assert done.returncode == 4
    assert "ended by `--stop-when`: for 2 s it waited for batches" in done.stderr
    assert json.loads(Path("run/findings.json").read_text())["batches"] > 0


@pytest.mark.slow
def test_a_run_below_its_limit_of_waiting_goes_on_to_its_end(watch) -> None:
    pytest.importorskip("torch")
    Path("train.py").write_text(TRAINING)
    done = watch("--stop-when", "starving:1h", "--", sys.executable, "train.py", "40")
    assert done.returncode == 0
    assert "stop-when" not in done.stderr
