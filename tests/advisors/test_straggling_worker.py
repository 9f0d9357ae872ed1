"""straggling-worker speaks when batches that are there are held up by an earlier one."""

from dataclasses import replace

import pytest

from gputune.advisors.straggling_worker import advise, has_in_order
from gputune.features import Features, Fetch
from gputune.model.prediction import outlooks

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


def fetch(worker: int, wall: float, cpu: float) -> Fetch:
    return Fetch(wall=wall, cpu=cpu, queued=0.0, collate=0.0, samples=1, worker=worker)


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


def in_parts(run: Features, slow: int = 1, *, iterable: bool = True) -> Features:
    """Three workers of which one makes each of its batches slowly: by itself it takes as long as the whole loop."""
    process = run.processes[0]
    loader = process.loaders[0]
    made = tuple(fetch(k % 3, 0.100 if k % 3 == slow else 0.003, cpu=0.003) for k in range(200))
    loader = replace(loader, iterable=iterable, fetches=made, early=(2, 0, 0) * 60)
    return replace(run, processes=(replace(process, loaders=(loader,)),))


# A third of the batches takes 100 ms, all of them one worker's: a round of three steps lasts as long.
FAR_SITE = {"num_workers": 3, "step": 0.012, "waits": [0.0640, 0.0005, 0.0005]}


def test_a_slow_part_of_an_iterable_dataset_is_to_be_shared_out(run) -> None:
    (finding,) = advise(in_parts(run(**FAR_SITE)))
    assert finding.change == {}
    assert "worker 1" in finding.do
    assert "33 times" in finding.says
    assert finding.effect == "changes-order"
    assert 2.0 < finding.speedup.likely < 0.101 / 0.036  # at most the pace of three steps
    assert finding.speedup.low > 1.2  # where all workers make their shares of the slow part at once


def test_no_order_of_delivery_is_said_to_make_a_slow_part_shorter(run) -> None:
    (outlook,) = outlooks(in_parts(run(**FAR_SITE)))
    assert outlook.out_of_order().likely < 1.05
    assert outlook.best_prefetch()[1].likely < 1.05
    assert outlook.loop(outlook.now) == pytest.approx(outlook.process.loop, rel=0.1)


def test_slow_samples_of_a_dataset_with_an_index_belong_to_no_worker(run) -> None:
    (outlook,) = outlooks(in_parts(run(**FAR_SITE), iterable=False))
    assert outlook.shared_out() is None
    (finding,) = advise(in_parts(run(**FAR_SITE), iterable=False))
    assert finding.change == {"in_order": False}


def test_slow_batches_of_any_worker_of_an_iterable_dataset_still_ask_for_another_order(run) -> None:
    (finding,) = advise(run(**HELD_UP, iterable=True))
    assert finding.change == {"in_order": False}


def test_an_iterable_dataset_whose_queue_hides_its_slow_part_is_let_alone(run) -> None:
    healthy = {**FAR_SITE, "step": 0.040, "waits": [0.0005]}
    assert list(advise(in_parts(run(**healthy)))) == []
