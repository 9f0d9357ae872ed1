"""straggling-worker speaks when batches that are there are held up by an earlier one."""

from dataclasses import replace

import pytest

from gputune.advisors.straggling_worker import advise, has_in_order, slow_worker
from gputune.features import Features, Fetch

# Three workers; of forty batches one takes 800 ms and the others 8 ms; a step takes 10 ms.
HELD_UP = {
    "num_workers": 3,
    "fetches": [(0.0, 0.008)] * 39 + [(0.0, 0.800)],
    "step": 0.010,
    "waits": [0.0005] * 39 + [0.750],
    "early": [0] * 39 + [5],
}


def with_torch(run: Features, version: str) -> Features:
    return replace(run, processes=tuple(replace(p, torch=version) for p in run.processes))


def fetch(worker: int, wall: float) -> Fetch:
    return Fetch(wall=wall, cpu=wall, queued=0.0, collate=0.0, samples=1, worker=worker)


def test_is_silent_when_all_batches_take_the_same_time(run) -> None:
    assert list(advise(run(num_workers=3, blocked=0.100, step=0.010, early=[1] * 40))) == []


def test_is_silent_when_nothing_was_ever_held_up(run) -> None:
    assert list(advise(run(**{**HELD_UP, "early": [0] * 40}))) == []


def test_is_silent_when_the_queue_hides_the_slow_ones(run) -> None:
    assert list(advise(run(**{**HELD_UP, "waits": [0.0003]}))) == []


def test_is_silent_about_one_worker_and_about_none(run) -> None:
    for workers in (0, 1):
        assert list(advise(run(**{**HELD_UP, "num_workers": workers}))) == []


def test_is_silent_where_batches_come_as_they_are_made(run) -> None:
    told = run(**HELD_UP)
    process = told.processes[0]
    loose = replace(process, loaders=(replace(process.loaders[0], in_order=False),))
    assert list(advise(replace(told, processes=(loose,)))) == []


def test_names_the_slow_batches_and_what_another_order_buys(run) -> None:
    (finding,) = advise(run(**HELD_UP))
    assert finding.id == "straggling-worker"
    assert finding.change == {"in_order": False}
    assert finding.effect == "changes-order"
    assert finding.speedup.likely > 1.8
    assert finding.evidence["slow_batches"] == pytest.approx(1 / 40)
    assert finding.evidence["held_up"] == pytest.approx(1 / 40)


def test_an_older_torch_cannot_do_it(run) -> None:
    (finding,) = advise(with_torch(run(**HELD_UP), "2.5.1+cu124"))
    assert finding.change == {}
    assert "slow samples" in finding.do


@pytest.mark.parametrize(
    ("torch", "has"),
    [("2.6.0", True), ("2.13.0+cpu", True), ("3.0", True), ("2.5.1", False), ("1.13.1", False), ("", True)],
)
def test_knows_which_torch_has_it(torch: str, has: bool) -> None:
    assert has_in_order(torch) is has


def test_a_worker_that_is_slower_than_all_others_is_named() -> None:
    fetches = [fetch(w, 0.3 if w == 2 else 0.1) for w in range(4) for _ in range(6)]
    assert slow_worker(tuple(fetches)) == (2, pytest.approx(3.0))


def test_slow_samples_that_any_worker_may_get_are_no_slow_worker() -> None:
    fetches = [fetch(w, 1.0 if k == 3 else 0.1) for w in range(4) for k in range(6)]
    assert slow_worker(tuple(fetches)) is None
    assert slow_worker(tuple(fetch(0, 0.1) for _ in range(20))) is None
    assert slow_worker(()) is None
