"""Numbers made out of many, and numbers in words."""

from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def size(count: float) -> str:
    """Return bytes in words: `3.1 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"
