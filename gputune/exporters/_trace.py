"""The rows of a recording as events of a trace: what a training process did, what its workers made, what was measured.

docs/export.md says what stands where. Times are µs after the start of the run.
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from gputune.core.events import BatchCode, FetchCode
from gputune.core.hygiene import clean
from gputune.core.sample import Metric
from gputune.core.units import US
from gputune.exporters import _ties
from gputune.exporters._tracks import MACHINE, Event, Tracks, counter, flow, lasting, moment
from gputune.recording import stretch
from gputune.recording.about import read
from gputune.recording.stretch import Row, Stretch

TABLES = ("batches", "fetches", "spans", "steps", "gaps", "samples")
TRAINING, APART_THREAD, PIPELINE = "training thread", "thread that takes batches", "tf.data"


class Block(NamedTuple):
    """Some of the events of a segment, which begins at `at` (µs of Unix time); its first ones, or more of them."""

    at: int
    begins: bool
    events: list[Event]


class _Half(NamedTuple):
    """A making or a next() whose other half was not met yet."""

    at: tuple[int, int]
    begins: int
    ends: int


class Seat:
    """One recording of the run: there are several where each rank has a watch of its own."""

    def __init__(self, folder: Path, lost: dict[str, str]) -> None:
        self.folder = folder
        self.lost = lost
        self._story = read(folder)
        self.start, ended = stretch.lasted(folder, lost)  # µs of Unix time
        self.length = (ended - self.start) / US  # s
        self._half: dict[_ties.MadeBatch, tuple[bool, _Half]] = {}

    def events(self, tracks: Tracks, start: int, chosen: Stretch) -> Iterator[Block]:
        """Yield the events that lie in a stretch (µs of Unix time), segment by segment. `start`: of the whole run."""
        self._tracks, self._start = tracks, start
        self._about = _ties.known(self.folder, chosen.until, self.lost)
        self._ties = _ties.Ties(self.folder, self._about, chosen.since, self.lost, self._gone())
        last: dict[str, tuple[int, float]] = {}
        for piece in stretch.pieces(self.folder, TABLES, chosen, self.lost):
            found = stretch.within(piece, chosen)
            records = (event for name in TABLES[:-1] for row in found.get(name, ()) for event in self._of(name, row))
            made = chain(records, self._samples(found.get("samples", []), piece.metrics, last))
            at = min((row["t"] for rows in found.values() for row in rows), default=0)
            begins = True
            while events := list(islice(made, 20_000)):  # events in memory: of a segment there may be a million
                yield Block(at, begins, [*tracks.told(), *events])
                begins = False

    def _gone(self) -> int:
        """Return µs up to which what is recorded has holes; of a run that was tuned, workers change meanwhile."""
        dropped = self._story.get("dropped")
        said = _ties.last_gap(part for part in dropped if isinstance(part, dict)) if isinstance(dropped, list) else ""
        if self._story.get("tuned"):
            return 1 << 62
        with contextlib.suppress(ValueError):
            return int(datetime.fromisoformat(said).timestamp() * 1e6) if said else 0
        return 1 << 62

    def _of(self, name: str, row: Row) -> Iterator[Event]:
        make = {"batches": self._batch, "fetches": self._fetch, "spans": self._span, "steps": self._step}
        return make.get(name, self._gap)(row, row["t"] - self._start)

    def _process(self, process: int) -> int:
        rank = self._about.ranks.get(process)
        pid = self._about.guests.get(process, {}).get("pid", "?")
        where = f" on {clean(str(self._story['host']))}" if self._story.get("host") else ""
        beside = "process" if self._about.ranks else "training"  # a launcher, where there are ranks
        name = f"{beside if rank is None else f'rank {rank}'} (pid {pid}){where}"
        order = 1 + len(self._about.ranks) + process if rank is None else 1 + rank
        return self._tracks.process((self.folder, process), name, order)

    def _thread(self, process: int, name: str = TRAINING, order: int = 0) -> tuple[int, int]:
        pid = self._process(process)
        return pid, self._tracks.thread(pid, name, name, order)

    def _worker(self, worker: int) -> tuple[int, int]:
        """Return the track of a worker: below the process that it works for, where that is known."""
        number, pid = self._about.numbers.get(worker), self._about.guests.get(worker, {}).get("pid", "?")
        trainer = self._about.trainer(worker)
        top = self._process(worker if trainer is None else trainer)
        name = f"worker {'?' if number is None else number} (pid {pid})"
        return top, self._tracks.thread(top, worker, name, 2 + (number or 0))

    def _batch(self, row: Row, t: int) -> Iterator[Event]:
        at = self._thread(row["process"], *((APART_THREAD, 1) if row["code"] & BatchCode.APART else ()))
        args = {"batch": row["index"], **{name: row[name] for name in ("iterator", "ready", "samples", "code")}}
        if row["code"] & BatchCode.UNTIMED:
            yield moment(at, "batch", t, args)
            return
        event = lasting(at, "loader.wait", t, row["wait"], args)
        yield event
        made = None if row["code"] & (BatchCode.END | BatchCode.FAILED) else self._ties.taken(row)
        if made is not None:
            yield from self._tie(made, _Half(at, t, t + event["dur"]), fetched=False)

    def _fetch(self, row: Row, t: int) -> Iterator[Event]:
        inline = bool(row["code"] & FetchCode.INLINE)
        args = {name: row[name] for name in ("cpu", "queued", "collate", "bytes", "samples")}
        if row["code"] & FetchCode.TFDATA:
            yield moment(self._thread(row["process"], PIPELINE, 1), "fetch", t, args)
            return
        at = self._thread(row["process"]) if inline else self._worker(row["process"])
        made = None if inline else self._ties.made(row["process"], row["t"])
        event = lasting(at, "fetch", t, row["seconds"], {**args, "batch": None if made is None else made.number})
        yield event
        if made is not None:
            yield from self._tie(made, _Half(at, t, t + event["dur"]), fetched=True)

    def _tie(self, made: _ties.MadeBatch, half: _Half, *, fetched: bool) -> Iterator[Event]:
        """Yield the arrow from a making to its next(), once both are there."""
        met = self._half.pop(made, None)
        if met is None or met[0] == fetched:
            self._half[made] = (fetched, half)
            return
        making, taking = (half, met[1]) if fetched else (met[1], half)
        if self._ties.fits(made, making.ends, taking.ends):
            number = self._tracks.number()
            yield flow(making.at, number, max(making.begins, making.ends - 1), ends=False)
            yield flow(taking.at, number, max(taking.begins, taking.ends - 1), ends=True)

    def _span(self, row: Row, t: int) -> Iterator[Event]:
        thread = (TRAINING, 0) if not row["thread"] else (f"thread {row['thread']}", 1)
        place = self._about.sites.get((row["process"], row["site"]))
        args = {
            "where": clean(place) if place else None,
            "bytes": row["bytes"] or None,
            "detail": row["detail"] or None,
        }
        yield lasting(self._thread(row["process"], *thread), clean(row["span"]), t, row["seconds"], args)

    def _step(self, row: Row, t: int) -> Iterator[Event]:
        at = self._thread(row["process"])
        if row["what"] == "backward":
            yield lasting(at, "backward", t, row["seconds"], {})
        else:
            yield moment(at, "optimizer step", t, {"optimizer": row["optimizer"]})

    def _gap(self, row: Row, t: int) -> Iterator[Event]:
        yield counter(
            self._process(row["process"]), "device by step (s)", t, {"idle": row["idle"], "work": row["work"]}
        )

    def _samples(
        self, rows: list[Row], metrics: Mapping[str, Metric], last: dict[str, tuple[int, float]]
    ) -> Iterator[Event]:
        """Yield readings; of counters what they grew by a second."""
        pid = self._tracks.process((self.folder, MACHINE), self._machine(), 0)
        labels = {name: _label(name, metric) for name, metric in metrics.items()}
        for row in rows:
            for name, metric in metrics.items():
                value = row.get(name)
                if value is None:
                    continue
                if metric.kind == "counter":
                    before, last[name] = last.get(name), (row["t"], value)
                    if before is None or row["t"] <= before[0] or value < before[1]:
                        continue
                    value = (value - before[1]) / (row["t"] - before[0]) * 1e6
                yield counter(pid, labels[name], row["t"] - self._start, {"value": value})

    def _machine(self) -> str:
        host = self._story.get("host")
        return f"machine {clean(str(host))}" if host else "machine"


def _label(name: str, metric: Metric) -> str:
    return f"{clean(name)} ({metric.unit}{'/s' if metric.kind == 'counter' else ''})"
