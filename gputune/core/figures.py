"""Numbers made out of many, and numbers in words."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from gputune.core.units import NS

NORMAL = 1.96  # standard errors of a 95 % interval
TINY = 1e-9  # s; nothing here takes less
MOSTLY = 0.5  # of something: from here on it is called by what most of it is

# NVML's clock event reasons that hold clocks down against the user's will, in words.
# Source: nvml.h, nvmlClocksEventReasons. Idle (0x1), application clocks (0x2) and display clocks (0x100) are wanted.
REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def half_wilson(share: float, count: int) -> float:
    """Return half of Wilson's interval: not zero for a share of nothing or everything."""
    z = NORMAL
    return z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return between what a share lies with 95 % that was seen in so many looks: Wilson's interval."""
    share, z = min(1.0, share), NORMAL
    middle, half = (share + z * z / (2 * count)) / (1 + z * z / count), half_wilson(share, count)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def cpus_of(count: float, ranks: int = 1) -> tuple[str, str]:
    """Return the CPUs of a job, or of one of its ranks, as a subject, and the verb that goes with it."""
    whose = "rank" if ranks > 1 else "job"
    return (f"the one CPU of this {whose}", "is") if count == 1 else (f"the {count:g} CPUs of this {whose}", "are")


def mean(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def standard_error(values: Sequence[float]) -> float:
    """Return the relative standard error of a mean, 0 of less than two values."""
    middle = mean(values)
    return deviation_of_mean(values) / middle if len(values) > 1 and middle > 0 else 0.0


def deviation_of_mean(values: Sequence[float]) -> float:
    """Return the standard error of a mean of two values or more, in their unit."""
    middle, count = mean(values), len(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (count - 1) / count)


def number(value: float, digits: int = 4) -> str:
    """Return a number as people write it, with so many digits that count: 0.1235, 434.6, 10,930."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def size(count: float) -> str:
    """Return bytes in words: `3.1 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    """Return a time in words: `0.12 s`, `61.2 s`, `12 min 5 s`, `3 h 20 min`, `4 days 15 h`."""
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    return f"{seconds:.1f} s" if seconds < 99.95 else _parts(round(seconds))


def moment(unix_ns: int) -> str:
    """Return a time (ns, Unix) as ISO 8601 in UTC, to the second; an empty string where no calendar has it."""
    try:
        return datetime.fromtimestamp(unix_ns // NS, timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def about(seconds: float) -> str:
    """Return a time that is an extrapolation in words, to the two digits that it has."""
    rounded = float(f"{seconds:.2g}")
    return _parts(round(rounded)) if rounded >= 10 else f"{rounded:g} s"


def _parts(seconds: int) -> str:
    """Return whole seconds in the two units that count."""
    for large, small, size, part in (("days", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if seconds >= 2 * size:
            whole, rest = divmod(round(seconds / part), size // part)
            return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"
    return f"{seconds} s"


def apportion(shares: Sequence[float], total: int) -> list[int]:
    """Return whole numbers in proportion to `shares` that add to `total` (largest remainders)."""
    scale = total / sum(shares)
    whole = [int(share * scale) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: whole[i] - shares[i] * scale)
    for index in by_remainder[: total - sum(whole)]:
        whole[index] += 1
    return whole
