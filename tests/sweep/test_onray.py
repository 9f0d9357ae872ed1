"""Trials as tasks of a Ray cluster: what each asks for, who runs where, and what is said where it cannot be."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputune.core.isolation import own_python
from gputune.experiment.budget import Budget
from gputune.experiment.script import Script
from gputune.experiment.starting import State
from gputune.sweep.onray import Cluster, FarStarter, TooMuch, TrialResources

GPUTUNE = own_python("from gputune.__main__ import main; main()")
PATIENCE = 280.0  # s; only a hang ends here: each trial is a new worker of Ray, and imports torch

SCRIPT = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 8 * 4000
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.tensor(float(i % 7))

def main():
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for batch in DataLoader(Slow(), batch_size=8):
        loss = ((weight - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.004)  # whatever the batch: twice the size is twice the samples

if __name__ == "__main__":
    main()
"""


def nodes(*told: tuple[str, float, float]) -> Any:
    """Pretend a Ray with nodes of so many CPUs and GPUs."""
    rows = [
        {"NodeID": name, "Alive": True, "NodeManagerHostname": name, "Resources": {"CPU": cpus, "GPU": gpus}}
        for name, cpus, gpus in told
    ]
    return SimpleNamespace(nodes=lambda: rows, remote=lambda what: what)


def cluster(share: TrialResources, *told: tuple[str, float, float]) -> Cluster:
    return Cluster(nodes(*told), share, lambda _: None)


def test_by_default_a_trial_has_a_node_to_itself() -> None:
    found = cluster(TrialResources(), ("a", 16, 2), ("b", 16, 2), ("c", 8, 0))
    first = found.nodes[0]
    assert TrialResources().of(first) == (16.0, 1.0)
    assert [node.name for node in found.alike(first)] == ["a", "b"]
    assert found.places(found.alike(first)) == 2


def test_a_node_may_be_parted() -> None:
    share = TrialResources(cpus=4.0, gpus=0.5)
    found = cluster(share, ("a", 16, 1))
    assert found.places(found.nodes) == 2
    assert cluster(TrialResources(cpus=4.0), ("c", 8, 0)).places(found.nodes) == 1


def test_what_no_node_has_is_refused_in_numbers() -> None:
    with pytest.raises(TooMuch, match="no node of the cluster has 64 CPUs: the largest has 16 CPUs and 2 GPUs"):
        cluster(TrialResources(cpus=64.0), ("a", 16, 2), ("b", 8, 0))
    with pytest.raises(TooMuch, match="there is none"):
        cluster(TrialResources())
    assert [node.name for node in cluster(TrialResources(gpus=1.0), ("a", 16, 2), ("b", 8, 0)).nodes] == ["a"]


def test_trials_that_may_run_anywhere_go_where_fewest_run() -> None:
    found = cluster(TrialResources(), ("a", 8, 0), ("b", 8, 0))
    with found.place(found.nodes) as first, found.place(found.nodes) as second:
        assert {first.name, second.name} == {"a", "b"}
        with found.place([first]) as third:
            assert third is first


class Busy:
    """A Ray on whose one node nothing ever begins."""

    def __init__(self) -> None:
        self.killed: list[object] = []
        strategy = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda **_: None)
        self.util = SimpleNamespace(scheduling_strategies=strategy)

    def nodes(self) -> list[dict[str, Any]]:
        return nodes(("a", 8, 0)).nodes()

    def remote(self, what: object) -> Any:
        actor = SimpleNamespace(start=SimpleNamespace(remote=lambda *_: what))
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: actor))

    def wait(self, references: list[object], timeout: float) -> tuple[list[object], list[object]]:
        return [], references

    def kill(self, actor: object) -> None:
        self.killed.append(actor)


def test_a_trial_that_waits_for_its_turn_ends_with_the_budget(tmp_path: Path) -> None:
    ray, budget = Busy(), Budget(total=10.0, spent=0.0)
    found = Cluster(ray, TrialResources(), lambda _: None)
    script = Script(command=("train.py",), cwd=str(tmp_path))
    starter = FarStarter(
        script=script, folder=tmp_path, within=60.0, seed=1, budget=budget, cluster=found, node=found.nodes[0]
    )
    budget._began -= 60.0
    start = starter.start(starter.plan(seconds=1.0), "profile")
    assert (start.state, start.why) == (State.FAILED, budget.words())
    assert len(ray.killed) == 1
    with found.place(found.nodes) as node:
        assert found._running[node.id] == 1


def plain() -> dict[str, str]:
    """Return our environment without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}


def sweep(folder: Path, address: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*GPUTUNE, "sweep-loader", "--python", sys.executable, "--ray", address, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=plain(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_cluster_sweeps_sizes_side_by_side_and_several_scripts(tmp_path: Path, ray_cluster) -> None:
    address = ray_cluster({"num_cpus": 1}, {"num_cpus": 1})
    (tmp_path / "train.py").write_text(SCRIPT)
    done = sweep(tmp_path, address, "--batch-sizes", "8,64", "--csv", "all.csv", "--json", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["best"]["batch_size"] == 64
    assert found["node"]
    assert [(row["batch_size"], row["state"]) for row in found["trials"] if row["replayed"]] == [(8, "ok"), (64, "ok")]
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert len(rows) == len(found["trials"])
    assert rows == list(csv.DictReader((Path(found["folder"]) / "trials.csv").open()))
    assert len({row["node"] for row in rows if row["replayed"] == "1"}) == 2  # side by side, on nodes that are alike
    assert "no node of the cluster has a GPU" in done.stderr
    assert sorted(file.name for file in Path(found["folder"]).glob("*.log"))

    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    two = sweep(tmp_path, address, "--json", "--budget", "20s", "--", "train.py --epochs 1", "--", "bad.py --no")
    assert two.returncode == 1, two.stderr
    one, other = json.loads(two.stdout)["sweeps"]
    assert one["sweep"]["baseline"]["samples_per_s"] > 0, two.stderr
    assert (other["sweep"], "status 3" in other["error"]) == (None, True)

    away = sweep(tmp_path / "..", address, str(tmp_path / "none.py"))
    assert (away.returncode, "does not exist" in away.stderr) == (2, True)
    too_much = sweep(tmp_path, address, "--ray-gpus", "1", "train.py")
    assert (too_much.returncode, "no node of the cluster has 1 GPUs" in too_much.stderr) == (2, True)
    assert not any("Traceback" in each.stderr for each in (done, two, away, too_much))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ray", "nowhere", "train.py"], "is no address of a Ray cluster"),
        (["--ray", "auto", "--ray-cpus", "0", "train.py"], "is no number of CPUS"),
        (["--each-node", "train.py"], "are for a cluster"),
        (["--ray", "auto", "--each-node", "--apply", "train.py"], "change one script"),
        (["--where", "a.py:3", "--", "train.py a", "--", "train.py b"], "a line of one script"),
        (["--csv", "no/where.csv", "train.py"], "does not exist"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_runs(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')")
    command = [*GPUTUNE, "sweep-loader", "--python", sys.executable, *arguments]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=plain(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, says in done.stderr, "hint: " in done.stderr) == (2, True, True), done.stderr
    assert "it ran" not in done.stderr + done.stdout
