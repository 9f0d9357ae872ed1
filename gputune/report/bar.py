"""The ledger as one bar and its legend, in whole percents that add to 100, told apart without colour."""

from collections.abc import Sequence
from typing import NamedTuple

from gputune.core.events import ENVIRONMENT_SPAN, POLICY_SPAN
from gputune.core.figures import apportion
from gputune.verdict.document import LedgerRow

SMALLEST = 0.01  # a smaller share is counted as `other`: it would be drawn as nothing
GLYPHS = "█▓▒░·"  # by rank of share, so that neighbours always differ
OTHER = "other"
COLOURS = {
    "step": "32",
    "loader.wait": "31",
    "loader.start": "91",
    "startup": "34",
    "checkpoint": "35",
    "evaluation": "36",
    "logging": "33",
    "reporting": "93",
    "cleanup": "93",
    "sync": "95",
    "launch.wait": "95",
    "copy.h2d": "94",
    ENVIRONMENT_SPAN: "33",
    POLICY_SPAN: "36",
    "collective": "96",
    "queue.wait": "31",
    "between": "33",
    "teardown": "94",
}


class Part(NamedTuple):
    """One stretch of the bar. `percent` is whole, and all of a bar add to 100."""

    span: str
    share: float
    percent: int


def parts(ledger: Sequence[LedgerRow], width: int) -> list[Part]:
    """Return the largest shares of a ledger, the rest as `other`, as many as a legend of `width` columns names."""
    total = sum(row.share for row in ledger)
    if total <= 0:
        return []
    shares = [(row.span, row.share / total) for row in sorted(ledger, key=lambda row: -row.share)]
    for most in range(4, 0, -1):  # spans with a name: with `other`, one for each glyph
        kept = _largest(shares, most)
        whole = apportion([share for _, share in kept], 100)
        shown = [Part(span, share, n) for (span, share), n in zip(kept, whole, strict=True)]
        if len(legend(shown, colour=False)) <= width:
            break
    return shown


def _largest(shares: Sequence[tuple[str, float]], most: int) -> list[tuple[str, float]]:
    kept = [item for item in shares[:most] if item[1] >= SMALLEST] or list(shares[:1])
    rest = 1.0 - sum(share for _, share in kept)
    return [*kept, (OTHER, rest)] if rest >= 0.005 else kept  # what is left over is named when it rounds to a percent


def bar(shown: Sequence[Part], width: int, *, colour: bool) -> str:
    """Return the bar, exactly `width` columns."""
    cells = apportion([part.share for part in shown], width)
    return "".join(_painted(_glyph(i) * n, shown[i].span, colour=colour) for i, n in enumerate(cells))


def legend(shown: Sequence[Part], *, colour: bool) -> str:
    """Return every part's glyph, name and percents in one line."""
    said = (f"{_painted(_glyph(i), p.span, colour=colour)} {p.span} {p.percent}%" for i, p in enumerate(shown))
    return "  ".join(said)


def _glyph(index: int) -> str:
    return GLYPHS[index]


def _painted(text: str, span: str, *, colour: bool) -> str:
    return f"\x1b[{COLOURS.get(span, '37')}m{text}\x1b[0m" if colour and text else text
