"""How long trials are, and what is said where the change was not made."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.core.pace import Pace
from gputune.experiment.timeline import WARM_UP
from gputune.features import Epoch, Features, Loader, Machine, Process
from gputune.proving import trials
from gputune.proving.asked import ReplayedRun
from gputune.proving.changing import BATCHES, Effort, NotMade, _check, planned, prove
from gputune.proving.trials import Trial, TrialPlan, turns

LOADER = Loader(
    where="t.py:7",
    num_workers=2,
    prefetch_factor=2,
    pin_memory=False,
    persistent_workers=False,
    batch_size=8,
    wait_total=9.0,
)


def epochs(*lengths: int, complete: bool = True) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(began=0.0, start=0.1, first_wait=0.1, shutdown=0.1, batches=n, seconds=1.0, complete=complete)
        for n in lengths
    )


def asked(folder: Path, loader: Loader = LOADER) -> ReplayedRun:
    process = Process(
        pid=1,
        rank=None,
        wall=10.0,
        ledger={"startup": 4.0},
        inclusive={},
        loop=6.0,
        batches=90,
        samples=720,
        optimizer_steps=90,
        loaders=(loader,),
    )
    run = Features(command=("t",), wall=10.0, machine=Machine(cpus=2, cpus_seen=2), processes=(process,))
    return ReplayedRun(folder=folder, command=("t",), cwd="/", run=run, findings=())


def finding(**change: int | bool) -> Finding:
    return Finding(
        id="few-workers",
        says="it waits",
        do="do",
        share_lost=0.5,
        speedup=Speedup(low=1.8, likely=2.0, high=2.2),
        basis="b",
        falsified_by="f",
        effect="same-order",
        evidence={"n": 1.0},
        where="t.py:7",
        change=change,
    )


@pytest.mark.parametrize(
    ("change", "lengths", "skip", "timed"),
    [
        ({"num_workers": 1}, (1000,), 2 * 2 + 2, BATCHES),  # four batches lie ready, as it is
        ({"num_workers": 8, "prefetch_factor": 4}, (1000,), 8 * 4 + 2, BATCHES),
        ({"persistent_workers": True}, (100, 100), 100, 300),
        ({"num_workers": 8}, (10, 10, 10), 20, BATCHES),  # whole epochs
        ({"num_workers": 8}, (30, 30), 30, 90),
        ({"persistent_workers": True}, (100_000,), 500, 1500),
        ({"num_workers": 1}, (), 6, BATCHES),
    ],
)
def test_a_trial_is_as_long_as_its_queues_and_epochs_need(tmp_path: Path, change, lengths, skip, timed) -> None:
    plan = planned(asked(tmp_path, replace(LOADER, epochs=epochs(*lengths))), finding(**change))
    assert (plan.skip, plan.batches - plan.skip) == (skip, timed)
    assert plan.timed == "t.py:7"


def test_an_epoch_that_was_broken_off_has_no_length(tmp_path: Path) -> None:
    plan = planned(asked(tmp_path, replace(LOADER, epochs=epochs(30, complete=False))), None)
    assert (plan.skip, plan.batches - plan.skip) == (2 * 2 + 2, BATCHES)


@pytest.mark.parametrize(
    ("waits", "timed"),
    [
        ((0.5,) * 100, BATCHES),
        ((0.01,) * 100, 50),  # three seconds
        ((0.0, 0.0, 0.0, 0.4) * 25, 400),
        ((9.0, 0.1) * 50, BATCHES),
        ((0.0, 0.04) * 50, 348),
    ],
)
def test_the_more_batches_vary_the_more_of_them_are_timed_within_a_minute(tmp_path: Path, waits, timed) -> None:
    plan = planned(asked(tmp_path, replace(LOADER, waits=waits, steps=(0.05,) * 100)), None)
    assert plan.batches - plan.skip == timed


def test_a_trial_lasts_with_the_change_too(tmp_path: Path) -> None:
    what, found = asked(tmp_path, replace(LOADER, waits=(0.01,) * 100, steps=(0.05,) * 100)), finding(num_workers=2)
    assert planned(what, found).batches - planned(what, found).skip == 100  # 3 s of 60 ms, twice as fast


def test_so_many_batches_as_are_asked_for_are_timed(tmp_path: Path) -> None:
    what = asked(tmp_path, replace(LOADER, num_workers=0, prefetch_factor=None, epochs=epochs(10)))
    plan = planned(what, None, 12)
    assert (plan.skip, plan.batches) == (WARM_UP, WARM_UP + 12)


def test_each_proof_has_a_private_folder_of_its_own(tmp_path: Path) -> None:
    folders = [planned(asked(tmp_path), None).folder for _ in range(2)]
    assert [folder.name for folder in folders] == ["proof-1", "proof-2"]
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)


def trial(*notes: dict[str, object]) -> Trial:
    pace = Pace(1.0, parts=(1.0,) * 10, batches=10, seconds=1.0)
    return Trial(variant="changed", pace=pace, exit_code=0, log="f.log", notes=notes)  # type: ignore[arg-type] # as JSON


def test_a_change_that_was_not_made_is_no_proof() -> None:
    made = {"n": "override", "where": "t.py:7", "change": {"num_workers": 4}, "refused": {}}
    _check(trial(made, {"n": "trial", "batches": 10}), finding(num_workers=4))
    with pytest.raises(NotMade, match=r"no loader was built at t.py:7"):
        _check(trial({"n": "trial", "batches": 10}), finding(num_workers=4))
    with pytest.raises(NotMade, match="has these settings already"):
        _check(trial({**made, "change": {}}), finding(num_workers=4))
    refused = {**made, "change": {}, "refused": {"num_workers": "its dataset is a stream"}}
    with pytest.raises(NotMade, match="its dataset is a stream"):
        _check(trial(refused), finding(num_workers=4))


@pytest.mark.parametrize(
    ("part", "predicted"),
    [
        (None, None),
        (Speedup(low=1.1, likely=1.2, high=1.3), (1.1, 1.2, 1.3)),
        (Speedup(low=1, likely=2, high=9), (1, 2, 2.2)),
    ],
)
def test_settings_alone_are_held_against_what_they_bring_alone(monkeypatch, tmp_path: Path, part, predicted) -> None:
    """A finding whose change is partly the script's: nothing is promised of the settings that is not known of them."""
    made = {"n": "override", "where": "t.py:7", "change": {"pin_memory": True}, "refused": {}}
    asks: list[dict[str, object]] = []

    def run(_plan: TrialPlan, _variant: str, *, rules: Sequence[dict[str, object]] = ()) -> Trial:
        asks.extend(rules)
        return trial(made)

    monkeypatch.setattr(trials, "run", run)
    mixed = replace(finding(pin_memory=True, non_blocking=True), part=part)
    proof = prove(asked(tmp_path), mixed, Effort(pairs=1))
    assert [rule["set"] for rule in asks] == [{"pin_memory": True}]
    assert proof.change == {"pin_memory": True}
    assert proof.says == "few-workers, changed to pin_memory=True alone: non_blocking=True is set in the script"
    told = proof.predicted
    assert (told and (told.low, told.likely, told.high)) == predicted
    assert proof.state == ("measured" if part is None else "short" if part.low > 1 else "held")


def test_a_change_that_is_all_settings_is_held_against_the_finding(monkeypatch, tmp_path: Path) -> None:
    made = {"n": "override", "where": "t.py:7", "change": {"num_workers": 4}, "refused": {}}
    monkeypatch.setattr(trials, "run", lambda _plan, _variant, *, rules=(): trial(made))
    proof = prove(asked(tmp_path), finding(num_workers=4), Effort(pairs=1))
    assert (proof.says, proof.predicted.likely) == ("few-workers, changed to num_workers=4", 2.0)


@pytest.mark.parametrize(("rests", "order"), [(False, "ABBABA"), (True, "ABABAB")])
def test_both_kinds_take_turns_until_there_are_pairs_enough(*, rests: bool, order: str) -> None:
    ran: list[str] = []

    def kind(name: str, rate: float) -> Callable[[], Trial]:
        def run() -> Trial:
            ran.append(name)
            return Trial(variant=name, pace=Pace(rate, parts=(rate,) * 10), exit_code=0, log=f"{len(ran)}.log")

        return run

    said: list[str] = []
    found = turns(kind("A", 100.0), kind("B", 200.0), lambda _: 3, said.append, rests=rests)
    assert "".join(ran) == order
    assert [row.variant for row in found.rows] == ["A", "B"] * 3
    assert found.realised.likely == pytest.approx(2.0)
    assert said[0] == "A: 100 samples/s"
