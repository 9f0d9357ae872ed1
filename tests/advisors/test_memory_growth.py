"""memory-growth speaks when memory creeps up to its end within a day, and says when."""

from dataclasses import replace

import pytest

from gputune.advisors.memory_growth import advise
from gputune.core.finding import Severity
from gputune.features import Allocator, Device, Features, OutOfMemory, Trend

GB, MB = 1_000_000_000, 1_000_000


def trend(rate: float, *, low: float | None = None, seconds: float = 60.0) -> Trend:
    """A growth from 2 GB on by `rate` B/s."""
    surely = 0.9 * rate if low is None else low
    return Trend(rate=rate, low=surely, high=1.1 * rate, first=2 * GB, last=2 * GB + seconds * rate, seconds=seconds)


def growing(
    run, found: Trend | None, *, left: int = 90 * GB, epochs: int = 2, exit_code: int = 0, kills: int = 0
) -> Features:
    """A training whose own memory moves like that, with so much left of 100 GB."""
    told = run(num_workers=2, blocked=0.010, epochs=epochs, batches=400)
    machine = replace(told.machine, memory_total=100 * GB, memory_free=left)
    loops = tuple(replace(p, memory=found) for p in told.processes)
    return replace(told, machine=machine, processes=loops, exit_code=exit_code, oom_kills=(kills, "machine"))


def test_is_silent_about_memory_that_stays_or_was_not_measured(run) -> None:
    assert list(advise(growing(run, None))) == []
    assert list(advise(growing(run, trend(0.0)))) == []


def test_is_silent_about_growth_that_is_not_sure(run) -> None:
    assert list(advise(growing(run, trend(5 * MB, low=-1.0)))) == []


def test_is_silent_about_what_an_allocator_does(run) -> None:
    assert list(advise(growing(run, trend(0.3 * MB)))) == []
    assert list(advise(growing(run, trend(50 * MB, seconds=2.0)))) == []


def test_is_silent_about_growth_that_takes_longer_than_a_day(run) -> None:
    assert list(advise(growing(run, trend(0.9 * MB), left=90 * GB))) == []


def test_is_silent_while_a_dataset_may_keep_its_first_pass(run) -> None:
    told = growing(run, trend(5 * MB), epochs=1)
    process = told.processes[0]
    loader = process.loaders[0]
    first = replace(loader.epochs[0], batches=400, complete=False)
    loaders = (replace(loader, samples_in_dataset=32 * 500, epochs=(first,)),)
    assert list(advise(replace(told, processes=(replace(process, loaders=loaders),)))) == []


def test_names_the_pace_and_the_end(run) -> None:
    (finding,) = advise(growing(run, trend(50 * MB), left=9 * GB))
    assert finding.id == "memory-growth"
    assert "from 2 GB to 5 GB" in finding.says
    assert "9 GB are left of 100 GB" in finding.risk
    assert finding.due == pytest.approx(200.0)
    assert finding.severity is Severity.HIGH
    assert finding.evidence["growth_bytes_per_s"] == 50 * MB


def mapped(run: Features, room: float, rate: float = 0.0) -> Features:
    """Return it with so much memory asked for beyond what is held at last, and that growing, too."""

    def asked(held: Trend) -> Trend:
        return replace(trend(rate), last=held.last + room)

    loops = tuple(replace(p, mapped=asked(p.memory)) for p in run.processes if p.memory)
    return replace(run, processes=loops)


def test_an_array_that_fills_ends_where_it_is_full(run) -> None:
    fills = growing(run, trend(50 * MB), left=9 * GB)
    assert list(advise(mapped(fills, 4 * GB))) == []
    assert len(list(advise(mapped(fills, 12 * GB)))) == 1  # larger than what is left
    assert len(list(advise(mapped(fills, 4 * GB, rate=50 * MB)))) == 1  # it is asked for as it grows


def test_a_later_end_is_less_severe(run) -> None:
    (finding,) = advise(growing(run, trend(5 * MB)))
    assert finding.severity is Severity.MEDIUM


def test_ranks_grow_together_and_are_told_once(run) -> None:
    told = growing(run, trend(50 * MB), left=9 * GB)
    (finding,) = advise(replace(told, processes=told.processes * 2))
    assert finding.due == pytest.approx(100.0)


def test_a_device_that_fills_is_named(run, device) -> None:
    def card(rate: float) -> Device:
        return device(memory_total=80 * GB, memory=trend(rate))

    told = growing(run, None)
    assert list(advise(replace(told, devices=(card(0.0),)))) == []
    (finding,) = advise(replace(told, devices=(card(50 * MB),)))
    assert "memory of GPU 0 (Pretended H200)" in finding.says
    assert finding.evidence["left_bytes"] == pytest.approx(75 * GB)


def test_a_run_that_was_killed_has_come_to_its_end(run) -> None:
    (finding,) = advise(growing(run, trend(50 * MB), left=GB, exit_code=137, kills=1))
    assert finding.due == 0.0
    assert "the run was killed" in finding.risk


def test_a_kill_that_the_kernel_did_not_count_may_be_a_batch_systems(run) -> None:
    (finding,) = advise(growing(run, trend(50 * MB), left=GB, exit_code=137))
    assert finding.due == pytest.approx(1000 / 45)
    assert "killed" not in finding.risk


def test_nobody_is_killed_for_want_of_a_devices_memory(run, device) -> None:
    told = growing(run, None, exit_code=137, kills=1)
    (finding,) = advise(replace(told, devices=(device(memory_total=80 * GB, memory=trend(50 * MB)),)))
    assert finding.due > 0
    assert "killed" not in finding.risk


def holding(told: Features, live: Trend | None, *, reserved: int = 9 * GB) -> Features:
    """The same run, of which torch's allocator tells what tensors hold of GPU 0."""
    pool = Allocator(index="0", live=live, last=5 * GB, least=2 * GB, peak=6 * GB, reserved=reserved)
    return replace(told, processes=tuple(replace(p, allocators=(pool,)) for p in told.processes))


def test_what_an_allocator_caches_is_no_growth(run, device) -> None:
    told = replace(growing(run, None), devices=(device(memory_total=80 * GB, memory=trend(50 * MB)),))
    assert list(advise(holding(told, trend(0.0)))) == []


def test_what_tensors_hold_of_a_device_is_told_and_what_is_cached_counts_as_left(run, device) -> None:
    told = replace(growing(run, None), devices=(device(memory_total=80 * GB, memory=trend(50 * MB)),))
    (finding,) = advise(holding(told, trend(40 * MB)))
    assert "what tensors hold of GPU 0 (Pretended H200) grew from 2 GB to 4.4 GB in 60" in finding.says
    assert finding.evidence["left_bytes"] == pytest.approx(78 * GB)


def test_what_tensors_hold_is_told_of_a_run_too_short_for_nvml_to_tell(run, device) -> None:
    card = device(memory_total=80 * GB, memory=None, memory_used=6 * GB)
    (finding,) = advise(holding(replace(growing(run, None), devices=(card,)), trend(40 * MB)))
    assert finding.evidence["left_bytes"] == pytest.approx(77 * GB)
    unknown = device(memory_total=80 * GB, memory=None, memory_used=None)
    assert list(advise(holding(replace(growing(run, None), devices=(unknown,)), trend(40 * MB)))) == []


def test_a_dataset_keeps_nothing_on_a_device_where_workers_make_the_batches(run, device) -> None:
    told = replace(growing(run, None, epochs=1), devices=(device(memory_total=80 * GB, memory=trend(40 * MB)),))
    process = told.processes[0]
    loader = replace(process.loaders[0], samples_in_dataset=32 * 500)
    first = replace(loader.epochs[0], batches=400, complete=False)

    def of(workers: int) -> Features:
        made = (replace(loader, epochs=(first,), num_workers=workers),)
        return holding(replace(told, processes=(replace(process, loaders=made),)), trend(40 * MB))

    assert list(advise(of(workers=0))) == []
    assert [finding.id for finding in advise(of(workers=2))] == ["memory-growth"]


def test_growth_that_a_device_ran_out_of_is_told_whatever_time_it_took(run, device) -> None:
    steps = Trend(rate=GB, low=GB, high=GB, first=2 * GB, last=70 * GB, seconds=68.0)
    found = OutOfMemory(
        gpu="0", index="0", pid=1, rank=None, where="train.py:31", asked=2 * GB, live=78 * GB, reserved=79 * GB,
        free=GB // 2, total=80 * GB, growth=steps,
    )  # fmt: skip
    told = replace(growing(run, None, exit_code=1), devices=(device(memory_total=80 * GB),), out_of_memory=(found,))
    told = replace(told, processes=tuple(replace(p, pid=1) for p in told.processes))
    (finding,) = advise(told)
    assert "what tensors hold of GPU 0 grew from 2 GB to 70 GB in 68 steps, by 1 GB a step" in finding.says
    assert "the run ended for want of memory" in finding.risk
    assert finding.due == 0.0
    assert finding.evidence["growth_bytes_per_step"] == GB
    caught = replace(told, out_of_memory=(replace(found, went_on=True),))
    assert list(advise(caught)) == []
