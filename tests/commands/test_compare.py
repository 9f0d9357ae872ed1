"""`gputune compare`: trainings that are really recorded, and what cannot be compared."""

import json
import sys
from pathlib import Path

import pytest

from tests.comparing.conftest import Make, run
from tests.conftest import Run

__all__ = ["run"]
SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.arange(8.0 * BATCHES))
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for (batch,) in torch.utils.data.DataLoader(data, batch_size=8):
    loss = ((weight - batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(float(sys.argv[1]))
"""


def record(gputune: Run, folder: Path, out: str, sleep: str, batches: int = 60) -> str:
    """Record a training whose steps last `sleep` s."""
    (folder / "train.py").write_text(SCRIPT.replace("BATCHES", str(batches)))
    done = gputune("watch", "--quiet", "--no-stacks", "--out", out, "--", sys.executable, "train.py", sleep)
    assert done.returncode == 0, done.stderr
    return out


def test_a_run_against_itself_and_against_one_that_is_much_slower(gputune: Run, tmp_path: Path) -> None:
    quick, slow = (record(gputune, tmp_path, out, sleep) for out, sleep in (("quick", "0.005"), ("slow", "0.1")))
    same = gputune("compare", quick, quick)
    assert same.returncode == 0, same.stderr
    assert "differs beside the code" not in same.stdout
    assert "no verdict of its own" not in same.stdout
    assert "B is" not in same.stdout
    done = gputune("compare", quick, slow, "--anyway", "--json", "--fail-if-slower", "5%")
    found = json.loads(done.stdout)
    assert found["unit"] == "samples/s"
    assert {"what": "command", "a": "0.005", "b": "0.1"} in found["settings"]
    assert found["ratio"]["likely"] < 0.5
    # on CPUs that others fill one run a side tells nothing: then that is what is said
    assert (found["state"], done.returncode) in {("slower", 3), ("not-comparable", 1)}
    (tmp_path / "slow" / "findings.json").unlink()
    judged = gputune("compare", quick, slow, "--anyway")
    assert "slow has no verdict of its own: what was recorded was judged now" in " ".join(judged.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere", "nowhere"), "is no run"),
        (("empty", "empty"), "is no run"),
        (("file", "file"), "is no `findings.json`"),
        (("a",), "Missing"),
        (("empty", "empty", "--fail-if-slower", "often"), "is no percentage"),
        (("empty", "empty", "--fail-if-slower", "100%"), "is no percentage"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(gputune: Run, tmp_path: Path, arguments, says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    done = gputune("compare", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says.casefold() in done.stderr.casefold()
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr


def test_a_command_that_trains_nothing_has_no_pace(gputune: Run) -> None:
    gputune("watch", "--quiet", "--out", "none", "--", sys.executable, "-c", "print(1)")
    done = gputune("compare", "none", "none")
    assert done.returncode == 1
    assert "has no pace to be compared" in done.stderr


@pytest.mark.parametrize(
    ("after", "limit", "status", "says"),
    [
        ((80.0, 80.2, 79.8), "5%", 3, "slower by more than 5%, for sure"),
        ((99.0, 99.1, 98.9), "5", 0, "not slower by 5%"),
        ((94.0, 97.0, 88.0), "5%", 0, "would settle it"),
    ],
)
def test_a_gate_leaves_3_only_for_sure(gputune: Run, run: Make, after, limit, status, says) -> None:  # noqa: PLR0917
    for n, (old, new) in enumerate(zip((100.0, 100.2, 99.8), after, strict=True)):
        run(f"before/{n}", old, at=2 * n)
        run(f"after/{n}", new, at=2 * n + 1)
    done = gputune("compare", "before", "after", "--fail-if-slower", limit)
    assert (done.returncode, done.stderr) == (status, "")
    assert says in done.stdout


def test_a_gate_that_cannot_tell_has_not_passed(gputune: Run, run: Make) -> None:
    run("before", 100.0)
    run("after", 50.0, command=["python", "other.py"])
    done = gputune("compare", "before", "after", "--fail-if-slower", "5%")
    assert done.returncode == 1
    assert "the two are not comparable" in done.stderr
    assert gputune("compare", "before", "after", "--fail-if-slower", "5%", "--anyway").returncode == 3
