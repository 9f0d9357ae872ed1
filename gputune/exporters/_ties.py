"""Which worker made which batch: no record says so, but torch hands batch k to worker k mod n, in that order.

So the n-th making of a worker since a pass began is that of its n-th batch. A pass whose makings do not fit its batches
(an unordered loader, records that were lost) is tied no further, as `gputune/gathering/handover.py` does it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gputune.core.events import Kind
from gputune.recording import stretch
from gputune.recording.stretch import Row, Stretch

KINDS = (int(Kind.ITERATOR), int(Kind.MEMBER))
SLACK = 1000  # µs that the grid of a recording may move the end of a making behind that of its next()


class LoaderPass(NamedTuple):
    """A pass over a loader: iterator of a process, when it began (µs), its workers."""

    process: int
    iterator: int
    began: int
    workers: int


class MadeBatch(NamedTuple):
    """A batch by its number in its pass."""

    of: LoaderPass
    number: int


class KnownPasses:
    """What a recording says of its processes and passes, up to a moment."""

    def __init__(self) -> None:
        self.guests: dict[int, Mapping[str, Any]] = {}
        self.sites: dict[tuple[int, int], str] = {}
        self.ranks: dict[int, int] = {}
        self.numbers: dict[int, int] = {}  # process of a worker to its number
        self.passes: dict[tuple[int, int], list[LoaderPass]] = {}
        self.owner: dict[int, list[tuple[int, int, int]]] = {}  # pid of a worker to (since, process, iterator)
        self._ordered: dict[tuple[int, int], bool] = {}

    def take(self, found: Mapping[str, list[Row]]) -> None:
        """Take the notes and events of a segment."""
        for row in found.get("notes", ()):
            fields = json.loads(row["fields"])
            if row["what"] == "guest":
                self.guests[row["process"]] = fields
            elif row["what"] == "note":
                self._note(row["process"], fields)
        for row in sorted(found.get("events", ()), key=lambda row: int(row["t"])):
            if row["kind"] == Kind.ITERATOR:
                self._began(row)
            else:
                self.owner.setdefault(row["b"], []).append((row["t"], row["process"], row["a"]))

    def _note(self, process: int, fields: Mapping[str, Any]) -> None:
        kind = fields.get("n")
        if kind == "site":
            self.sites[process, fields["id"]] = str(fields.get("where", ""))
        elif kind == "process" and isinstance(fields.get("rank"), int):
            self.ranks[process] = fields["rank"]
        elif kind == "worker":
            self.numbers[process] = fields["worker_id"]
        elif kind == "loader":
            self._ordered[process, fields["id"]] = fields.get("in_order") is not False

    def _began(self, row: Row) -> None:
        process, iterator, workers = row["process"], row["a"], row["c"]
        workers = workers if self._ordered.get((process, row["b"]), False) else 0
        self.passes.setdefault((process, iterator), []).append(LoaderPass(process, iterator, row["t"], workers))

    def pass_at(self, process: int, iterator: int, t: int) -> LoaderPass | None:
        """Return the pass of an iterator at a moment."""
        begun = [one for one in self.passes.get((process, iterator), ()) if one.began <= t]
        return begun[-1] if begun else None

    def trainer(self, worker: int) -> int | None:
        """Return the training process that a worker's process belongs to."""
        guest = self.guests.get(worker, {})
        owners = self.owner.get(guest.get("pid", 0))
        return owners[-1][1] if owners else None

    def pass_of(self, worker: int, t: int) -> LoaderPass | None:
        """Return the pass for which a worker makes a batch at a moment."""
        owners = [o for o in self.owner.get(self.guests.get(worker, {}).get("pid", 0), ()) if o[0] <= t + SLACK]
        return self.pass_at(owners[-1][1], owners[-1][2], t) if owners else None


def known(folder: Path, until: int, lost: dict[str, str]) -> KnownPasses:
    """Return what is said of the run's processes before `until` (µs)."""
    found = KnownPasses()
    before = Stretch(0, until)
    for piece in stretch.pieces(folder, ("notes", "events"), before, lost):
        found.take(stretch.within(piece, before, KINDS))
    return found


class Ties:
    """Counts the makings of each worker from its pass's begin on. `gone`: µs up to which records are missing."""

    def __init__(self, folder: Path, about: KnownPasses, since: int, lost: dict[str, str], gone: int = 0) -> None:
        self._about = about
        self._gone = gone
        began = {w: p.began for w in about.numbers if (p := about.pass_of(w, since)) is not None and p.began < since}
        before = stretch.made_before(folder, began, since, lost)
        self._count = {w: (about.pass_of(w, since), before[w]) for w in began}
        self._broken: set[LoaderPass] = set()

    def made(self, worker: int, t: int) -> MadeBatch | None:
        """Return which batch a worker makes that begins at `t`; None where it is not known. Each is to be told once."""
        of = self._about.pass_of(worker, t)
        number = self._about.numbers.get(worker)
        if of is None or number is None:
            return None
        known, count = self._count.get(worker, (None, 0))
        count = count if known == of else 0
        self._count[worker] = (of, count + 1)
        return MadeBatch(of, count * of.workers + number) if self._holds(of) else None

    def taken(self, row: Row) -> MadeBatch | None:
        """Return which batch a row of `batches` is."""
        of = self._about.pass_at(row["process"], row["iterator"], row["t"])
        return MadeBatch(of, row["index"]) if of is not None and self._holds(of) else None

    def fits(self, made: MadeBatch, done: int, returned: int) -> bool:
        """Return whether a making that was done can be that of a next() that returned (µs); else its pass is left."""
        fits = made.of not in self._broken and done <= returned + SLACK
        if not fits:
            self._broken.add(made.of)
        return fits

    def _holds(self, of: LoaderPass) -> bool:
        return of.workers > 0 and of.began >= self._gone and of not in self._broken


def last_gap(dropped: Iterable[Mapping[str, Any]]) -> str:
    """Return until when segments are missing that were dropped, as run.json says it; "" where none was."""
    return max((str(part.get("to", "")) for part in dropped), default="")
