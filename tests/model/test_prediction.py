"""Predictions are ordered, finite and modest: they never exceed what machine, device and shared memory allow."""

import itertools
import math
from dataclasses import replace

import pytest

from gputune.core.figures import mean
from gputune.core.finding import Speedup
from gputune.features import Device, DeviceStep, Epoch, Features, Fetch, Loader, Machine, Process, Reads
from gputune.features.concurrent_loaders import Company
from gputune.model.measured_loop import ENDLESS
from gputune.model.offload import moved_to_workers
from gputune.model.pauses import pause_gain
from gputune.model.prediction import (
    ERROR,
    FIRST_S,
    MOST_TIMES,
    RESET_S,
    SPAWN_S,
    START_S,
    STOP_S,
    Outlook,
    Setting,
    interval,
    outlooks,
)
from gputune.model.remade import Lighter, cheaper, handed_over, without_waiting
from gputune.model.strangers import relieved
from gputune.model.workload import device_floor, device_time, step_queued_of

CARD = Device(index="0", name="Pretended")


def loader(*, workers: int = 2, cpu: float = 0.0, blocked: float = 0.020, step: float = 0.010, wait: float = 0.0005,
           batches: int = 200, **differs) -> Loader:  # fmt: skip
    """A loader of constant times."""
    plain = Loader(
        where="a.py:1", num_workers=workers, prefetch_factor=2 if workers else None, pin_memory=False,
        persistent_workers=False, batch_size=8, batches=batches, waits=(wait,) * 100, steps=(step,) * 100,
        fetches=(Fetch(wall=cpu + blocked, cpu=cpu, queued=0.0, collate=0.0, samples=8),) * 100,
        wait_total=wait * batches,
    )  # fmt: skip
    return replace(plain, **differs)


def outlook(
    mine: Loader, *, cpus: float = 8.0, ranks: int = 1, devices=(), works=(), loop: float = 0.0, in_loop=None, **machine
):
    """Return the outlook of a process with this one loader, whose loop takes what its batches take."""
    loop = loop or (sum(mine.waits) + sum(mine.steps)) / max(1, len(mine.waits)) * mine.batches
    process = Process(
        pid=1, rank=None, wall=loop, ledger={}, inclusive={}, loop=loop, batches=mine.batches, samples=0,
        optimizer_steps=0, loaders=(mine,), works=works, in_loop=in_loop or {},
    )  # fmt: skip
    host = Machine(cpus=cpus, cpus_seen=64, ranks=ranks, **machine)
    return Outlook(
        Features(command=("x",), wall=loop, machine=host, processes=(process,), devices=devices), process, mine
    )


def sane(speedup: Speedup) -> bool:
    return (
        all(math.isfinite(x) for x in (speedup.low, speedup.likely, speedup.high))
        and 0 < speedup.low <= speedup.likely <= speedup.high
    )


@pytest.mark.parametrize(("likely", "width"), [(1.0, 0.0), (2.0, 0.1), (50.0, 1.5), (1e9, 0.1)])
def test_an_interval_is_ordered_and_positive(likely, width) -> None:
    assert sane(interval(likely, width))


EXTREMES = list(
    itertools.product(
        (0, 1, 2, 16), (0.0, 1e-6, 0.5), (0.0, 1e-6, 2.0), (0.0, 1e-6, 1.0), (0.0, 1e-6, 0.3), (0.1, 64.0)
    )
)


@pytest.mark.parametrize("measured", EXTREMES[::7])
def test_no_prediction_is_absurd_whatever_was_measured(measured) -> None:
    workers, cpu, blocked, step, wait, cpus = measured
    mine = outlook(loader(workers=workers, cpu=cpu, blocked=blocked, step=step, wait=wait), cpus=cpus, loop=1.0)
    number, _persistent, speedup = mine.best_workers()
    assert 1 <= number <= 64
    prefetch, longer = mine.best_prefetch()
    assert 1 <= prefetch <= 16
    for each in (speedup, longer, without_waiting(mine), cheaper(mine, 0.5), relieved(mine, mine.now)):
        assert sane(each)
        assert each.likely <= MOST_TIMES


def test_the_present_settings_promise_nothing() -> None:
    mine = outlook(loader(workers=2, blocked=0.020, step=0.010))
    assert mine.gain(mine.now).likely == pytest.approx(1.0)


def test_what_the_model_cannot_explain_widens_the_interval_and_stays_in_the_loop() -> None:
    explained = outlook(loader(workers=1, blocked=0.040, step=0.010, wait=0.030))
    puzzling = outlook(explained.loader, loop=2 * explained.process.loop)
    more = Setting(4, 2, persistent=False)
    assert puzzling.gain(more).likely < explained.gain(more).likely
    width = [g.high / g.likely - 1 for g in (explained.gain(more), puzzling.gain(more))]
    assert width[0] < width[1]
    assert width[0] >= ERROR


def test_by_what_rounds_took_longer_than_their_replay_others_do_too_and_at_the_least_that_stays() -> None:
    mine = outlook(loader(workers=1, blocked=0.050, step=0.010, wait=0.050))
    now, fewer = mine.loop(mine.now), mine.loop(Setting(5, 2, persistent=False))
    found = mine.gain(Setting(5, 2, persistent=False))
    stays, goes = 0.060 * 200 / (fewer + 0.060 * 200 - now), now / fewer
    assert found.likely == pytest.approx(goes, rel=0.001)
    assert found.low < stays < found.likely < found.high


def test_the_more_a_prediction_leaves_out_of_a_round_the_less_sure_it_is() -> None:
    slow = outlook(loader(workers=1, cpu=0.0, blocked=0.4, step=0.001, wait=0.399))
    twice, often = (slow.gain(Setting(n, 2, persistent=False)) for n in (2, 32))
    assert often.likely > 12
    assert often.high / often.likely > twice.high / twice.likely + 0.15
    assert often.low / often.likely < twice.low / twice.likely - 0.15


def test_what_lies_between_rounds_stays() -> None:
    evaluated = outlook(loader(workers=1, blocked=0.050, step=0.010, wait=0.045), loop=2 * 0.055 * 200)
    fewer = evaluated.loop(Setting(5, 2, persistent=False))
    found = evaluated.gain(Setting(5, 2, persistent=False))
    assert evaluated.between == pytest.approx(0.055 * 200)
    assert found.high < 2 * 0.055 * 200 / fewer
    assert found.likely < 2 * 0.055 * 200 / (fewer + 0.9 * evaluated.between)


def test_a_loop_over_another_loader_stays_and_makes_nothing_unsure() -> None:
    """Of 24 s the first loader's loop has 14; what makes that three times as fast leaves the other's as it is."""
    first, second = loader(workers=0, blocked=0.060, step=0.010, wait=0.060), loader(where="a.py:2", wait=0.040)
    alone = outlook(first)
    process = replace(alone.process, loop=0.070 * 200 + 0.050 * 200, loaders=(first, second))
    both = Outlook(replace(alone.run, processes=(process,)), process, first)
    more = Setting(4, 2, persistent=False)
    saved = alone.process.loop * (1 - 1 / alone.gain(more).likely)
    assert both.gain(more).likely == pytest.approx(process.loop / (process.loop - saved), rel=0.02)
    assert both.gain(more).high / both.gain(more).likely < alone.gain(more).high / alone.gain(more).likely


def test_strangers_may_keep_the_cpus_that_they_use_for_themselves() -> None:
    """Work in Python beside a step of 13 ms: one worker, the training and a stranger are three threads on two CPUs."""
    making = loader(workers=0, cpu=0.011, blocked=0.0, step=0.013, wait=0.011, step_cpu=0.013)
    _, _, alone = outlook(making, cpus=2.0).best_workers()
    _, _, crowded = outlook(making, cpus=2.0, others=1.0).best_workers()
    assert alone.low > 1.2
    assert crowded.low < 1.0
    asleep = loader(workers=0, cpu=0.001, blocked=0.050, step=0.005, wait=0.051, step_cpu=0.005)
    _, _, beside = outlook(asleep, cpus=2.0, others=1.0).best_workers()
    assert beside.likely == pytest.approx(outlook(asleep, cpus=2.0).best_workers()[2].likely, rel=0.2)


def test_too_few_batches_or_fetches_are_not_known() -> None:
    assert outlook(loader()).known
    assert not outlook(loader(waits=(0.001,) * 7)).known
    assert not outlook(loader(waits=(0.001,) * 19, steps=(0.001, 0.1) * 9)).known
    assert not outlook(loader(fetches=())).known


def test_the_cpus_bound_workers_that_compute_but_not_those_that_wait() -> None:
    assert outlook(loader(cpu=0.020, blocked=0.0), cpus=4).fitting_workers() == 4
    assert outlook(loader(cpu=0.010, blocked=0.010), cpus=4).fitting_workers() == 8
    assert outlook(loader(cpu=0.0, blocked=0.010), cpus=1).fitting_workers() == 64
    assert outlook(loader(cpu=0.020, blocked=0.0), cpus=0.5).fitting_workers() == 1
    assert outlook(loader(cpu=0.020, blocked=0.0), cpus=8, ranks=4).fitting_workers() == 2


def test_shared_memory_bounds_workers_times_prefetch_for_all_ranks_together() -> None:
    tight = outlook(loader(batch_bytes=1_000_000), shm_free=20_000_000)
    assert tight.most_workers() == 8
    shared = outlook(loader(batch_bytes=1_000_000), shm_free=20_000_000, ranks=4)
    assert shared.most_workers() == 2
    assert outlook(loader(batch_bytes=1_000_000), shm_free=0).most_workers() == 1


def test_loaders_of_one_line_that_live_at_once_share_cpus_and_shared_memory() -> None:
    evaluated = loader(batch_bytes=1_000_000, company=Company(built=2, iterated=2))
    assert outlook(evaluated, shm_free=20_000_000).most_workers() == 4
    side_by_side = loader(cpu=0.020, blocked=0.0, company=Company(built=2, iterated=2, training=2))
    assert outlook(side_by_side, cpus=8).most_workers() == 4


def test_unknown_shared_memory_bounds_nothing() -> None:
    assert outlook(loader(cpu=0.0, batch_bytes=1_000_000)).most_workers() == 64
    assert outlook(loader(cpu=0.0), shm_free=1).most_workers() == 64
    without_tensors = loader(cpu=0.0, batch_bytes=1_000_000, batch_shared=False)  # through a pipe
    assert outlook(without_tensors, shm_free=1).most_workers() == 64


def test_a_large_batch_takes_longer_to_pass_the_queue() -> None:
    small, large = (outlook(loader(workers=0, batch_bytes=size)).job.delivery for size in (1_000, 600_000_000))
    assert large - small == pytest.approx(0.1, rel=0.01)


def test_starting_workers_costs_what_was_measured_for_each_of_them() -> None:
    epoch = Epoch(began=0, start=0.040, first_wait=0.050, shutdown=0.020, batches=50, seconds=1.0, complete=True)
    mine = outlook(loader(workers=2, blocked=0.020, epochs=(epoch,) * 4))
    first = 0.050 - 0.020 - mine.job.delivery  # making a batch and handing it over are replayed
    assert mine.starting(2) == pytest.approx(first + 0.060)
    assert mine.starting(4) == pytest.approx(first + 0.120)


@pytest.mark.parametrize(("method", "each"), [("fork", START_S), ("spawn", SPAWN_S), ("forkserver", SPAWN_S)])
def test_starting_workers_that_never_were_costs_what_is_known_of_torch(method, each) -> None:
    mine = outlook(loader(workers=0, start_method=method))
    assert mine.starting(3) == pytest.approx(FIRST_S + 3 * (each + STOP_S))


def test_workers_that_persist_pay_once() -> None:
    epoch = Epoch(began=0, start=0.040, first_wait=0.050, shutdown=0.020, batches=50, seconds=1.0, complete=True)
    mine = outlook(loader(workers=2, blocked=0.020, epochs=(epoch,) * 4))
    again, once = (mine.loop(Setting(2, 2, persistent=p)) for p in (False, True))
    assert again - once == pytest.approx(3 * (mine.starting(2) - 2 * RESET_S) + mine.ending(2))  # at the end, after it


def test_workers_that_persist_pay_once_for_each_loader_that_is_built() -> None:
    epoch = Epoch(began=0, start=0.040, first_wait=0.050, shutdown=0.020, batches=50, seconds=1.0, complete=True)
    passes = tuple(replace(epoch, fresh=fresh) for fresh in (True, False, True, False))
    mine = outlook(loader(workers=2, blocked=0.020, epochs=passes))
    never, each, once = (
        mine.loop(Setting(2, 2, persistent=p, once=o)) for p, o in ((False, False), (True, False), (True, True))
    )
    assert never - each == pytest.approx(2 * (mine.starting(2) - 2 * RESET_S) + mine.ending(2))
    assert never - once == pytest.approx(3 * (mine.starting(2) - 2 * RESET_S) + mine.ending(2))


def test_what_setting_lasting_workers_to_work_costs_is_measured_where_they_last() -> None:
    epoch = Epoch(began=0, start=0.002, first_wait=0.040, shutdown=0.0, batches=50, seconds=1.0, complete=True)
    lasting = outlook(replace(loader(workers=2, blocked=0.020, epochs=(epoch,) * 4), persistent_workers=True))
    assert lasting.resetting(2) == pytest.approx(0.002 + 0.020 - lasting.job.delivery)


def test_workers_that_start_one_after_the_other_hold_up_the_first_batches() -> None:
    epoch = Epoch(began=0, start=0.040, first_wait=0.050, shutdown=0.020, batches=50, seconds=1.0, complete=True)
    at_once = outlook(loader(workers=3, blocked=0.020, epochs=(epoch,) * 4))
    late = outlook(loader(workers=3, blocked=0.020, epochs=(replace(epoch, others_first=0.300),) * 4))
    usual = 2 * mean(late.loader.waits)
    assert late.starting(3) - at_once.starting(3) == pytest.approx(0.300 - usual)


def test_epochs_that_are_not_kept_count_in_proportion() -> None:
    epoch = Epoch(began=0, start=0.0, first_wait=0.0, shutdown=0.0, batches=50, seconds=1.0, complete=True)
    four = outlook(loader(workers=0, epochs=(epoch,) * 4, batches=200))
    eight = outlook(loader(workers=0, epochs=(epoch,) * 4, batches=400))
    assert eight.loop(eight.now) == pytest.approx(2 * four.loop(four.now))


def passed(batches: int, *, complete: bool = False) -> Epoch:
    """A pass at 250 ms a batch."""
    seconds = batches * 0.25
    return Epoch(began=0, start=0, first_wait=0, shutdown=0, batches=batches, seconds=seconds, complete=complete)


def slow(*passes: Epoch, **differs) -> Loader:
    """A loader that sleeps for 240 ms a batch, in the training process."""
    batches = sum(epoch.batches for epoch in passes)
    return loader(workers=0, blocked=0.240, wait=0.240, batches=batches, epochs=passes, **differs)


def test_what_a_pass_under_way_pays_once_counts_for_all_of_it() -> None:
    eight = Setting(8, 2, persistent=False)
    early = outlook(slow(passed(20), length=400)).gain(eight)
    late = outlook(slow(passed(400, complete=True), length=400)).gain(eight)
    assert early.likely == pytest.approx(late.likely, rel=0.001)
    over = outlook(slow(passed(20), length=400))
    cut = Outlook(replace(over.run, exit_code=0), over.process, over.loader)
    assert cut.to_come == 0
    assert cut.gain(eight).likely < 0.8 * late.likely


def test_a_pass_under_way_will_be_as_long_as_those_before_it_or_as_the_loader_says() -> None:
    assert outlook(slow(passed(50), passed(20), length=400)).to_come == 30
    assert outlook(slow(passed(50), passed(60), length=400)).to_come == 0
    assert outlook(slow(passed(20), length=400)).to_come == 380
    assert outlook(slow(passed(400, complete=True), length=400)).to_come == 0
    assert outlook(slow(passed(20))).to_come == ENDLESS - 20


def test_the_devices_own_clock_is_believed_before_nvml() -> None:
    mine = outlook(loader(), devices=(replace(CARD, busy=0.9),), works=(0.002, 0.004))
    assert device_time(mine.run, mine.process, 0.010) == pytest.approx(0.003)


def test_no_setting_goes_below_a_devices_kernels_and_copies_where_these_were_measured() -> None:
    mine = outlook(loader())
    timed = DeviceStep(timed=50, whole=0.05, starved=0.03, copying=0.001, compute=0.012, read_waits=0.0, copy_waits=0.0)
    process = replace(mine.process, works=(0.02,) * 50, device_step=timed)
    assert device_floor(mine.run, process, 0.05) == pytest.approx(0.013)
    gaps = replace(process, device_step=replace(timed, compute=None))
    assert device_floor(mine.run, gaps, 0.05) == pytest.approx(0.02)


def test_the_device_time_is_the_mean_of_the_devices_that_could_be_read() -> None:
    devices = (replace(CARD, busy=0.4), replace(CARD, busy=None), replace(CARD, busy=0.6))
    mine = outlook(loader(), devices=devices)
    assert device_time(mine.run, mine.process, 0.010) == pytest.approx(0.005)
    assert device_time(outlook(loader()).run, mine.process, 0.010) == 0.0


def test_a_busy_device_is_a_floor_for_every_setting() -> None:
    mine = outlook(loader(workers=1, blocked=0.040, step=0.010, wait=0.030), devices=(replace(CARD, busy=0.95),))
    for workers in (2, 8, 64):
        assert mine.gain(Setting(workers, 4, persistent=True)).likely < 1.06


def test_a_crowd_of_strangers_shows_in_how_long_makers_of_batches_queue() -> None:
    queueing = (Fetch(wall=0.020, cpu=0.010, queued=0.010, collate=0.0, samples=8),) * 100
    crowded = outlook(loader(workers=0, fetches=queueing, step=0.0, wait=0.020), cpus=2, others=1.5)
    assert crowded.job.others == pytest.approx(3.0)
    alone = outlook(loader(workers=0, fetches=queueing, step=0.0, wait=0.020), cpus=2, others=0.0)
    assert alone.job.others == 0.0


def test_no_more_strangers_want_to_run_than_stand_in_the_queues_for_what_they_use() -> None:
    late = (Fetch(wall=0.020, cpu=0.010, queued=0.010, collate=0.0, samples=8),) * 100  # by whom or what, nobody knows
    mine = outlook(loader(workers=0, fetches=late, step=0.0, wait=0.020), cpus=2, others=0.3)
    assert mine.job.others == pytest.approx(2 * 0.3)


def test_what_the_host_of_a_virtual_machine_takes_from_work_needs_the_cpu_like_the_work() -> None:
    made = (Fetch(wall=0.020, cpu=0.015, queued=0.0, collate=0.0, samples=8),) * 100
    mine = outlook(loader(fetches=made, step=0.010, step_cpus=(0.0075,) * 20), cpus=2, busy=1.0, stolen=0.25)
    for work, seconds in ((mine.job.fetches[0], 0.020), (mine.job.steps[0], 0.010)):
        assert (work.cpu, work.blocked) == pytest.approx((seconds, 0.0), abs=1e-9)
    sleeping = outlook(loader(cpu=0.001, blocked=0.020), cpus=2, busy=1.0, stolen=0.5)
    assert sleeping.job.fetches[0].blocked == pytest.approx(0.020)


def test_batches_that_take_next_to_no_cpu_say_little_about_the_crowd() -> None:
    tiny = (Fetch(wall=0.0011, cpu=1e-6, queued=0.001, collate=0.0, samples=8),) * 100
    mine = outlook(loader(workers=0, fetches=tiny, step=0.010, step_cpu=0.010, wait=0.0011), cpus=4, others=0.3)
    assert mine.job.others <= 40


def test_only_training_loaders_of_which_enough_is_known_have_an_outlook() -> None:
    mine = outlook(loader())
    silent = replace(mine.process, loaders=(loader(training=False), loader(waits=())))
    both = replace(mine.run, processes=(silent, mine.process))
    assert [o.process.pid for o in outlooks(both)] == [1]


def test_the_most_waited_for_comes_first() -> None:
    mine = outlook(loader())
    two = replace(
        mine.process, loaders=(loader(where="a.py:1", wait_total=1.0), loader(where="a.py:2", wait_total=5.0))
    )
    found = outlooks(replace(mine.run, processes=(two,)))
    assert [o.loader.where for o in found] == ["a.py:2", "a.py:1"]


def test_of_ranks_that_run_the_same_line_the_one_that_waits_most_stands_for_all() -> None:
    mine = outlook(loader())
    ranks = tuple(replace(mine.process, pid=n, loaders=(loader(wait_total=float(n)),)) for n in range(8))
    assert [o.process.pid for o in outlooks(replace(mine.run, processes=ranks))] == [7]


def test_no_pause_promises_nothing() -> None:
    mine = outlook(loader())
    assert pause_gain(mine.run, mine.process, "checkpoint", 0.1).likely == 1.0


def test_work_moved_to_workers_cannot_gain_more_than_it_took() -> None:
    mine = outlook(loader(workers=2, blocked=0.001, step=0.020, step_cpu=0.020))
    _workers, speedup = moved_to_workers(mine.run, mine.process, 0.015)
    assert 1.5 < speedup.likely <= 0.0205 / 0.005 * 1.05


def test_work_moved_to_workers_is_as_much_as_it_is_without_a_crowd_in_its_way() -> None:
    """Two CPUs, of which four others take the most: a step of 10 ms of CPU lasts 40 ms, and 8 ms of it are moved."""
    crowded = outlook(
        loader(workers=1, blocked=0.001, step=0.040, step_cpus=(0.010,) * 20, step_queued=0.030), cpus=2, others=1.5
    )
    _workers, speedup = moved_to_workers(crowded.run, crowded.process, 0.032)
    assert 1.1 < speedup.likely < 2.5


def test_work_that_takes_the_whole_step_is_not_promised_the_moon() -> None:
    mine = outlook(loader(workers=2, blocked=0.001, step=0.020, step_cpu=0.020))
    _workers, speedup = moved_to_workers(mine.run, mine.process, 5.0)
    assert sane(speedup)
    assert speedup.likely <= 50


def test_the_cpu_time_read_at_both_ends_of_steps_is_believed_before_the_share_of_the_loop() -> None:
    """Threads that spin while the training waits for a batch use CPU that no step needs."""
    spinning = outlook(loader(workers=1, step=0.010, step_cpu=0.040, step_cpus=(0.012,) * 20))
    assert spinning.step_cpu == pytest.approx(0.012)
    assert spinning.job.steps[0].width == pytest.approx(1.2)
    assert outlook(loader(workers=1, step=0.010, step_cpu=0.040)).step_cpu > 0.030


def test_a_step_of_several_threads_that_was_measured_among_others_is_quicker_alone() -> None:
    """Of two threads each had a CPU for four fifths of the time: both for less, and the first waited for the other."""
    crowded = loader(workers=1, step=0.012, step_cpus=(0.018,) * 20, step_queued=0.0024)
    (step, *_) = outlook(crowded, cpus=2).job.steps
    assert step.width == pytest.approx(2.0, abs=0.1)
    assert step.cpu + step.blocked == pytest.approx(0.0096 * 0.8, rel=0.1)
    alone = loader(workers=1, step=0.010, step_cpus=(0.020,) * 20)
    assert outlook(alone, cpus=2).job.steps[0].cpu == pytest.approx(0.010, rel=0.1)


def test_a_handover_that_was_measured_is_believed() -> None:
    measured = outlook(loader(workers=2, deliveries=(0.003,) * 50, wait=0.003))
    assert measured.job.delivery == pytest.approx(0.003)
    slept = outlook(loader(workers=2, deliveries=(0.003,) * 50, wait=0.050))
    assert slept.job.delivery == pytest.approx(0.003)


def test_what_a_handover_waits_for_its_maker_is_no_work_of_the_training() -> None:
    """A worker that holds the GIL hands over when its next batch is done, and the step of the training begins cold."""
    late = loader(workers=1, cpu=0.020, blocked=0.0, step=0.004, wait=0.020, step_cpus=(0.004,) * 20)
    late = replace(late, deliveries=(0.019,) * 50)
    held = outlook(replace(late, next_cpus=(0.001,) * 20))
    assert outlook(late).job.delivery > 0.010
    assert held.job.delivery < 0.002
    assert outlook(replace(late, next_cpus=(0.001,) * 20, pin_memory=True)).job.delivery > 0.010
    usual = replace(late, deliveries=(0.0002,) * 50, next_cpus=(0.001,) * 20, ready=(0.0014, 0.0015, 0.0031) * 10)
    assert outlook(usual).job.delivery == pytest.approx(0.001)  # its own CPU time, however late what lay ready comes
    untold = replace(usual, next_cpus=())
    assert outlook(untold).job.delivery == pytest.approx(0.0015)  # as batches do that lay ready


def test_without_workers_the_time_in_next_is_making_and_no_hand_over() -> None:
    inline = loader(workers=0, cpu=0.020, blocked=0.0, step=0.004, wait=0.020, next_cpus=(0.020,) * 20)
    assert outlook(inline).job.delivery < 0.002
    _workers, _persistent, speedup = outlook(inline, cpus=2).best_workers()
    assert speedup.likely > 1.5


def test_one_slow_pick_of_the_batch_sampler_leaves_known_what_getting_a_batch_costs() -> None:
    """In the mean it picks in 3 us; only where it took a good part of next() is that told by too few steps."""
    late = loader(workers=1, cpu=0.020, blocked=0.0, step=0.004, wait=0.020, deliveries=(0.019,) * 50)
    late = replace(late, next_cpus=(0.001,) * 20)
    assert outlook(replace(late, picks=(0.0,) * 99 + (0.0003,))).job.delivery < 0.002
    assert outlook(replace(late, picks=(0.0009,) * 100)).job.delivery > 0.010


def test_no_batch_takes_longer_to_get_than_half_of_all_waits() -> None:
    """Right after a start of workers batches lay ready, and were late nonetheless: most waits were short."""
    young = loader(workers=4, wait=0.001, ready=(0.008,) * 30)
    assert outlook(young).job.delivery == pytest.approx(0.001)


@pytest.mark.parametrize("evaluating", [0.0, 0.1, 0.6])
def test_what_lies_between_rounds_is_no_makers_own(evaluating) -> None:
    """Two makers of 30 ms, 29 of them in collate_fn, and steps of 4: of 15 ms a round and some evaluations 5 stay."""
    found = loader(workers=2, cpu=0.030, blocked=0.0, step=0.004, wait=0.011, step_cpus=(0.004,) * 20)
    found = replace(found, fetches=tuple(replace(f, collate=0.029) for f in found.fetches), deliveries=(0.001,) * 50)
    mine = outlook(found, loop=0.015 * 200 * (1 + evaluating))
    most = 0.015 * (1 + evaluating) / (0.004 + 0.015 * evaluating)
    assert handed_over(mine, Lighter(1.0, 0.0011)).likely < most


def test_who_saves_nothing_is_promised_nothing_whatever_the_model_cannot_explain() -> None:
    waits = ((0.0002,) * 9 + (0.020,)) * 10
    uneven = loader(workers=4, cpu=0.010, blocked=0.0, step=0.010, waits=waits, step_cpus=(0.010,) * 20)
    assert handed_over(outlook(uneven, cpus=8), Lighter(0.0, 1.0)).likely == pytest.approx(1.0, abs=0.01)


def test_batches_that_had_come_before_they_were_due_say_nothing_of_what_getting_one_takes() -> None:
    """Four of which one is waited for: the others are taken in 20 us, but their memory was opened before."""
    early = (0, 3, 2, 1)
    held = loader(workers=4, waits=(0.0145, 0.00002, 0.00002, 0.00002) * 25, ready=(0.0025,) * 30, early=early * 25)
    assert outlook(held).job.delivery == pytest.approx(0.0025)


def test_getting_a_batch_takes_what_it_does_where_nobody_holds_it_up_and_no_less_than_it_computes() -> None:
    """Threads are woken for each tensor; in three of four batches somebody stands in line for a CPU besides."""
    smooth = (0.0012,) * 20 + (0.003,) * 40
    held = loader(workers=1, next_cpus=(0.0008,) * 20, smooth=smooth)
    assert outlook(held).job.delivery == pytest.approx(0.0012)
    assert outlook(replace(held, smooth=(0.0003,) * 40)).job.delivery == pytest.approx(0.0008)
    assert outlook(replace(held, smooth=smooth[:12])).job.delivery == pytest.approx(0.0008)  # too few to tell


def test_how_late_a_maker_at_work_hands_over_is_known_from_those_that_it_let_go_of() -> None:
    """As with lives of which some go on when the count ends: all time over the number of ends."""
    held = loader(workers=1, hindered=(0.101,) * 8, freed=(0.050,) * 8, after=(0.001,) * 8, unhindered=(0.001,) * 30)
    assert outlook(held).job.late == pytest.approx((0.8 + 0.4) / 8)
    assert outlook(replace(held, hindered=(), freed=(0.020,) * 40)).job.late == pytest.approx(
        0.8
    )  # never while it works
    assert outlook(replace(held, hindered=(0.001,) * 40, freed=())).job.late == pytest.approx(0.0)
    assert outlook(replace(held, hindered=(0.101,) * 2, freed=())).job.late == 0.0  # too few to tell


def test_where_makers_hold_the_gil_arriving_is_what_comes_after_they_let_go_of_it() -> None:
    held = loader(
        workers=1, wait=0.0203, hindered=(), freed=(0.018,) * 50, after=(0.0023,) * 50, deliveries=(0.0203,) * 50
    )
    assert outlook(held).job.delivery == pytest.approx(0.0023)


def test_a_step_queues_no_longer_than_computing_and_pauses_leave_room_for() -> None:
    """The queue is known of the whole loop; of a step that was timed on both clocks it is known better."""
    timed = loader(step=0.020, step_cpus=(0.008,) * 20, step_queued=0.009, pauses={"logging": (0.010,) * 100})
    assert step_queued_of(timed) == pytest.approx(0.002)
    assert step_queued_of(replace(timed, step_cpus=())) == pytest.approx(0.009)


def test_threads_that_spin_for_each_other_do_not_explain_away_the_queue_of_the_first() -> None:
    """Two threads on one CPU: the process computes all of the time, and its first thread queues for half of it."""
    tangled = loader(step=0.020, wait=0.0, step_cpus=(0.0195,) * 20, step_queued=0.0095)
    assert step_queued_of(tangled) == pytest.approx(0.0095)
    alone = loader(step=0.020, wait=0.0, step_cpus=(0.0195,) * 20, step_queued=0.0015)
    assert step_queued_of(alone) == pytest.approx(0.0005)


def test_a_loop_without_its_pauses_is_held_against_the_loader_at_its_present_pace() -> None:
    """Two workers that need 15 ms a batch between them, and a pause of 10 ms in which they catch up."""
    kept = loader(workers=2, blocked=0.030, step=0.015, wait=0.001, pauses={"logging": (0.010,) * 100})
    held = outlook(kept, in_loop={"logging": 0.010 * kept.batches})
    gain = pause_gain(held.run, held.process, "logging", 0.01)
    assert gain.likely == pytest.approx(0.016 / 0.015, rel=0.05)
    free = outlook(replace(kept, fetches=loader(blocked=0.001).fetches), in_loop={"logging": 0.010 * kept.batches})
    assert pause_gain(free.run, free.process, "logging", 0.01).likely > 2


def test_the_outlooks_of_a_run_are_made_once_and_never_of_another_run() -> None:
    mine = outlook(loader())
    assert outlooks(mine.run)[0] is outlooks(mine.run)[0]
    again = replace(mine.run, wall=mine.run.wall + 1)
    assert outlooks(again)[0].run is again
    assert outlooks(mine.run)[0].run is mine.run


def test_batches_that_come_late_because_the_cpus_are_crowded_are_not_slow_to_hand_over() -> None:
    crowd = (Fetch(wall=0.080, cpu=0.010, queued=0.070, collate=0.001, samples=8),) * 100
    late = loader(workers=2, fetches=crowd, wait=0.028, step=0.030, deliveries=(0.002,) * 50 + (0.040,) * 50)
    assert handed_over(outlook(late, cpus=2, others=1.7), Lighter(0.0, 0.0011)).likely < 1.1
    alone = replace(late, fetches=loader(cpu=0.010, blocked=0.0).fetches)
    assert handed_over(outlook(alone, cpus=2), Lighter(0.0, 0.0011)).likely > 1.2


def locked(held: float, locked_out: float, workers: int) -> Loader:
    """A loader whose batches take 30 ms of waiting for a store, in `held` of which a lock is held."""
    reads = (Reads(wall=0.030, samples=8, opens=0, opening=0.0, held=held, locked_out=locked_out),) * 20
    return loader(workers=workers, blocked=0.030 + locked_out, wait=0.020, step=0.005, reads=reads)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_lock_that_all_workers_want_lets_one_of_them_work(workers: int) -> None:
    mine = outlook(locked(0.028, 0.028 if workers > 1 else 0.0, workers))
    assert mine.gain(Setting(4, 2, persistent=False)).likely < 1.15


def test_workers_that_never_wait_for_a_lock_have_each_its_own() -> None:
    mine = outlook(locked(0.028, 0.0, 2))
    assert mine.gain(Setting(4, 2, persistent=False)).likely > 1.4


def test_a_lock_that_is_hardly_held_is_no_matter() -> None:
    mine = outlook(locked(0.001, 0.0, 1))
    assert mine.gain(Setting(4, 2, persistent=False)).likely > 2.0


def test_a_batch_sampler_that_queues_for_a_cpu_is_no_more_work_for_it() -> None:
    """10 ms of CPU in each 30 ms of next(); the training queues for the rest, beside strangers."""
    mine = outlook(
        loader(wait=0.030, step=0.010, step_cpus=(0.010,) * 20, picks=(0.030,) * 100, next_cpus=(0.010,) * 20,
               step_queued=0.020)
    )  # fmt: skip
    assert [(pick.cpu, pick.blocked) for pick in set(mine.job.picks)] == [(pytest.approx(0.010), pytest.approx(0.0))]


def test_one_that_waits_for_something_needs_no_cpu_meanwhile() -> None:
    mine = outlook(loader(wait=0.030, picks=(0.030,) * 100, next_cpus=(0.003,) * 20))
    assert [(pick.cpu, pick.blocked) for pick in set(mine.job.picks)] == [(pytest.approx(0.003), pytest.approx(0.027))]


@pytest.mark.parametrize(("cpus", "workers"), [(2, 1), (3, 2)])
def test_work_is_moved_to_as_many_workers_as_leave_the_step_its_cpu(cpus: int, workers: int) -> None:
    """28 ms of work beside a step of 16: three threads on two CPUs do not share them evenly."""
    inline = loader(workers=0, cpu=0.0001, blocked=0.0, wait=0.0001, step=0.044, step_cpus=(0.044,) * 20)
    mine = outlook(inline, cpus=cpus)
    assert moved_to_workers(mine.run, mine.process, 0.028)[0] == workers


def test_workers_that_wait_for_storage_are_not_taken_for_threads_that_want_a_cpu() -> None:
    waiting = loader(workers=4, cpu=0.001, blocked=0.060, wait=0.005, step=0.015, step_cpus=(0.015,) * 20)
    mine = outlook(waiting, cpus=2)
    assert moved_to_workers(mine.run, mine.process, 0.008)[0] >= 4
