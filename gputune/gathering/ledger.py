"""Where every second of one training process went: a partition of its wall time that adds up by construction.

Spans of one thread are nested like function calls, and each is reported when it ends, so children arrive before their
parents. A second counts for the innermost span that covers it; what no span covers is `step`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gputune.core.events import SPANS
from gputune.core.units import NS

Key = TypeVar("Key")
ABSORBS = {  # and what stays what it is inside of it
    "loader.wait": frozenset({"loader.start"}),  # inside next() everything is loader wait, but for worker start
    "startup": frozenset(SPANS) - {"copy.h2d"},  # the model goes to the device once, and no step copies it
}
ALONE = frozenset({"between"})  # what lies in it is told by words of its own, however its time is asked for
MERGE_AT = 4096  # spans kept while no parent has claimed them; the older half is folded when there are more


@dataclass(slots=True)
class Claim:
    """A finished span that a parent may still enclose, or several merged ones: times in ns."""

    t0: int
    t1: int
    covered: int
    fresh: int = 0  # of its own time and its children's, what no child of the same name has counted already
    self_ns: dict[str, int] = field(default_factory=dict)
    inclusive: dict[str, int] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)  # loader id to next() calls inside


def _add(into: dict[Key, int], what: Mapping[Key, int]) -> None:
    for name, number in what.items():
        into[name] = into.get(name, 0) + number


def _folded(earlier: Claim, later: Claim) -> Claim:
    """Return two neighbours as one claim with a gap in it."""
    self_ns, inclusive, batches = dict(earlier.self_ns), dict(earlier.inclusive), dict(earlier.batches)
    _add(self_ns, later.self_ns)
    _add(inclusive, later.inclusive)
    _add(batches, later.batches)
    return Claim(earlier.t0, later.t1, earlier.covered + later.covered, 0, self_ns, inclusive, batches)


class Ledger:
    """The running partition of one process's time from `start` (ns) on. Bounded memory, O(1) a span."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.self_ns: dict[str, int] = {}
        self.inclusive: dict[str, int] = {}
        self._open: list[Claim] = []

    def copy(self) -> "Ledger":
        """Return another one with the same past. Claims are never changed once they are kept, so both may hold them."""
        other = Ledger(self.start)
        other.self_ns, other.inclusive, other._open = dict(self.self_ns), dict(self.inclusive), list(self._open)
        return other

    def span(self, name: str, t0: int, t1: int, loader: int | None = None) -> Claim:
        """Add a span. Returns what it enclosed, itself included.

        It ended after all that were added before it, but for the few since its own end (an evaluation is only known to
        be over when a step is made).
        """
        t0 = max(t0, self.start)
        t1 = max(t1, t0)
        mine = Claim(t0, t1, t1 - t0)
        later: list[Claim] = []
        while self._open and self._open[-1].t0 >= t1 and self._open[-1].t1 > t0:
            later.append(self._open.pop())
        inner = 0
        while self._open and self._open[-1].t1 > t0:
            child = self._open[-1]
            if child.t0 < t0:  # overlaps without being inside: the earlier claim keeps its seconds
                shared = min(child.t1, t1) - t0
                shared = min(shared, shared * child.covered // (child.t1 - child.t0))  # folded ones have gaps
                inner += shared
                mine.t0 = min(child.t1, t1)
                mine.covered -= shared
                if child.t1 > t1:
                    later.append(self._open.pop())
                break
            self._open.pop()
            beyond = max(0, min(child.covered, child.t1 - t1))  # of one that ends later: it stays the child's
            inner += child.covered - beyond
            mine.t1, mine.covered = max(mine.t1, child.t1), mine.covered + beyond
            _add(mine.self_ns, child.self_ns)
            _add(mine.inclusive, child.inclusive)
            _add(mine.batches, child.batches)
        own = max(0, t1 - t0 - inner)
        if mine.self_ns and name in ABSORBS:
            own += self._absorb(name, mine)
        whole = own if name in ALONE else t1 - t0
        if mine.self_ns or mine.inclusive:
            self._record(name, mine, own, whole)
        else:  # nothing lies in it: as most waits for a batch
            self.self_ns[name] = self.self_ns.get(name, 0) + own
            self.inclusive[name] = self.inclusive.get(name, 0) + whole
            mine.self_ns[name], mine.inclusive[name], mine.fresh = own, whole, whole
        if loader is not None:
            mine.batches[loader] = mine.batches.get(loader, 0) + 1
        self._open.append(mine)
        self._open += reversed(later)
        if len(self._open) > MERGE_AT:
            self._merge()
        return mine

    def parted(self, name: str, t0: int, t1: int, parts: Mapping[str, int]) -> None:
        """Add a span of which so many ns, as far as they are its own, are other names': where in it, nobody told."""
        mine = self.span(name, t0, t1)
        for part, ns in parts.items():
            taken = min(ns, mine.self_ns.get(name, 0))
            for kept in (self.self_ns, mine.self_ns):
                _add(kept, {name: -taken, part: taken})
            for kept in (self.inclusive, mine.inclusive):
                _add(kept, {name: -ns, part: ns})

    @property
    def latest(self) -> int:
        """Return when the latest span ended (ns), 0 without any."""
        return max((claim.t1 for claim in self._open[-2:]), default=0)

    def covered(self, t0: int, t1: int) -> int:
        """Return the ns between `t0` and `t1` that spans cover; both lie after all spans but the latest ones."""
        total = 0
        for claim in reversed(self._open):
            if claim.t1 <= t0:
                break
            begin, end = claim.t0 if claim.t0 > t0 else t0, claim.t1 if claim.t1 < t1 else t1
            if end > begin:
                total += end - begin
        return total

    def _record(self, name: str, mine: Claim, own: int, whole: int) -> None:
        """Count the span's own time, and its whole time once however often the name is nested in itself."""
        self.self_ns[name] = self.self_ns.get(name, 0) + own
        mine.self_ns[name] = mine.self_ns.get(name, 0) + own
        mine.fresh = whole - mine.inclusive.get(name, 0)
        self.inclusive[name] = self.inclusive.get(name, 0) + mine.fresh
        mine.inclusive[name] = whole

    def _absorb(self, name: str, mine: Claim) -> int:
        """Take the seconds of the enclosed spans over, but those that stay what they are inside `name`."""
        taken = 0
        for inner in [n for n in mine.self_ns if n not in ABSORBS[name] and n != name]:
            ns = mine.self_ns.pop(inner)
            taken += ns
            _add(self.self_ns, {inner: -ns})
            _add(self.inclusive, {inner: -mine.inclusive.pop(inner, 0)})
        return taken

    def _merge(self) -> None:
        """Fold the older half by twos: the longer ago, the coarser, and a late parent still finds its children."""
        half = self._open[: MERGE_AT // 2]
        self._open[: MERGE_AT // 2] = [_folded(a, b) for a, b in zip(half[::2], half[1::2], strict=True)]

    def totals(self, until: int) -> dict[str, float]:
        """Return span to seconds from `start` to `until` (ns); the rest is `step`, so it adds to the wall time."""
        seconds = {name: ns / NS for name, ns in self.self_ns.items() if ns > 0}
        wall = max(0, until - self.start) / NS
        seconds["step"] = max(0.0, wall - sum(seconds.values()))
        return seconds
