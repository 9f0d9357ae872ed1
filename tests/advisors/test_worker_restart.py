"""worker-restart speaks when every epoch pays for its workers anew."""

import pytest

from gputune.advisors.worker_restart import advise

# Ten epochs of twenty steps of 10 ms: 0.2 s of work, and 0.1 s to start and stop.
SHORT = {
    "num_workers": 4,
    "blocked": 0.010,
    "step": 0.010,
    "batches": 200,
    "epochs": 10,
    "start": 0.060,
    "first_wait": 0.020,
    "shutdown": 0.030,
}


def test_is_silent_about_workers_that_persist(run) -> None:
    assert list(advise(run(**SHORT, persistent=True))) == []


def test_is_silent_without_workers(run) -> None:
    assert list(advise(run(**{**SHORT, "num_workers": 0}))) == []


def test_two_epochs_are_no_habit(run) -> None:
    assert list(advise(run(**{**SHORT, "epochs": 2}))) == []


def test_promises_next_to_nothing_to_long_epochs(run) -> None:
    (finding,) = advise(run(**{**SHORT, "batches": 20_000}))
    assert finding.speedup.likely < 1.01


def test_names_what_an_epoch_pays_and_what_it_buys(run) -> None:
    (finding,) = advise(run(**SHORT))
    assert finding.id == "worker-restart"
    assert finding.change == {"persistent_workers": True}
    assert finding.effect == "changes-order"
    assert finding.evidence["restart_s"] == pytest.approx(0.100, rel=0.05)
    assert finding.evidence["epochs"] == 10
    assert finding.speedup.likely == pytest.approx(0.31 / 0.22, rel=0.1)
