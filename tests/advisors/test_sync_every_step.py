"""sync-every-step speaks when the device idles because the host waits for it, step after step."""

from dataclasses import replace

import pytest

from gputune.advisors.sync_every_step import advise
from gputune.features import Copy, Features, Place

READ = Place(span="sync", where="train.py:58", what="Tensor.item", count=400, seconds=3.6)


@pytest.fixture
def reading(run, device):
    """A run of steps of 20 ms, of which 9 are spent in reading the loss; the device computes for 12."""

    def build(*, busy: float | None = 0.6, syncs=(0.009,), places=(READ,), **more) -> Features:
        card = device(busy=busy)
        pauses = {"sync": syncs, **more.pop("pauses", {})}
        devices = more.pop("devices", (card,))
        return run(
            num_workers=4,
            blocked=0.001,
            waits=(0.0,),
            step=0.020,
            pauses=pauses,
            places=places,
            devices=devices,
            **more,
        )

    return build


def test_is_silent_without_a_device(reading) -> None:
    assert list(advise(reading(devices=()))) == []
    assert list(advise(reading(busy=None))) == []


def test_is_silent_about_readings_that_take_no_time_or_are_rare(reading) -> None:
    assert list(advise(reading(syncs=(0.0002,)))) == []
    assert list(advise(reading(syncs=(*(0.0,) * 49, 0.5)))) == []


def test_is_silent_about_what_is_no_reading(reading) -> None:
    assert list(advise(reading(places=()))) == []


def test_is_silent_before_the_warm_up_is_over(reading) -> None:
    assert list(advise(reading(batches=7, kept=7))) == []


def test_promises_nothing_where_the_device_is_busy_all_the_time(reading) -> None:
    (finding,) = advise(reading(busy=0.98))
    assert finding.speedup.likely < 1.03


def test_names_the_place_and_what_the_host_could_do_meanwhile(reading) -> None:
    (finding,) = advise(reading())
    assert finding.id == "sync-every-step"
    assert finding.where == "train.py:58"
    assert "each step waits 9 ms for the device (Tensor.item): it computes 12 ms of 20" in finding.says
    assert "every 50 steps" in finding.do
    assert finding.speedup.likely == pytest.approx(20 / 12.16, rel=0.01)  # the device's 12, and 8 more in one of fifty
    assert finding.speedup.low < 1.5 < finding.speedup.likely
    assert finding.effect == "identical"


def test_other_places_are_named_and_rare_ones_are_not(reading) -> None:
    twice = replace(READ, where="train.py:60", what="Tensor.cpu", seconds=0.2)
    rare = replace(READ, where="train.py:90", count=2, seconds=9.0)
    (finding,) = advise(reading(places=(rare, READ, twice)))
    assert finding.where == "train.py:58"
    assert "also at train.py:60" in finding.says
    assert "train.py:90" not in finding.says


def test_a_synchronize_is_taken_out_and_not_made_rarer(reading) -> None:
    (finding,) = advise(reading(places=(replace(READ, what="torch.cuda.synchronize"),)))
    assert "torch.cuda.Event" in finding.do


def test_copies_that_are_waited_for_join_host_and_device_too(reading) -> None:
    """Without the reading the host would wait in the copy instead: both have to go."""
    copy = Copy(where="train.py:50", what="Tensor.to", count=400, seconds=1.2, size=10**9, pinned=0.0, non_blocking=0.0)
    found = reading()
    (process,) = found.processes
    (finding,) = advise(replace(found, processes=(replace(process, copies=(copy,)),)))
    assert "non_blocking=True" in finding.do
    assert finding.speedup.low < 1.3
    unattended = replace(copy, pinned=1.0, non_blocking=1.0)
    (finding,) = advise(replace(found, processes=(replace(process, copies=(unattended,)),)))
    assert "non_blocking=True" not in finding.do


def test_an_evaluations_readings_are_not_the_steps(reading) -> None:
    """One step in forty holds an evaluation, with hundreds of readings."""
    syncs = (*(0.0,) * 39, 0.4)
    assert list(advise(reading(syncs=syncs, pauses={"evaluation": (*(0.0,) * 39, 0.5)}))) == []


def test_a_loop_without_a_loader_is_known_by_its_sum(reading) -> None:
    found = reading()
    (process,) = found.processes
    bare = replace(process, loaders=(), in_loop={"sync": 3.6}, batches=0)
    (finding,) = advise(replace(found, processes=(bare,)))
    assert finding.evidence["sync_s"] == pytest.approx(0.009)
