"""Which of two settings that were measured is the better one.

A tie goes to the cheaper setting: two tie whose rates are believed to be within `TIE` of each other. What is believed
lies between what was measured of them and what the model predicts, by how well either is known: chance alone makes no
setting the better one, and a difference that was seen often enough is not explained away. A setting that cannot be
told from the script's own is no reason to change it.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gputune.experiment.measured import Measured, gain
from gputune.sweep.settings import LoaderSetting

TIE = 0.01  # relative: the cheaper one of two that are this close
MODEL = 0.05  # relative: standard deviation by which the ratio of two predictions is off
SHARP = 0.025  # half a width of the interval of a ratio below which what is not apart from the script's own ties


class RateOrder(Enum):
    """How one setting's rate stands to another's."""

    FASTER = "faster"
    SLOWER = "slower"
    TIE = "tie"
    UNDECIDED = "undecided"


@dataclass(slots=True, kw_only=True)
class SettingStats(Measured):
    """All that was measured of one setting."""

    setting: LoaderSetting


def order(one: SettingStats, other: SettingStats, sharp: float = SHARP) -> RateOrder:
    """Return how `one` stands to `other`: a tie where they are not apart, by a `sharp` interval."""
    found = gain(other, one)
    if found.low > 1:
        return RateOrder.FASTER
    if found.high < 1:
        return RateOrder.SLOWER
    return RateOrder.TIE if found.high - found.low <= 2 * sharp * found.likely else RateOrder.UNDECIDED


def ratio(stats: SettingStats, other: SettingStats, predicted: Mapping[LoaderSetting, float]) -> float:
    """Return a setting's rate over that of another: as measured, and the less that tells, the more as predicted."""
    measured = stats.rate / other.rate
    expected, by = predicted.get(stats.setting, 0.0), predicted.get(other.setting, 0.0)
    if not expected or not by:
        return measured
    trust = _trust(_error(stats, other))
    return trust * measured + (1 - trust) * expected / by


def pays(stats: SettingStats, other: SettingStats, predicted: Mapping[LoaderSetting, float], more: int) -> bool:
    """Return whether `more` visits to each of two settings would make what is chosen faster by what they cost.

    Their worth is what the better of the two is faster, as often as they would turn which one is taken for it: the
    knowledge gradient of ranking and selection (Frazier, Powell, Dayanik, 2008).
    """
    if more <= 0:
        return False
    visits = min(len(stats.visits), len(other.visits))
    error = _error(stats, other)
    later = error * math.sqrt(visits / (visits + more))
    turned = MODEL * math.sqrt(max(0.0, _trust(later) - _trust(error)))  # standard deviation of what they change
    ahead = abs(ratio(stats, other, predicted) - 1)
    if not turned:
        return False
    normal = statistics.NormalDist()
    worth = turned * normal.pdf(ahead / turned) - ahead * normal.cdf(-ahead / turned)
    return worth >= 0.001 * 2 * more  # relative: what a visit brings at the least, for it takes time


def _error(stats: SettingStats, other: SettingStats) -> float:
    """Return the relative standard error of the ratio of two rates."""
    once = min(len(stats.visits), len(other.visits)) == 1
    # Where a rate was seen once it is not known what visits differ by: 0.02 relative at the least
    return max(math.hypot(stats.error, other.error), 0.02 if once else 0.0)


def _trust(error: float) -> float:
    """Return the weight (0 to 1) of the measured ratio in the believed one; the rest is that of the predicted ratio."""
    return MODEL**2 / (MODEL**2 + error**2)


def as_fast(stats: SettingStats, fastest: SettingStats, predicted: Mapping[LoaderSetting, float]) -> bool:
    """Return whether a setting ties with the fastest, by what was measured and predicted of the two."""
    return ratio(stats, fastest, predicted) >= 1 - TIE


def best(
    all_stats: Iterable[SettingStats], script: LoaderSetting, predicted: Mapping[LoaderSetting, float]
) -> SettingStats:
    """Return the cheapest of those that tie with the fastest.

    The script's own settings are left only for what is surely faster, or costs less and is sure to be about as fast.
    The fastest is looked for among these alone: one of which little is known does not hide one that surely pays.
    """
    found = list(all_stats)
    own = next((stats for stats in found if stats.setting == script), None)
    sure = found if own is None else [stats for stats in found if _may_replace(stats, own)]
    fastest = max(sure, key=lambda stats: stats.rate)
    return min((t for t in sure if as_fast(t, fastest, predicted)), key=lambda stats: stats.setting.cost(script))


def _may_replace(stats: SettingStats, own: SettingStats) -> bool:
    """Return whether a setting may take the place of the script's own; these may stay in any case."""
    if stats is own:
        return True
    stands = order(stats, own)
    cheaper = stats.setting.cost(own.setting) < own.setting.cost(own.setting)
    return stands is RateOrder.FASTER or (cheaper and stands is RateOrder.TIE)
