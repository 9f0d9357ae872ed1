"""slow-pinning speaks when batches wait for the thread that pins them, and says what fewer bytes would bring."""

from dataclasses import replace

import pytest

from gputune.advisors.few_workers import advise as more_workers
from gputune.advisors.slow_pinning import advise
from gputune.features import Features, Pin
from gputune.verdict.judging import judge

PICTURES = ("torch.float32", (256, 3, 224, 224))


def pinned(plain: Features, took: float, kind: tuple[str, tuple[int, ...]] = PICTURES, **differs: object) -> Features:
    """The same loop with a thread that pins each batch of 150 MB in so many s."""
    (process,) = plain.processes
    (loader,) = process.loaders
    loader = replace(
        loader,
        pin_memory=True,
        pins=(Pin(wall=took, cpu=took, queued=0.0, unpacking=0.0005),) * 100,
        gets=(0.0002,) * 100,
        types={kind[0]: 150_000_000},
        shape=kind[1],
        batch_bytes=150_000_000,
        **differs,
    )
    return replace(plain, processes=(replace(process, loaders=(loader,)),))


@pytest.fixture
def waiting(run):
    """Four workers that make a batch in 40 ms each, steps of 15 ms, and a wait of 15 ms before each of them."""
    return run(num_workers=4, blocked=0.040, waits=(0.015,), step=0.015, step_cpu=0.002)


def test_is_silent_where_no_thread_pins(waiting) -> None:
    assert list(advise(waiting)) == []


def test_is_silent_where_it_is_quicker_than_the_workers(run) -> None:
    slow = run(num_workers=4, blocked=0.120, waits=(0.015,), step=0.015, step_cpu=0.002)
    assert list(advise(pinned(slow, 0.010))) == []


def test_is_silent_where_nobody_waits(run) -> None:
    calm = run(num_workers=4, blocked=0.040, waits=(0.0003,), step=0.040, step_cpu=0.002)
    assert list(advise(pinned(calm, 0.030))) == []


def test_pictures_are_to_stay_bytes(waiting) -> None:
    (finding,) = advise(pinned(waiting, 0.0295))
    assert "it takes 29.5 ms to pin a batch of 150 MB (5.08 GB/s)" in finding.says
    assert "uint8, not float32" in finding.do
    assert "25% of the bytes" in finding.do
    assert finding.speedup.likely == pytest.approx(30 / 15.2, rel=0.08)  # the step alone is left
    assert finding.evidence["bytes_left"] == 0.25
    assert finding.effect == "changes-rounding"
    assert finding.where == "train.py:41"


def test_pictures_that_may_be_no_bytes_are_halved_at_the_least(run) -> None:
    short = run(num_workers=8, blocked=0.040, waits=(0.055,), step=0.005, step_cpu=0.002)
    (finding,) = advise(pinned(short, 0.0595))
    assert finding.speedup.likely == pytest.approx(60 / 15.4, rel=0.05)
    assert finding.speedup.low < 60 / 30


@pytest.mark.parametrize(
    ("kind", "to"),
    [("torch.float32", "float16, not float32"), ("torch.int64", "int32, not int64")],
)
def test_other_numbers_are_halved(waiting, kind: str, to: str) -> None:
    (finding,) = advise(pinned(waiting, 0.0295, (kind, (4096, 4096))))
    assert to in finding.do
    assert finding.evidence["bytes_left"] == 0.5


def test_narrow_types_are_to_be_pinned_once(waiting) -> None:
    (finding,) = advise(pinned(waiting, 0.0295, ("torch.uint8", (1024, 3, 224, 224))))
    assert "cudaHostRegister" in finding.do
    assert finding.effect == "identical"
    assert finding.speedup.likely == pytest.approx(30 / 15.2, rel=0.08)


def test_more_workers_cannot_beat_the_thread(run) -> None:
    """They would halve the wait if it were not for 25 ms of pinning."""
    few = run(num_workers=2, blocked=0.060, waits=(0.025,), step=0.005, step_cpu=0.002)
    (free,) = more_workers(few)
    (bound,) = more_workers(pinned(few, 0.025))
    assert free.speedup.likely > 3
    assert bound.speedup.likely == pytest.approx(30 / 25.8, rel=0.05)
    assert bound.change["num_workers"] == 3


def test_memory_that_was_new_once_need_be_no_more(waiting) -> None:
    (plain,) = advise(pinned(waiting, 0.0295))
    began = replace(waiting.processes[0], loop=waiting.processes[0].loop + 4.0)
    (process,) = pinned(replace(waiting, processes=(began,)), 0.0295, fresh=4.0).processes
    (epoch,) = process.loaders[0].epochs
    loader = replace(process.loaders[0], epochs=(replace(epoch, start=0.1, first_wait=4.0, fresh=True),))
    (finding,) = advise(replace(waiting, processes=(replace(process, loaders=(loader,)),)))
    assert finding.speedup.likely == pytest.approx(plain.speedup.likely, rel=0.15)


def test_it_speaks_for_what_nobody_else_can_mend(waiting) -> None:
    assert [finding.id for finding in judge(pinned(waiting, 0.0295))] == ["slow-pinning"]
