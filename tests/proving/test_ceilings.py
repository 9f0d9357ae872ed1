"""Of which findings a proof by difference says anything."""

from pathlib import Path

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Machine
from gputune.proving.asked import NoSuchFinding, ReplayedRun
from gputune.proving.ceilings import NotAbout, about_loading, about_reading

RUN = Features(command=("python", "train.py"), wall=10.0, machine=Machine(cpus=2, cpus_seen=2))


def finding(name: str) -> Finding:
    return Finding(
        id=name,
        says="it waits",
        do="change it",
        share_lost=0.5,
        speedup=Speedup(low=1.8, likely=2.0, high=2.2),
        basis="b",
        falsified_by="f",
        effect="identical",
        evidence={"n": 1.0},
    )


def what(*names: str) -> ReplayedRun:
    """A run with these findings, the best first."""
    found = tuple(map(finding, names))
    return ReplayedRun(folder=Path("run"), command=RUN.command, cwd="/", run=RUN, findings=found)


@pytest.mark.parametrize("name", ["frequent-checkpoint", "worker-restart", "small-batch"])
def test_a_ceiling_of_loading_is_held_against_nothing_else(name: str) -> None:
    with pytest.raises(NotAbout, match=f"says nothing of `{name}`") as refused:
        about_loading(what(name), name)
    assert refused.value.status == 2
    assert f"`gputune prove run {name}`" in refused.value.hint


def test_a_finding_about_loading_is_held_against_the_ceiling() -> None:
    asked = what("worker-restart", "frequent-checkpoint", "slow-sampler", "few-workers")
    assert about_loading(asked, "few-workers").id == "few-workers"
    assert about_loading(asked, None).id == "slow-sampler"  # the best of which it says anything
    assert about_loading(asked, "top").id == "slow-sampler"
    assert about_loading(what("frequent-checkpoint"), None) is None
    with pytest.raises(NoSuchFinding):
        about_loading(asked, "low-prefetch")


def test_what_files_cost_is_held_against_findings_about_storage_alone() -> None:
    asked = what("few-workers", "small-files", "cold-cache")
    assert about_reading(asked, None, "warm") is None
    assert about_reading(asked, "cold-cache", "warm").id == "cold-cache"
    assert about_reading(asked, "top", "warm").id == "cold-cache"
    for name in ("few-workers", "small-files"):
        with pytest.raises(NotAbout, match=f"`--cache cold` measures .* says nothing of `{name}`"):
            about_reading(asked, name, "cold")
