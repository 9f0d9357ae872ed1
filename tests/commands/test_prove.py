"""`gputune prove`: a script that is really run again, with the change and without it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.core.isolation import own_python

PATIENCE = 280.0  # s; only a hang ends here
pytestmark = pytest.mark.timeout(300)  # trials import torch, one after the other, also on a busy machine
GPUTUNE = own_python("from gputune.__main__ import main; main()")

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 8 * 400
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.tensor(float(i % 7))

def main():
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loader = DataLoader(Slow(), batch_size=8, shuffle=True)
    for step, batch in enumerate(loader):
        loss = ((weight - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.008)  # a handful of workers is enough for such steps, on a machine of any size
        if step == STEPS:
            break
    print("done", sys.argv[1:], flush=True)

if __name__ == "__main__":
    main()
"""


def gputune(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    return subprocess.run(
        [*GPUTUNE, *arguments],
        cwd=folder,
        env={**plain, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script that has too few workers, and a recording of it in `run`."""
    folder = tmp_path_factory.mktemp("proving")
    (folder / "train.py").write_text(SCRIPT.replace("STEPS", "60"))
    done = gputune(folder, "watch", "--quiet", "--no-stacks", "--out", "run", "--", sys.executable, "train.py", "x")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_trials_take_turns_end_early_and_differ_by_the_change_alone(recorded: Path) -> None:
    done = gputune(recorded, "prove", "run", "few-workers", "--pairs", "1", "--batches", "10", "--json")
    proof = json.loads(done.stdout)
    assert done.returncode == (0 if proof["held"] else 3), done.stderr
    assert [trial["variant"] for trial in proof["trials"]] == ["as it is", "changed"]
    workers = proof["change"]["num_workers"]
    for trial in proof["trials"]:
        assert trial["exit_code"] == 0
        assert 10 <= trial["batches"] < 60
        about = json.loads((Path(trial["folder"]) / "findings.json").read_text())
        (loader,) = [row for row in about["loaders"] if row["training"]]
        assert loader["num_workers"] == (workers if trial["variant"] == "changed" else 0)
        assert "done" not in Path(trial["log"]).read_text()
    assert proof["realised"]["low"] <= proof["realised"]["likely"] <= proof["realised"]["high"]
    assert proof["predicted"]["likely"] > 1
    kept = json.loads((Path(proof["trials"][0]["folder"]).parent / "proof.json").read_text())
    assert kept == proof
    assert "the script runs 2 times" in done.stderr


@pytest.mark.slow
def test_one_batch_again_and_again_shows_what_loading_costs(recorded: Path) -> None:
    done = gputune(recorded, "prove", "run", "--ceiling", "--pairs", "1", "--batches", "10")
    assert done.returncode in {0, 3}, done.stderr
    assert "one batch" in done.stdout
    assert "few-workers predicts" in done.stdout


def test_two_recordings_are_compared(recorded: Path) -> None:
    done = gputune(recorded, "prove", "run", "--against", "run", "--json")
    proof = json.loads(done.stdout)
    assert done.returncode == 0
    assert (proof["kind"], proof["predicted"], proof["realised"]["likely"]) == ("against", None, 1.0)
    done = gputune(recorded, "prove", "run", "few-workers", "--against", "run")
    assert done.returncode == 3
    assert "not held: the change was not made" in done.stdout
    assert "num_workers=0, as before" in done.stdout


def test_what_cannot_be_proved_is_one_sentence(recorded: Path, tmp_path: Path) -> None:
    for arguments, says in (
        (("run", "worker-restart"), "was not found in this run"),
        (("nowhere",), "is no run folder"),
        (("run", "--ceiling", "--cache", "warm"), "three proofs"),
        (("run", "--cache", "warm", "--pairs", "3"), "read for the first time only once"),
        (("run", "few-workers", "--pairs", "1", "--", sys.executable, "-c", "raise SystemExit(7)"), "status 7"),
    ):
        done = gputune(recorded, "prove", *arguments)
        assert done.returncode in {1, 2}
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_a_watch_with_nothing_to_prove_leaves_as_its_command_did(tmp_path: Path) -> None:
    for command, status, says in (("pass", 0, "nothing was found"), ("raise SystemExit(7)", 7, "the command failed")):
        done = gputune(tmp_path, "watch", "--prove", "top", "--quiet", "--", sys.executable, "-c", command)
        assert (done.returncode, says in done.stderr) == (status, True), done.stderr


def test_a_signal_reaches_the_command_behind_the_one_that_waits_to_prove(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    code = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(600)"
    watch = [*GPUTUNE, "watch", "--prove=top", "--quiet", "--", sys.executable, "-c", code]
    process = subprocess.Popen(watch, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually((tmp_path / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [
        (["--prove", "top", "--", "a"], True),
        (["--quiet", "--out", "x", "--prove=few-workers", "a"], True),
        (["--out", "--prove", "a"], False),
        (["--", "a", "--prove", "x"], False),
        (["python", "train.py", "--prove", "x"], False),
        (["--quiet", "python", "train.py", "--prove", "x"], False),
        ([], False),
    ],
)
def test_the_command_s_own_options_are_not_taken_for_ours(arguments: list[str], asks: object) -> None:
    from gputune.launch import express

    assert express.asks(arguments, "--prove") is asks
