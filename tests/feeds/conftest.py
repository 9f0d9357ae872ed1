"""A recorded run of a few seconds: one process that waits 30 ms of every 40 for its batch, and a device."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputune.core.events import Event, FetchCode, Kind, Record
from gputune.core.sample import Guest, Metric, Note, Reading, Sample, now
from gputune.recording import Recording

MS = 1_000_000
BEGAN = 10**12  # ns of the monotonic clock: any moment
BUSY = Metric("gpu.busy", "ratio", "Share of time with a kernel running.", per="gpu")
CPUS = Metric("cpu.allowed", "cores", "CPUs that this job may use.")
MAKING, STEP = 30 * MS, 10 * MS
LOADER = {
    "n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0, "prefetch_factor": None, "pin_memory": False,
    "persistent_workers": False, "batch_size": 16, "in_order": True, "iterable": False,
    "length": 1000, "start_method": "fork",
}  # fmt: skip


def ticks(seconds: int) -> Iterator[list[Reading]]:
    """Yield the readings of each second."""
    at = BEGAN
    first: list[Reading] = [
        Guest(0, 4711, 1, BEGAN, 0, "main", "ring"),
        Note(0, LOADER),  # type: ignore[arg-type] # mypy does not see that these values are Json
        Note(-1, {"n": "device", "index": "0", "name": "a card"}),
        Event(0, Record(Kind.ITERATOR, 0, at - MS, at, 1, 1, 0, 1, 0)),
    ]
    for second in range(seconds):
        found, first = first, []
        for index in range(25 * second, 25 * second + 25):
            made = at + MAKING
            found.append(
                Event(0, Record(Kind.FETCH, FetchCode.INLINE, at + 1000, made - 20_000, 2 * MS, 0, MS, 4096, 16))
            )
            found.append(Event(0, Record(Kind.BATCH, 0, at, made, 1, index, -1, 0, 16)))
            found.append(Event(0, Record(Kind.STEP, 0, made + STEP - MS, made + STEP, 1, 0, 0, 0, 0)))
            at = made + STEP
        found += [Sample(CPUS, at, 8.0), Sample(BUSY, at, 0.25, "0")]
        yield found


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., tuple[Recording, Path]]:
    """Make a recording of so many seconds that goes on."""

    def make(seconds: int = 8, name: str = "run") -> tuple[Recording, Path]:
        folder = tmp_path / name
        about = {"command": ["python", "train.py", "--x"], "started": BEGAN, "pid": 4711}
        recording = Recording.create(folder, about, max_size=1 << 24)  # type: ignore[arg-type] # as above
        for number, readings in enumerate(ticks(seconds)):
            recording.take(readings)
            recording.beat(now() + (number + 1) * 10**10)
        return recording, folder

    return make


@pytest.fixture
def finished(recorded: Callable[..., tuple[Recording, Path]]) -> Callable[..., Path]:
    """Make a finished recording."""

    def make(seconds: int = 8, name: str = "run") -> Path:
        recording, folder = recorded(seconds, name)
        recording.about(exit_code=0, ended=BEGAN + seconds * 1000 * MS)
        recording.close()
        return folder

    return make
