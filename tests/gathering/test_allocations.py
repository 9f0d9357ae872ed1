"""What torch's allocator told of a process: what is live between steps, and how it came to run out."""

import pytest

from gputune.core.events import Kind, OomCode, SpanCode

MIB = 2**20
CARD = {"n": "card", "device": 0, "uuid": "GPU-1", "total": 4096 * MIB}


def steps(story, count: int, by: int, *, start: int = 100, cached: int = 0) -> None:
    """So many batches, before each of which `by` MiB more are live."""
    for k in range(count):
        story.batch()
        live = start + by * k
        reading = {"a": live * MIB, "b": (live + 20 + cached) * MIB, "d": (live + 10) * MIB}
        story.record(Kind.MEMORY, story.at, story.at, **reading)
        story.step(1000)


def runs_out(story, *, asked: int = 64, live: int = 4000, reserved: int = 4020, free: int = 30, code: int = 0) -> None:
    story.note(n="site", id=7, where="train.py:31", what="out of memory")
    sizes = {"a": asked * MIB, "b": live * MIB, "d": reserved * MIB, "e": free * MIB}
    story.record(Kind.OOM, story.at, story.at, code=code, c=7, **sizes)


def test_a_run_without_a_device_has_no_allocator(story) -> None:
    story.iterator()
    story.epoch(4)
    run = story.features()
    assert run.processes[0].allocators == ()
    assert run.out_of_memory == ()


def test_what_is_live_is_told_with_its_peak_and_its_trend(story) -> None:
    story.note(-1, n="device", index="3", name="H200", uuid="GPU-1")
    story.note(**CARD)
    story.iterator()
    steps(story, 40, by=2)
    (pool,) = story.features().processes[0].allocators
    assert pool.index == "3"
    assert (pool.least, pool.last, pool.peak, pool.reserved) == (100 * MIB, 178 * MIB, 188 * MIB, 198 * MIB)
    assert pool.live is not None
    assert pool.live.rate == pytest.approx(2 * MIB / 1.001, rel=0.01)


def test_a_device_that_nvml_does_not_name_has_no_number(story) -> None:
    story.note(**CARD)
    story.iterator()
    steps(story, 4, by=0)
    assert story.features().processes[0].allocators[0].index == ""


def test_the_growth_before_memory_ran_out_is_told_a_step(story) -> None:
    story.note(**CARD)
    story.iterator()
    steps(story, 12, by=64)
    runs_out(story)
    (found,) = story.features().out_of_memory
    assert (found.gpu, found.where, found.pid, found.times) == ("0", "train.py:31", 100, 1)
    assert (found.asked, found.live, found.reserved, found.free) == (64 * MIB, 4000 * MIB, 4020 * MIB, 30 * MIB)
    assert found.total == 4096 * MIB
    assert found.lacking == 34 * MIB
    assert found.growth is not None
    assert found.growth.rate == found.growth.low == 64 * MIB
    assert not found.went_on


def test_batches_of_evaluations_are_no_steps(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    for k in range(12):
        story.batch()
        story.record(Kind.MEMORY, story.at, story.at, a=(100 + 64 * k) * MIB, b=MIB, d=MIB)
        story.step(20)
        began = story.at
        story.iterator(2, 2, grad=False)
        story.batch(2)
        story.batch(2, end=True)
        story.record(Kind.SPAN, began, story.at, code=SpanCode.EVALUATION)
    runs_out(story)
    growth = story.features().out_of_memory[0].growth
    assert growth is not None
    assert growth.rate == 64 * MIB


def test_of_too_few_steps_no_growth_is_told(story) -> None:
    story.iterator()
    steps(story, 5, by=64)
    runs_out(story)
    assert story.features().out_of_memory[0].growth is None


def test_a_training_that_goes_on_is_told_so_and_its_peak_is_that_of_afterwards(story) -> None:
    story.iterator()
    story.record(Kind.MEMORY, story.at, story.at, a=MIB, b=MIB, d=MIB)
    runs_out(story, code=OomCode.EXPANDABLE)
    runs_out(story)
    story.batch()
    story.record(Kind.MEMORY, story.at, story.at, a=100 * MIB, b=140 * MIB, d=4000 * MIB)
    story.step(10)
    run = story.features()
    (found,) = run.out_of_memory
    assert (found.times, found.went_on, found.expandable) == (2, True, False)
    assert run.processes[0].allocators[0].peak == 140 * MIB


def test_the_backward_pass_in_which_memory_ran_out_is_no_going_on(story) -> None:
    story.iterator()
    story.epoch(2)
    runs_out(story)
    story.record(Kind.BACKWARD, story.at - 5, story.at + 5)
    assert not story.features().out_of_memory[0].went_on


def test_memory_that_ran_out_before_any_training_is_told(story) -> None:
    runs_out(story)
    run = story.features()
    assert run.processes == ()
    assert len(run.out_of_memory) == 1


def test_what_others_held_on_the_device_is_told_with_it(story) -> None:
    story.note(-1, n="device", index="3", name="H200", uuid="GPU-1")
    story.note(**CARD)
    runs_out(story)
    story.sample("gpu.others.memory", 3e9, "3")
    story.sample("gpu.others.count", 2, "3")
    (found,) = story.features().out_of_memory
    assert (found.gpu, found.index, found.others, found.others_count) == ("3", "3", 3_000_000_000, 2)
