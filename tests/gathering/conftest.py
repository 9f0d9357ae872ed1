"""A pretended training, told reading by reading as the probes would tell it. Times in ms from the command's start."""

from collections.abc import Callable

import pytest

from gputune.core.events import BatchCode, Event, FetchCode, IteratorCode, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Open, Role, Sample, Stack
from gputune.features import Features
from gputune.gathering import Gatherer

MS = 1_000_000
STARTED = 7_000 * MS  # the monotonic clock when the command was started
LOADER = {"n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0, "prefetch_factor": None, "batch_size": 32}


class Story:
    """One run under way. `at` is the clock in ms; everything told moves it on."""

    def __init__(self) -> None:
        self.gatherer = Gatherer(("python", "train.py"), STARTED)
        self.at = 0.0

    def ns(self, ms: float) -> int:
        return STARTED + round(ms * MS)

    def process(self, process: int = 0, *, pid: int = 100, role: Role = "main", ended: float = 0, **differs) -> None:
        guest = Guest(process, pid, 1, self.ns(0), self.ns(ended) if ended else 0, role, "ring")
        self.gatherer.take([guest._replace(**differs)])

    def note(self, process: int = 0, **fields) -> None:
        self.gatherer.take([Note(process, fields)])

    def loader(self, process: int = 0, **differs) -> None:
        self.note(process, **{**LOADER, **differs})

    def record(self, kind: int, t0: float, t1: float, process: int = 0, code: int = 0, **fields: int) -> None:
        values = dict.fromkeys("abdec", 0) | fields
        self.gatherer.take([Event(process, Record(kind, code, self.ns(t0), self.ns(t1), **values))])

    def iterator(self, number: int = 1, loader: int = 1, *, took: float = 0, grad: bool = True, process: int = 0,
                 workers: int = 0, again: bool = False, fresh: bool = False) -> None:  # fmt: skip
        t0, self.at = self.at, self.at + took
        code, fields = (
            IteratorCode.NEW if fresh else 0,
            {"a": number, "b": loader, "c": workers, "d": int(again), "e": int(grad)},
        )
        self.record(Kind.ITERATOR, t0, self.at, process, code, **fields)
        self.record(Kind.SPAN, t0, self.at, process, SpanCode.LOADER_START, d=number)

    def batch(self, number: int = 1, *, wait: float = 1, process: int = 0, count: int = 32, end: bool = False) -> None:
        t0, self.at = self.at, self.at + wait
        self.record(Kind.BATCH, t0, self.at, process, BatchCode.END if end else 0, a=number, c=0 if end else count)

    def inline(self, number: int = 1, *, took: float = 1, cpu: float | None = None, count: int = 32) -> None:
        """A batch that is made inside its next(), which takes just as long."""
        t0, self.at = self.at, self.at + took
        used = round((took if cpu is None else cpu) * MS)
        self.record(Kind.FETCH, t0, self.at, code=FetchCode.INLINE, a=used, c=count)
        self.record(Kind.BATCH, t0, self.at, a=number, c=count)

    def step(self, took: float = 10) -> None:
        """Everything between two batches, in which an optimizer's step takes the last millisecond."""
        self.at += took
        self.record(Kind.STEP, self.at - 1, self.at, a=1)

    def span(self, code: SpanCode, took: float, **fields) -> None:
        t0, self.at = self.at, self.at + took
        self.record(Kind.SPAN, t0, self.at, code=code, **fields)

    def open(self, kind: int, t0: float, *, code: int = 0, since: float = 0) -> None:
        self.gatherer.take([Open(0, kind, code, self.ns(t0), self.ns(since) if since else 0)])

    def sample(self, name: str, value: float, instance: str = "", *, at: float | None = None) -> None:
        metric = Metric(name, "1", "A pretended metric.")
        self.gatherer.take([Sample(metric, self.ns(self.at if at is None else at), value, instance)])

    def stack(self, *frames: str, count: int = 1, pid: int = 100, held: bool = False) -> None:
        self.gatherer.take([Stack(self.ns(self.at), pid, frames, count, held)])

    def epoch(self, batches: int, number: int = 1, *, wait: float = 1, step: float = 10) -> None:
        for _ in range(batches):
            self.batch(number, wait=wait)
            self.step(step)

    def features(self, until: float | None = None, exit_code: int | None = None) -> Features:
        return self.gatherer.features(self.ns(self.at if until is None else until), exit_code=exit_code)


@pytest.fixture
def empty() -> Story:
    """A run of which nothing was told yet."""
    return Story()


def begun() -> Story:
    """Return a run with one training process and one loader without workers, 100 ms after its start."""
    told = Story()
    told.process()
    told.loader()
    told.at = 100
    return told


@pytest.fixture
def story() -> Story:
    return begun()


@pytest.fixture
def story_of() -> Callable[[], Story]:
    """Several such runs."""
    return begun


@pytest.fixture
def untold() -> Story:
    """The same run, before its loader was told."""
    told = Story()
    told.process()
    told.at = 100
    return told
