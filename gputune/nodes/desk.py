"""What an agent serves: the rows of its node's screen, the documents of its runs, and samples from any cursor on.

The agent's own thread puts rows here once a second; calls come from other threads and never make it wait for long.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from gputune import __version__
from gputune.core.errors import GputuneError
from gputune.feeds.rows import PARTS, History, Node, RunRow, Update
from gputune.launch.job import MARK, seats
from gputune.nodes.links import Links
from gputune.recording.folder import Folder
from gputune.recording.pulling import Cursor, Pullable
from gputune.wire.messages import (
    LARGEST_ANSWER,
    LATEST,
    MACHINE,
    PROTOCOL,
    Ask,
    CursorFields,
    Hello,
    LinkRate,
    MetricColumn,
    News,
    RowsHeader,
    Since,
    WhichLink,
)

HANGING = 15.0  # s without a beat of the reader, which comes once a second
EMPTY: dict[str, Any] = {"verdict": None, "recent": None, "history": History()}  # parts that are not told


class NoSuchRun(GputuneError):  # noqa: N818 - named for what happened
    """Nothing of that name is served here."""

    def __init__(self) -> None:
        super().__init__("there is no such run here", hint="`gputune nodes --json` lists the runs of each node")


class Hangs(GputuneError):  # noqa: N818 - as above
    """Reading the machine hangs: what is known of it is old, and must not be shown as the present."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the agent has read nothing for {seconds:.0f} s: its reader hangs",
            hint="a file system or a driver that does not answer, often; `gputune doctor` there may say more",
        )


class Desk:
    """Rows and runs of one agent. `machine` is the folder of its own recording.

    Without one it is a relay's: rows come from other nodes, and no folder that they name is opened here.
    """

    def __init__(self, name: str, machine: Path | None, links: Links | None = None) -> None:
        self._name = name
        self._machine = machine
        self._links = links or Links(None)
        self._life = os.urandom(8).hex()
        self._lock = threading.Lock()
        self._until = 0
        self._beaten = time.monotonic()
        self._rows: dict[tuple[str, str], tuple[int, Node | RunRow]] = {}  # kind and name to when it changed, and how
        self._parts: dict[str, dict[str, int]] = {}  # of runs: when each part of a row changed
        self._folders: dict[str, Path] = {}
        self._open: OrderedDict[str, Pullable] = OrderedDict()

    def close(self) -> None:
        """Let go of all folders."""
        with self._lock:
            for pullable in self._open.values():
                pullable.close()
            self._open.clear()

    def beat(self) -> None:
        """Note that the reader is at work, whether or not it has found anything."""
        self._beaten = time.monotonic()

    def put(self, update: Update) -> None:
        """Take what is new on this node's screen."""
        with self._lock:
            self._until += 1
            for node in update.nodes:
                self._put("node", node.name, node)
            for run in update.runs:
                self._put("run", run.id, run)
                self._folders |= _pullable(run) if self._machine is not None else {}
            for name in update.gone:
                self._rows.pop(("node", name), None)
            for name in update.runs_gone:
                self._rows.pop(("run", name), None)
                self._parts.pop(name, None)
                for known in [each for each in self._folders if each == name or each.startswith(f"{name}/rank-")]:
                    del self._folders[known]

    def _put(self, kind: str, name: str, row: Node | RunRow) -> None:
        before = self._rows.get((kind, name))
        # 4096 rows that are known at once, of a relay with a rack of nodes
        if (before is None or before[1] != row) and (before is not None or len(self._rows) < 4096):
            self._until += 1  # a number of its own for each: an answer may end behind any of them
            self._rows[kind, name] = (self._until, row)
            if isinstance(row, RunRow):
                old, at = before[1] if before is not None else None, self._parts.setdefault(name, {})
                at.update({part: self._until for part in PARTS if getattr(old, part, None) != getattr(row, part)})

    def hello(self) -> Hello:
        """Return who is here."""
        with self._lock:
            runs = (MACHINE,) * (self._machine is not None) + tuple(self._folders)
        return Hello(
            protocol=PROTOCOL, gputune=__version__, host=self._name, life=self._life, unix=time.time(), runs=runs
        )

    def news(self, since: Since) -> News:
        """Return the rows that have changed since; all of them to who has heard of none, or of another life's.

        What does not go into one answer comes with the next, which is to be asked for at once: `more` says so.
        Raises Hangs where nothing was read for long.
        """
        self._check()
        with self._lock:
            whole = since.life != self._life or not 0 < since.until <= self._until
            rows = sorted((row for row in self._rows.values() if whole or row[0] > since.until), key=itemgetter(0))
            until = self._until
            kept = {} if whole or not since.parts else self._kept(since.until, (row for _, row in rows))
        rows = [(at, _without(row, kept.get(row.id, ())) if isinstance(row, RunRow) else row) for at, row in rows]
        fitting = _fitting(rows)
        more = len(fitting) < len(rows)
        update = Update(
            until=fitting[-1][0] if more else until,
            nodes=tuple(row for _, row in fitting if isinstance(row, Node)),
            runs=tuple(row for _, row in fitting if isinstance(row, RunRow)),
            more=more,
            same=kept,
        )
        encoded = msgspec.Raw(msgspec.json.encode(update))
        relay = self._machine is None
        return News(protocol=PROTOCOL, life=self._life, unix=time.time(), whole=whole, relay=relay, update=encoded)

    def _kept(self, until: int, rows: Iterable[Node | RunRow]) -> dict[str, tuple[str, ...]]:
        """Return which parts of these runs are as they were told by `until`."""
        runs = (row.id for row in rows if isinstance(row, RunRow))
        same = {run: tuple(p for p in PARTS if self._parts.get(run, {}).get(p, 0) <= until) for run in runs}
        return {run: parts for run, parts in same.items() if parts}

    def rows(self) -> tuple[list[Node], list[RunRow]]:
        """Return all rows as they are. Raises Hangs where nothing was read for long."""
        self._check()
        with self._lock:
            rows = [row for _, row in self._rows.values()]
        return [row for row in rows if isinstance(row, Node)], [row for row in rows if isinstance(row, RunRow)]

    def _check(self) -> None:
        silent = time.monotonic() - self._beaten
        if silent > HANGING:
            raise Hangs(silent)

    def document(self, run: str, name: str) -> bytes:
        """Return a file of a run's folder. Raises NoSuchRun, also where the run has no such file (now)."""
        try:
            with Folder(self._folder(run)) as folder:
                data = folder.read(name)
        except OSError:
            raise NoSuchRun from None
        if len(data) > LARGEST_ANSWER:
            raise GputuneError("the document is too large", hint="look at it on the node")
        return data

    def pull(self, ask: Ask) -> tuple[object, RowsHeader]:
        """Return the samples of a run after a cursor. Raises NoSuchRun."""
        folder = self._folder(ask.run)
        try:
            pullable = self._opened(ask.run, folder)
            piece = pullable.since(_cursor(ask.since), only=frozenset(ask.only))
        except OSError:
            raise NoSuchRun from None
        said = RowsHeader(
            protocol=PROTOCOL,
            run=ask.run,
            rows=piece.batch.num_rows,
            next=CursorFields(*piece.next),
            columns=tuple(MetricColumn(id_, about) for id_, about in piece.columns),
            anew=piece.anew,
            more=piece.more,
            missed=piece.missed,
            clocks=pullable.clocks,
            unix=time.time(),
        )
        return piece.batch, said

    def link(self, ask: WhichLink) -> LinkRate:
        """Return how fast the link from here to another agent is: see `Links`."""
        return self._links.measure(ask)

    def _folder(self, run: str) -> Path:
        """Return a run's folder: only what is served can be named, so no name leads anywhere else."""
        if run == MACHINE and self._machine is not None:
            return self._machine
        with self._lock:
            if run in self._folders:
                return self._folders[run]
        raise NoSuchRun

    def _opened(self, run: str, folder: Path) -> Pullable:
        with self._lock:
            found = self._open.get(run)
            if found is None:
                found = self._open[run] = Pullable(folder)
            self._open.move_to_end(run)
            # 8 run folders that are held open for whoever reads them
            old = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - 8)]
        for pullable in old:
            pullable.close()
        return found


def _without(row: RunRow, parts: Sequence[str]) -> RunRow:
    """Return a run without these parts."""
    return replace(row, **{part: EMPTY[part] for part in parts}) if parts else row


def _fitting(rows: list[tuple[int, Node | RunRow]]) -> list[tuple[int, Node | RunRow]]:
    """Return as many of the rows as one answer takes, from the first on: one at the least."""
    if len(rows) <= 16:  # rows that go into one answer without a look: a live run has some 10 kB
        return rows
    size = 0
    for count, (_, row) in enumerate(rows):
        size += len(msgspec.json.encode(row))
        if count and size > 1 << 20:  # B of rows in one answer: also over 10 Mbit/s it comes in time
            return rows[:count]
    return rows


def _cursor(place: CursorFields) -> Cursor:
    """Return the cursor that somebody gave us: a row below zero becomes the beginning."""
    return Cursor(max(LATEST, place.segment), max(0, place.row), max(0, place.known), place.form)


def _pullable(run: RunRow) -> dict[str, Path]:
    """Return what can be pulled of a run, by name: its folder, or those of its ranks."""
    folder = Path(run.folder).absolute()
    if run.folder and (folder / MARK).is_file():
        found = {f"{run.id}/{Path(seat).name}": Path(seat) for seat in seats(str(folder))}
        return {**found, **({run.id: next(iter(found.values()))} if found else {})}  # the lowest rank's, too
    return {run.id: folder} if run.folder else {}
