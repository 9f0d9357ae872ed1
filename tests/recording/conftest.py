"""A made-up run of a few seconds: one training process, one worker, a card, and something of every kind of reading."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Open, Reading, Sample, Stack, now
from gputune.recording import Recording

START = 5_000_000_000_000
TICK = 100_000_000
STEP = 20_000_000
BUSY = Metric("gpu.busy", "ratio", "Share of time with a kernel running.", per="gpu")
CORES = Metric("cpu.busy", "cores", "Cores in use.")
ENERGY = Metric("gpu.energy", "J", "Energy since boot.", kind="counter", per="gpu")
MEMORY = Metric("memory.job", "B", "Memory of the tree, on a slow beat.")


def made(seconds: int) -> Iterator[list[Reading]]:
    """Yield the readings of each tick; times are multiples of 100 µs, the grid of 20 ms steps."""
    batch = 0
    for tick in range(seconds * 10):
        t = START + tick * TICK
        found: list[Reading] = []
        if tick == 0:
            found += [
                Guest(0, 10, 1, START - TICK, 0, "main", "ring"),
                Note(0, {"n": "loader", "id": 1, "where": "train.py:41"}),
            ]
            found += [
                Guest(1, 11, 10, START, 0, "worker", "ring"),
                Note(-1, {"n": "device", "index": "0", "name": "a card"}),
            ]
            found.append(Event(0, Record(Kind.ITERATOR, 0, START - TICK, START - TICK + STEP, 1, 1, 0, 0, 2)))
        for _ in range(5):
            began = t - TICK + batch % 5 * STEP
            found.append(Event(1, Record(Kind.FETCH, 0, began - 4 * STEP, began, 3 * STEP, -1, STEP // 20, 4096, 16)))
            found.append(
                Event(
                    0, Record(Kind.SPAN, SpanCode.SYNC, began + STEP // 4, began + STEP // 4 + 300_000, 3, 0, 0, 0, 0)
                )
            )
            found.append(
                Event(0, Record(Kind.BATCH, 0, began, began + STEP // 2, 1, batch, -1 if batch % 2 else 2, 0, 16))
            )
            found.append(
                Event(0, Record(Kind.STEP, 0, began + STEP // 2, began + STEP // 2 + 1_000_000, 7, 0, 0, 0, 0))
            )
            batch += 1
        found += [Sample(CORES, t, 1.5), Sample(BUSY, t, 0.25, "0"), Sample(ENERGY, t, 70 * tick, "0")]
        if tick % 10 == 3:
            found.append(Sample(MEMORY, t, float(1 << 30)))
            found.append(Stack(t, 10, ("main (train.py:9)", "step (train.py:50)"), 3))
        if tick == seconds * 10 - 1:
            found += [Guest(1, 11, 10, START, t, "worker", "ring"), Open(0, Kind.BATCH, 0, t, 0)]
        yield found


@pytest.fixture
def ticks() -> Callable[[int], list[list[Reading]]]:
    """Return the readings of so many seconds."""
    return lambda seconds: list(made(seconds))


@pytest.fixture
def unfinished(tmp_path: Path) -> Callable[..., tuple[Recording, Path]]:
    """Make a recording of so many seconds that is still going on; everything is on the disk."""

    def make(seconds: int = 3, name: str = "run", **options: int) -> tuple[Recording, Path]:
        recording = Recording.create(tmp_path / name, {"command": ["python", "train.py"], "started": START}, **options)
        keep(recording, made(seconds))
        return recording, tmp_path / name

    return make


def keep(recording: Recording, ticks: "Iterator[list[Reading]]") -> None:
    begun = now()  # the clock of beats counts from the machine's start, whatever the readings say
    for number, readings in enumerate(ticks, 1):
        recording.take(readings)
        if number % 10 == 0:
            recording.beat(begun + number * TICK)


@pytest.fixture
def finished(unfinished: Callable[..., tuple[Recording, Path]]) -> Callable[..., Path]:
    """Make a finished run of so many seconds."""

    def make(seconds: int = 3, name: str = "run", **options: int) -> Path:
        recording, folder = unfinished(seconds, name, **options)
        recording.close()
        assert not recording.broken
        return folder

    return make
