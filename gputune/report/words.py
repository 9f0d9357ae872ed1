"""Numbers as a person reads them, with their units. Nowhere below this floor is there a percent."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputune.verdict.document import SpeedupRow  # a file of structs: a table of processes needs none of them


WIDEST = 100  # columns: longer lines are harder to read
UNBOUNDED = 3.0  # times the likely gain: a high end above it is none that anybody reckons with


def percent(share: float) -> str:
    """Return a share in whole percents; one that is there but small is not called nothing."""
    return "under 1%" if 0 < share < 0.005 else f"{share * 100:.0f}%"


def clip(text: str, width: int) -> str:
    """Return `text` cut to `width` columns, with an ellipsis where something is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"


def times(gain: "SpeedupRow", steady: float = 0.0) -> str:
    """Return a speed-up and its interval as a person reads them: `×2.2 (1.9–2.3)`, `×1.10 (1.05–1.15)`.

    Where only its low end is known: `at least ×1.17`, or `at least ×1.1, ×15 elsewhere`; where its high end says
    nothing, that is left out: `×2.0 (at least ×1.8)`. `steady` is the low end if
    steps keep the pace that they have: it stands for one that is a loss only because two runs differ, whatever is
    changed.
    """
    if gain.at_least:
        if gain.likely == gain.low:
            return f"at least {likely(gain.low)}"
        return f"at least ×{gain.low:.1f}, ×{gain.likely:.0f} elsewhere"
    digits = _digits(gain.likely)
    low, where = (steady, " if steps keep their pace") if gain.low < 1 <= steady else (gain.low, "")
    if gain.high > UNBOUNDED * gain.likely:
        return f"{likely(gain.likely)} (at least {likely(low)}{where})"
    return f"{likely(gain.likely)} ({low:.{digits}f}–{gain.high:.{digits}f}{where})"


def likely(gain: float) -> str:
    """Return a likely speed-up alone, with as many digits as beside its interval: `×2.2`, `×1.10`."""
    return f"×{gain:.{_digits(gain)}f}"


def promised(gain: float) -> str:
    """Return a likely speed-up, "" of one that would be told as ×1.00: a risk is found without a gain."""
    return likely(gain) if round(gain, 2) > 1 else ""


def _digits(gain: float) -> int:
    return 2 if gain < 1.5 else 1 if gain < 10 else 0


def number(value: float) -> str:
    """Return a rate with three digits that count: 0.123, 8.12, 812, 12,300."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return a line for each row, columns as wide as they need be; those in `right`, by number, are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
