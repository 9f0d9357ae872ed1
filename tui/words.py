"""Numbers in words, short and of one width where they stand under each other. What is not known is `–`, never 0."""

import math
import signal

UNKNOWN = "–"
BINARY = ((2.0**40, "T"), (2.0**30, "G"), (2.0**20, "M"), (2.0**10, "k"))
DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def known(value: float | None) -> float | None:
    """Return a number that is one: neither None nor nan nor infinite."""
    return value if value is not None and math.isfinite(value) else None


def percent(share: float | None) -> str:
    """Return a share as whole percents; one that is there and small is `<1%`."""
    value = known(share)
    if value is None:
        return UNKNOWN
    value = min(max(value, -9.99), 99.99)
    return "<1%" if 0 < value < 0.005 else f"{value * 100:.0f}%"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    value = min(max(value, 0.0), 9.99e17)
    size, letter = next((pair for pair in steps if value >= pair[0] * 0.9995), (1.0, ""))
    number = value / size
    digits = 0 if number >= 99.95 or not letter else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f}{letter}"


def size(count: float | None) -> str:
    """Return bytes by powers of 1024, `61.2G`."""
    value = known(count)
    return UNKNOWN if value is None else f"{_scaled(value, BINARY)}{'' if value >= 1023 else 'B'}"


def flow(rate: float | None) -> str:
    """Return B/s by powers of 1000, `1.20G/s`."""
    value = known(rate)
    return UNKNOWN if value is None else f"{_scaled(value, DECIMAL)}B/s"


def pace(rate: float | None) -> str:
    """Return a number of things a second: 0.12, 8.1, 812, 10,930, 1.2M."""
    value = known(rate)
    if value is None:
        return UNKNOWN
    if value < 99_999.5:
        value = max(0.0, value)
        return f"{value:,.{0 if value >= 99.95 or not value else 1 if value >= 9.995 else 2}f}"
    return _scaled(value, DECIMAL)


def watts(power: float | None) -> str:
    """Return W, from 10 kW on in kW."""
    value = known(power)
    if value is None:
        return UNKNOWN
    value = max(0.0, value)
    return f"{value:.0f}W" if value < 9999.5 else f"{_scaled(value, DECIMAL)}W"


def degrees(temperature: float | None) -> str:
    """Return °C."""
    value = known(temperature)
    return UNKNOWN if value is None else f"{min(max(value, -999), 9999):.0f}°C"


def hertz(clock: float | None) -> str:
    """Return Hz by powers of 1000, `1.98GHz`."""
    value = known(clock)
    return UNKNOWN if value is None else f"{_scaled(value, DECIMAL)}Hz"


def cores(count: float | None) -> str:
    """Return a number of CPUs."""
    value = known(count)
    if value is None:
        return UNKNOWN
    value = min(max(0.0, value), 99_999.0)
    return f"{value:.0f}" if value == round(value) or value >= 99.95 else f"{value:.1f}"


def clock(seconds: float | None) -> str:
    """Return a moment of a run: `0:05`, `12:31`, `3:20:05`."""
    value = known(seconds)
    if value is None:
        return UNKNOWN
    whole = int(min(max(0.0, value), 1e9))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def lasted(seconds: float | None) -> str:
    """Return a duration with the two digits that count: `85ms`, `3.2s`, `12min`, `3.1h`, `2.0d`."""
    value = known(seconds)
    if value is None:
        return UNKNOWN
    value = max(0.0, value)
    for size_s, letter, digits in ((86400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0), (1.0, "s", 1)):
        if value >= size_s * (2 if letter == "min" else 1):
            return f"{min(value / size_s, 99999):.{digits}f}{letter}"
    return f"{value * 1e3:.0f}ms"


def ending(code: int) -> str:
    """Return an exit status, or the signal that it stands for: `status 1`, `SIGKILL`, `status 137 (SIGKILL)`."""
    number = -code if code < 0 else code - 128
    name = next((each.name for each in signal.Signals if each.value == number), "")
    if code < 0:
        return name or f"signal {-code}"
    return f"status {code} ({name})" if name else f"status {code}"


def times(gain: float | None) -> str:
    """Return a speed-up: `×2.2`."""
    value = known(gain)
    if value is None:
        return UNKNOWN
    return f"×{min(max(value, 0.0), 9999):.{2 if value < 1.5 else 1 if value < 10 else 0}f}"


def interval(low: float, likely: float, high: float, *, at_least: bool = False) -> str:
    """Return a speed-up and its interval: `×2.2 (1.9–2.3)`; with `at_least` of this run only its low end is known."""
    if at_least and known(low) is not None:
        return f"at least {times(low)}"
    digits = 2 if likely < 1.5 else 1 if likely < 10 else 0
    shown = [f"{min(max(v, 0.0), 9999):.{digits}f}" if known(v) is not None else UNKNOWN for v in (low, likely, high)]
    return f"×{shown[1]} ({shown[0]}–{shown[2]})"
