"""`gputune watch --tune`: real trainings are tuned while they go on, and nothing that they compute is another."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

SCRIPT = """
import os, random, sys, time, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

def option(name, default):
    return type(default)(os.environ.get(name, default))

class Data(Dataset):
    def __init__(self):
        self.x = torch.randn(4 * option("BATCHES", 1000), 8, generator=torch.Generator().manual_seed(3))
        self.item = option("ITEM", 0.0)
        self.more = (lambda: 0) if option("HELD", 0) else None
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        if option("DYING", 0) and get_worker_info() is not None:
            os._exit(1)
        time.sleep(self.item)
        return self.x[i] + (torch.rand(1) if option("DRAWS", 0) else 0)

class Stream(IterableDataset):
    def __iter__(self):
        yield from Data()

def main():
    torch.set_num_threads(1)
    torch.manual_seed(7), random.seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    context = os.environ.get("CONTEXT")
    if option("STREAM", 0):
        loader = DataLoader(Stream(), batch_size=4)
    else:
        loader = DataLoader(Data(), batch_size=4, shuffle=True, num_workers=option("WORKERS", 0))
    if context:
        torch.multiprocessing.set_start_method(context)
    done = 0
    for epoch in range(option("EPOCHS", 2)):
        for x in loader:
            done += 1
            if done > option("MOST", 1 << 30) or (epoch and os.path.exists(option("STOP", ""))):
                sys.exit(option("STATUS", 0))
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item().hex(), torch.rand(1).item(), random.random(), flush=True)
            time.sleep(option("STEP", 0.0))
    sys.exit(option("STATUS", 0))

if __name__ == "__main__":
    main()
"""
SLOW = {"ITEM": "0.004", "BATCHES": "500", "EPOCHS": "100"}  # 16 ms a batch, which is nearly all of the time
SETTLED = {"kept", "unchanged", "tried", "refused", "lost"}
LONG = 360.0  # s for a tuning, which measures until it is sure: a minute on an idle machine, five on a crowded one
pytestmark = pytest.mark.timeout(500)


class Tuned:
    """What came of one tuned run."""

    def __init__(self, status: int, out: str, err: str, folder: Path) -> None:
        self.status, self.out, self.err = status, out, err
        self.verdict: dict[str, Any] = json.loads((folder / "findings.json").read_text())
        self.tuned: dict[str, Any] = self.verdict["tuned"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


@pytest.fixture
def tune(watch: Callable[..., Any], script: Path) -> Callable[..., Tuned]:
    """Return what runs the script tuned, with these variables, to its end."""

    def run(option: str = "--tune", **variables: str) -> Tuned:
        env = {**os.environ, **variables}
        done = watch(option, "--out", "run", "--", sys.executable, str(script), env=env)
        return Tuned(done.returncode, done.stdout, done.stderr, script.parent / "run")

    return run


def state(folder: Path) -> str:
    """Return how far the tuning of a run has come, "" while that is not told."""
    try:
        return str(json.loads((folder / "live.json").read_text())["whole"]["tuned"]["state"])
    except (OSError, TypeError):
        return ""


@pytest.fixture
def settled(started: Callable[..., Any], script: Path, eventually: Callable[..., None]) -> Callable[..., Tuned]:
    """Return what runs the script tuned until it is settled what serves, and for at least two epochs."""

    def run(option: str = "--tune", **variables: str) -> Tuned:
        stop, folder = script.parent / "stop", script.parent / "run"
        out, err = script.parent / "out", script.parent / "err"
        env = {**os.environ, **SLOW, **variables, "STOP": str(stop)}
        with out.open("w") as output, err.open("w") as errors:
            process = started(
                option, "--out", "run", "--", sys.executable, str(script), env=env, stdout=output, stderr=errors
            )
        with process:
            eventually(lambda: state(folder) in SETTLED or process.poll() is not None, LONG)
            done = batches(out)
            eventually(lambda: batches(out) > done + 20 or process.poll() is not None)  # under what serves now
            stop.touch()
        return Tuned(process.returncode, out.read_text(), err.read_text(), folder)

    return run


def batches(out: Path) -> int:
    """Return of how many batches a training has said something."""
    return out.read_bytes().count(b"\n")


def untuned(script: Path, like: Tuned, **variables: str) -> str:
    """Return what the script prints by itself, in no time, for as many batches."""
    fast = {"ITEM": "0", "STEP": "0", "MOST": str(len(like.out.splitlines()))}
    env = {**os.environ, **SLOW, **variables, **fast}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("option", ["--tune", "--tune=identical"])
def test_what_pays_is_kept_and_the_losses_are_those_of_the_untuned_run(settled, script, option) -> None:
    run = settled(option)
    assert run.status == 0
    assert run.tuned["state"] == "kept", run.tuned
    assert run.tuned["own"]["num_workers"] == 0 < run.tuned["now"]["num_workers"]
    assert run.tuned["speedup"]["low"] > 1
    assert run.tuned["draws"] == []
    assert len(run.out.splitlines()) > 500
    assert run.out == untuned(script, run)
    assert run.err.count("gputune:") == 1, run.err  # the verdict: nothing was said before
    assert "tuned: num_workers=" in run.err
    assert {row["num_workers"] for row in run.verdict["loaders"]} >= {0, run.tuned["now"]["num_workers"]}


@pytest.mark.long
def test_what_is_only_tried_leaves_the_losses_and_the_settings_and_the_finding_is_measured(settled, script) -> None:
    run = settled("--try")
    assert (run.status, run.tuned["state"]) == (0, "tried"), run.tuned
    assert run.tuned["now"] == run.tuned["own"] != run.tuned["best"]
    assert run.out == untuned(script, run)
    first = run.verdict["findings"][0]
    assert first["id"] == "few-workers"
    assert first["speedup"] == run.tuned["speedup"]
    assert first["change"]["num_workers"] == run.tuned["best"]["num_workers"] > 0
    assert "measured_over_predicted" in first["evidence"]
    assert ", measured  at train.py:" in run.err
    assert "its own serve again" in " ".join(run.err.split())


@pytest.mark.long
def test_where_samples_draw_it_is_said_before_the_first_switch(settled) -> None:
    run = settled(DRAWS="1")
    assert (run.status, run.tuned["draws"]) == (0, ["torch"])
    assert run.tuned["tries"]
    first, _, rest = run.err.partition("\n")
    assert first.startswith("gputune: the loader at train.py:")
    assert "random numbers (torch's)" in first
    assert "dropout" in first
    assert rest.count("gputune:") == 1


@pytest.mark.long
def test_where_samples_draw_identical_leaves_them_alone(tune, script) -> None:
    short = {**SLOW, "BATCHES": "350", "EPOCHS": "2", "DRAWS": "1"}
    run = tune("--tune=identical", **short)
    assert (run.status, run.tuned["state"], run.tuned["now"]) == (0, "healthy", None)
    assert run.tuned["draws"] == ["torch"]
    assert run.out == untuned(script, run, **short)


@pytest.mark.long
def test_a_healthy_training_is_not_switched(tune, script) -> None:
    run = tune(STEP="0.01", BATCHES="350", EPOCHS="2")
    assert (run.status, run.tuned["state"], run.tuned["tries"]) == (0, "healthy", [])
    assert {row["num_workers"] for row in run.verdict["loaders"]} == {0}
    assert "not tuned, and nothing was tried" in run.err
    assert run.out == untuned(script, run, BATCHES="350")


@pytest.mark.long
@pytest.mark.parametrize(
    "trouble", [{"DYING": "1"}, {"HELD": "1", "CONTEXT": "spawn"}], ids=["workers that die", "not to be pickled"]
)
def test_what_fails_is_a_row_and_the_training_goes_on_as_it_was(settled, script, trouble) -> None:
    run = settled(STATUS="7", **trouble)
    assert run.status == 7
    assert run.tuned["state"] == "unchanged", run.tuned
    assert {row["state"] for row in run.tuned["tries"]} == {"failed"}
    assert "failed" in run.err
    assert run.out == untuned(script, run)


@pytest.mark.long
def test_of_a_stream_nothing_is_switched(tune, script) -> None:
    run = tune(STREAM="1", ITEM="0.004", BATCHES="200")
    assert (run.status, run.tuned["state"], run.tuned["tries"]) == (0, "healthy", [])
    assert "its dataset is a stream" in run.err


@pytest.mark.long
def test_a_recorder_that_is_killed_leaves_the_training_as_it_was(script, started, eventually) -> None:
    folder = script.parent / "run"
    env = {**os.environ, **SLOW, "EPOCHS": "2"}
    with started("--tune", "--out", "run", "--", sys.executable, str(script), env=env) as process:
        eventually(lambda: state(folder) == "trying")
        supervisor = psutil.Process(process.pid)
        recorder = next(child for child in supervisor.children() if child.cmdline() == supervisor.cmdline())
        recorder.send_signal(signal.SIGKILL)
        out, err = process.communicate()
    run = Tuned(process.returncode, out, err, folder)
    assert run.status == 0, err
    assert run.out == untuned(script, run)
    assert (run.tuned["state"], run.tuned["now"]) == ("lost", None)
    assert "recorder was killed" in err


def test_a_script_that_ends_early_is_told_so(tune, script) -> None:
    run = tune(BATCHES="15", EPOCHS="2")
    assert (run.status, run.tuned["state"]) == (0, "waiting")
    assert "not tuned: it ended after 30 batches" in run.err
    assert run.out == untuned(script, run, BATCHES="15")


def test_a_script_without_a_loader_is_told_so(tune, script) -> None:
    script.write_text("import torch\nfor n in range(50): print(torch.ones(2).sum().item())\n")
    run = tune()
    assert (run.status, run.tuned["state"]) == (0, "waiting")
    assert "not tuned: no DataLoader was iterated" in run.err


def test_a_command_that_is_no_python_is_run_as_ever(watch) -> None:
    done = watch("--tune", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")


def test_each_rank_s_own_watch_tunes_nothing_and_says_so(watch, script, monkeypatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    done = watch("--tune", "--out", "run", "--", sys.executable, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "its loader was not tuned: each rank has a watch of its own" in done.stderr
