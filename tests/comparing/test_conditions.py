"""What differs beside the code."""

from typing import Any

import pytest

from gputune.comparing.conditions import conditions
from gputune.comparing.sides import side
from gputune.verdict.document import CpuRow, DeviceTotals, Settings, TriedRow, Tuned
from tests.comparing.conftest import Make, rank

OWN = Settings(num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False)
TRIED = TriedRow(settings=OWN, predicted=None, samples_per_s=1.0, low=1.0, high=1.0, state="ok")


def found(run: Make, **other: Any) -> dict[str, tuple[str, str, bool]]:
    """What differs between a run and another one, by what it is."""
    one, two = run("a"), run("b", **other)
    return {row.what: (row.a, row.b, row.forbids) for row in conditions(side(str(one)), side(str(two)))}


def test_nothing_differs_between_equal_runs(run: Make) -> None:
    assert found(run) == {}


@pytest.mark.parametrize(
    ("other", "what", "a", "b"),
    [
        ({"command": ["python", "eval.py"]}, "script", "train", "eval"),
        (
            {"device": DeviceTotals(name="NVIDIA A100", busy=0.4, count=1)},
            "device",
            "1 x NVIDIA H200",
            "1 x NVIDIA A100",
        ),
        ({"device": DeviceTotals(name=None, busy=None)}, "device", "1 x NVIDIA H200", "none"),
        ({"cpu": CpuRow(allowed=2.0, job=1.0, others=0.0)}, "CPUs", "8", "2"),
        ({"processes": [rank(0), rank(1)]}, "ranks", "1", "2"),
        ({"processes": [rank(0, world=4)]}, "ranks", "1", "1 of 4"),
        ({"tuned": Tuned(mode="all", state="kept", tries=[TRIED])}, "tuned", "no", "switched while it ran"),
    ],
)
def test_what_forbids_a_comparison(run: Make, other: dict[str, Any], what: str, a: str, b: str) -> None:
    assert found(run, **other) == {what: (a, b, True)}


def test_units_differ_where_one_run_does_not_tell_its_batch_sizes(run: Make) -> None:
    assert found(run, rate=None, batches=900, processes=[rank()])["unit"] == ("samples/s", "batches/s", True)


def test_versions_and_settings_of_the_environment_are_told(run: Make) -> None:
    told = {"gputune": "2.0", "environment": {"NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "7"}}
    assert found(run, about=told) == {"gputune": ("1.0", "2.0", False), "NCCL_DEBUG": ("-", "set", False)}


def test_where_a_run_ran_is_told(run: Make) -> None:
    here = {"host": "m8", "memory": 2**36, "driver": "580.1", "training": {"python": "3.11.7", "torch": "2.12"}}
    there = {"host": "m9", "memory": 2**36, "driver": "580.1", "training": {"python": "3.11.7", "torch": "2.13"}}
    one, two = (side(str(run(name, about=about))) for name, about in (("a", here), ("b", there)))
    assert [(row.what, row.a, row.b) for row in conditions(one, two)] == [
        ("host", "m8", "m9"),
        ("torch", "2.12", "2.13"),
    ]


def test_what_an_older_run_does_not_tell_is_no_difference(run: Make) -> None:
    assert found(run, about={"gputune": None, "environment": None}, cpu=None) == {}


def test_neighbours_count_where_less_than_half_of_the_cpus_is_free(run: Make) -> None:
    assert found(run, cpu=CpuRow(allowed=8.0, job=1.0, others=2.9)) == {}
    crowd = CpuRow(allowed=8.0, job=2.0, others=5.6)
    told = {row.what: row for row in conditions(side(str(run("c"))), side(str(run("d", cpu=crowd))))}
    assert (told["neighbours' share of the CPUs"].b, told["neighbours' share of the CPUs"].forbids) == ("70%", False)


def test_stolen_time_is_told(run: Make) -> None:
    assert found(run, stolen=0.12) == {"stolen CPU time": ("0%", "12%", False)}
