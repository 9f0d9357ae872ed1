"""Whether something creeps up: a slope with its confidence, from readings at any times, in bounded memory."""

import math

from gputune.core.figures import NORMAL
from gputune.features import Trend

READINGS_KEPT = 96  # readings; when it is full every second one goes, so that they always span the whole
MIN_READINGS = 6  # readings below which nothing is said of a slope


class AmountSeries:
    """Readings of one amount (B) over time, the earlier ones thinned out."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._apart = 0.0  # s between the readings that are kept, at the least

    def add(self, at: float, value: float) -> None:
        """Take one reading at `at` (s)."""
        if self._points and at - self._points[-1][0] < self._apart:
            return
        self._points.append((at, value))
        if len(self._points) >= READINGS_KEPT:
            self._points = self._points[::2]
            self._apart = (self._points[-1][0] - self._points[0][0]) / len(self._points)

    def trend(self, since: float, until: float, least: int = MIN_READINGS) -> Trend | None:
        """Return the trend of the readings from `since` to `until` (s), None with fewer than `least` in a half of them.

        The slope is that of the later half; the interval holds that of the whole as well, so that a curve that levels
        off, as caches and allocators do, is no growth.
        """
        points = [point for point in self._points if since <= point[0] <= until]
        half = points[len(points) // 2 :]
        if len(half) < least:
            return None
        _, low, high = _slope(points)
        rate, late_low, late_high = _slope(half)
        return Trend(
            rate=rate,
            low=min(low, late_low, rate),
            high=max(high, late_high, rate),
            first=points[0][1],
            last=points[-1][1],
            seconds=points[-1][0] - points[0][0],
        )


def _slope(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Return (slope, low, high): the median of the slopes between all pairs, and its 95 % interval.

    The interval is of ranks, so outliers (a batch that happens to be large) move neither it nor the slope.
    Sources: Theil 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
    """
    slopes = sorted(
        (value - earlier) / (at - before)
        for number, (at, value) in enumerate(points)
        for before, earlier in points[:number]
        if at > before
    )
    if not slopes:
        return 0.0, 0.0, 0.0
    n, pairs = len(points), len(slopes)
    width = NORMAL * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2
    low, high = max(0, math.floor(pairs / 2 - width)), min(pairs - 1, math.ceil(pairs / 2 + width))
    return slopes[pairs // 2], slopes[low], slopes[high]
