"""A ledger as a bar of one width and its rows, in tenths of a percent that add to 100."""

from collections.abc import Sequence
from typing import NamedTuple

from gputune.core.events import AROUND_LOOP
from gputune.core.figures import apportion, duration
from gputune.verdict.document import Verdict

WIDTH = 1000  # of the bar's own units: a tenth of a percent each


class LedgerSegment(NamedTuple):
    """One word of a ledger: where its stretch of the bar begins, how wide it is (of WIDTH), and its seconds.

    `of_loop`: its part of what is neither start-up nor teardown, in the same units; null of these.
    """

    name: str
    start: int
    width: int
    seconds: float
    of_loop: int | None = None
    margin: float | None = None

    @property
    def share(self) -> str:
        """Return its share as the table shows it."""
        return _tenths(self.width)

    @property
    def time(self) -> str:
        """Return how long it was as the table shows it."""
        return duration(self.seconds) if self.seconds >= 0.005 else "under 0.01 s"

    @property
    def share_of_loop(self) -> str:
        """Return its share of the loop as the table shows it."""
        return "–" if self.of_loop is None else _tenths(self.of_loop)


def of_training(verdict: Verdict) -> list[LedgerSegment]:
    """Return where the training's time went, the largest first."""
    rows = sorted(verdict.ledger, key=lambda row: -row.share)
    loop = [row for row in rows if row.span not in AROUND_LOOP]
    laid = _laid([(row.span, row.share, row.seconds) for row in rows])
    margins = {row.span: row.margin for row in rows}
    inside = {part.name: part.width for part in _laid([(row.span, row.share, row.seconds) for row in loop])}
    return [row._replace(of_loop=inside.get(row.name), margin=margins[row.name]) for row in laid]


def _tenths(width: int) -> str:
    return f"{width / 10:.1f} %" if width else "under 0.1 %"


def of_device(verdict: Verdict) -> list[LedgerSegment]:
    """Return what the devices did in the loop by their own clock; nothing where they were not timed."""
    rows = sorted(verdict.device_ledger, key=lambda row: -row.share)
    return _laid([(row.part, row.share, row.seconds) for row in rows])


def _laid(rows: Sequence[tuple[str, float, float]]) -> list[LedgerSegment]:
    if sum(share for _, share, _ in rows) <= 0:
        return []
    widths = apportion([share for _, share, _ in rows], WIDTH)
    starts = [sum(widths[:place]) for place in range(len(widths))]
    return [LedgerSegment(name, at, wide, s) for (name, _, s), at, wide in zip(rows, starts, widths, strict=True)]
