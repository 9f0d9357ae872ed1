"""`gputune watch --pid`: a training that runs already is told of, and goes on as if nobody had looked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputune.host import ptrace

pytest.importorskip("torch")

TRAINING = """
import sys, time, torch
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 10**9
    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.zeros(4)
def train():
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
        time.sleep(0.02)
        sys.stdout.write(".")
        sys.stdout.flush()
train()
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[subprocess.Popen[bytes]]":
    """A training that waits four fifths of its time, and is in its loop."""
    script = tmp_path_factory.mktemp("attached") / "train.py"
    script.write_text(TRAINING)
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.read(1) == b"."
    if not ptrace.allowed(Path("/proc"), child.pid):
        child.kill()
        child.wait()
        pytest.skip(ptrace.refusal(Path("/proc"))[0])
    yield child
    child.kill()
    child.stdout.close()
    child.wait()


@pytest.fixture(autouse=True)
def no_child_is_left() -> None:
    """The training is a child of all tests here: it ends with the last of them."""


def alive_after(training: "subprocess.Popen[bytes]") -> bool:
    assert training.stdout is not None
    for _ in range(3):
        if training.stdout.read(1) != b".":
            return False
    return training.poll() is None


def looks() -> int:
    """Return how often the stacks were looked at so far, as `live.json` has it."""
    try:
        told = json.loads(Path("run/live.json").read_bytes())
    except FileNotFoundError:
        return 0
    return told["whole"]["attached"]["looks"] if told["whole"]["attached"] else 0


@pytest.mark.slow
def test_where_the_time_goes_is_told_with_how_sure_that_is(started, training, eventually) -> None:
    looker = started("--pid", str(training.pid), "--for", "1h", "--out", "run", "--json", "v.json")
    eventually(lambda: looks() >= 3 or looker.poll() is not None)
    looker.send_signal(signal.SIGINT)
    _, stderr = looker.communicate(timeout=120)
    assert looker.returncode == 0, stderr
    told = json.loads(Path("v.json").read_text())
    shares = {row["span"]: row["share"] for row in told["ledger"]}
    assert shares["loader.wait"] > 0.5
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert all(row["margin"] > 0 for row in told["ledger"])
    assert told["exit_code"] is None
    assert "stacks in" in stderr
    assert "Traceback" not in stderr
    assert json.loads(Path("run/run.json").read_text())["attached"] is True
    assert not Path("run/live.json").exists()
    assert alive_after(training)
    again = subprocess.run(
        [sys.executable, "-m", "gputune", "report", "run", "--json"], check=True, capture_output=True, timeout=120
    )
    assert json.loads(again.stdout)["ledger"] == told["ledger"]


def test_after_its_time_the_looking_ends_and_nothing_else(watch, training) -> None:
    done = watch("--pid", str(training.pid), "--for", "1s", "--no-stacks")
    assert done.returncode == 0, done.stderr
    assert "nothing can be said of its time" in " ".join(done.stderr.split())
    assert alive_after(training)


def test_a_pid_of_something_else_is_refused_in_one_sentence(watch) -> None:
    child = subprocess.Popen(["sleep", "60"])
    done = watch("--pid", str(child.pid))
    child.kill()
    child.wait()
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: process {child.pid} (`sleep`) is not Python")
    assert not Path("gputune-runs").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into everybody's processes")
def test_another_users_process_is_refused(watch) -> None:
    done = watch("--pid", "1")
    assert done.returncode in {1, 2}
    assert done.stderr.startswith("error: process 1 ")
