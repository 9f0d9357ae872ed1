"""What gputune can change by itself, and what it says of the rest."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.errors import GputuneError
from gputune.core.finding import NO_CHANGE, Finding, Speedup
from gputune.features import Features, Loader, Machine, Process
from gputune.proving.asked import NoSuchFinding, NothingToProve, NotOurs, ReplayedRun, Switched, asked, runnable

LOADER = Loader(
    where="data.py:7",
    num_workers=0,
    prefetch_factor=None,
    pin_memory=False,
    persistent_workers=False,
    batch_size=8,
    wait_total=9.0,
)
OTHER = replace(LOADER, where="data.py:9", wait_total=1.0)
RUN = Features(
    command=("python", "train.py"),
    wall=10.0,
    machine=Machine(cpus=2, cpus_seen=2),
    processes=(
        Process(
            pid=1,
            rank=None,
            wall=10.0,
            ledger={},
            inclusive={},
            loop=9.0,
            batches=90,
            samples=720,
            optimizer_steps=90,
            loaders=(OTHER, LOADER),
        ),
    ),
)


def finding(name: str = "few-workers", **more: object) -> Finding:
    plain = {
        "says": "it waits",
        "do": "set num_workers=4",
        "share_lost": 0.5,
        "speedup": Speedup(low=1.8, likely=2.0, high=2.2),
        "basis": "b",
        "falsified_by": "f",
        "effect": "same-order",
        "evidence": {"n": 1.0},
        "where": "data.py:7",
        "change": {"num_workers": 4},
    }
    return Finding(**{"id": name, **plain, **more})


def what(*findings: Finding, **more: object) -> ReplayedRun:
    about = {"folder": Path("run"), "command": RUN.command, "cwd": "/", "run": RUN, "findings": findings}
    return ReplayedRun(**{**about, **more})


def test_settings_of_a_loader_become_a_rule_for_that_loader() -> None:
    assert what().rules(finding()) == [{"where": "data.py:7", "set": {"num_workers": 4}, "duplicates": False}]
    (rule,) = what().rules(finding(where="elsewhere.py:1", effect="may-duplicate"))
    assert (rule["where"], rule["duplicates"]) == ("data.py:7", True)


def test_of_a_change_that_is_partly_the_script_s_the_settings_become_the_rule() -> None:
    (rule,) = what().rules(finding("unpinned-memory", change={"pin_memory": True, "non_blocking": True}))
    assert rule["set"] == {"pin_memory": True}


@pytest.mark.parametrize("change", [{}, {"save_every": 50}])
def test_a_change_of_the_script_is_the_user_s_and_told_how_to_compare(change) -> None:
    with pytest.raises(NotOurs) as refused:
        what().rules(finding("frequent-checkpoint", change=change, do="save every 50 steps"))
    assert "save every 50 steps" in str(refused.value)
    assert "gputune watch --out run-changed -- python train.py" in refused.value.hint
    assert "gputune prove run frequent-checkpoint --against run-changed" in refused.value.hint
    assert refused.value.status == 2


def test_the_best_finding_is_meant_where_none_is_named_and_a_risk_is_none() -> None:
    risk = finding("small-shm", risk="full in an hour", speedup=NO_CHANGE)
    asked = what(risk, finding(), finding("low-prefetch"))
    assert asked.finding("top").id == "few-workers"
    assert asked.finding("Low-Prefetch").id == "low-prefetch"
    with pytest.raises(NoSuchFinding, match="worker-restart"):
        asked.finding("worker-restart")
    with pytest.raises(NothingToProve):
        what(risk).finding("top")


def test_of_several_with_one_id_the_place_tells_which() -> None:
    asked = what(finding(where="a.py:3"), finding(where="b.py:9"), finding("low-prefetch", where="b.py:9"))
    assert asked.finding("few-workers").where == "a.py:3"
    assert asked.finding("few-workers@b.py:9").where == "b.py:9"
    with pytest.raises(NoSuchFinding) as refused:
        asked.finding("few-workers@b.py:10")
    assert refused.value.hint == "it has `few-workers@a.py:3`, `few-workers@b.py:9`, `low-prefetch`"


def test_a_command_with_secrets_has_to_be_given_again() -> None:
    with pytest.raises(GputuneError, match="secrets") as refused:
        runnable(what(command=("python", "train.py", "--token", "***")))
    assert "-- CMD" in refused.value.hint


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(GputuneError, match="not there any more"):
        runnable(what(cwd=str(tmp_path / "gone")))


def test_a_run_whose_loader_was_switched_meanwhile_proves_nothing(tmp_path: Path) -> None:
    about = {"schema_version": 1, "unix_minus_monotonic_ns": 0, "tuned": {"state": "kept", "tries": [{}]}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    with pytest.raises(Switched, match="was switched while it ran"):
        asked(tmp_path)


def test_what_ran_in_a_notebook_cannot_be_run_again(tmp_path: Path) -> None:
    kernel = ("python", "-m", "ipykernel_launcher", "-f", "kernel-1.json")
    what = ReplayedRun(folder=tmp_path, command=kernel, cwd=str(tmp_path), run=RUN, findings=())
    with pytest.raises(GputuneError, match="was recorded in a notebook"):
        runnable(what)
