"""How good predictions are, in the same words for every judge: single ones, with their intervals, beside two baselines.

A prediction is held against its own pair of runs, the one that it was made in and the one right after it with the
change; where a case has several pairs, against their median as well. Nothing is left out but what promises no more
than a lower end, which is counted apart.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """One prediction, and what its change brought, as ratios of samples/s."""

    cause: str
    promised: Sequence[float]  # low, likely, high
    realised: float  # of its own pair
    typical: float | None = None  # the median of all pairs of the case, where it has several
    at_least: bool = False
    simulated: bool = False  # on a simulated card
    basis: str = "predicted"
    ideal: float | None = None  # what perfect overlap would bring

    @property
    def held(self) -> bool:
        """Return whether the interval holds what its own pair realised."""
        low, _, high = self.promised
        return low <= self.realised and (self.at_least or self.realised <= high)


def ideal(finding: Mapping) -> float | None:
    """Return what perfect overlap would bring, max(making / workers, step), for a change of the workers alone."""
    told, change = finding["evidence"], finding["change"]
    if set(change) - {"num_workers", "persistent_workers"} or not {"batch_s", "step_s", "num_workers"} <= told.keys():
        return None
    return _overlapped(told, told["num_workers"]) / _overlapped(told, change.get("num_workers", told["num_workers"]))


def _overlapped(told: Mapping, workers: float) -> float:
    making, step = told["batch_s"], told["step_s"]
    return max(making / workers, step) if workers else making + step


def lines(gains: Iterable[Gain]) -> list[str]:
    """Return the figures of measured and predicted gains, of real CPUs and simulated cards, each apart."""
    gains = list(gains)
    parts = {(basis, simulated): [] for basis in ("measured", "predicted") for simulated in (False, True)}
    for gain in gains:
        parts[gain.basis, gain.simulated].append(gain)
    found = []
    for (basis, simulated), some in parts.items():
        found += _errors(f"{basis}, {'simulated cards' if simulated else 'real CPUs'}", some)
    return found + _baselines(gains)


def _errors(name: str, gains: list[Gain]) -> list[str]:
    single = [abs(g.promised[1] / g.realised - 1) for g in gains if not g.at_least]
    if not single:
        return []
    typical = [abs(g.promised[1] / g.typical - 1) for g in gains if not g.at_least and g.typical]
    widths = [g.promised[2] / g.promised[0] for g in gains if not g.at_least]
    bounds = len(gains) - len(single)
    also = f", {bounds} of them as a lower end" if bounds else ""
    told = [f"{name}: error of a single gain against its own pair: {spread(single)}"]
    if typical:
        told.append(f"{name}: and against the median of its case's pairs: {spread(typical)}")
    width = statistics.median(widths)
    held = f"{sum(g.held for g in gains)} of {len(gains)}{also}"
    return [*told, f"{name}: interval holds {held}, high over low {width:.2f}"]


def _baselines(gains: list[Gain]) -> list[str]:
    """Return how the same gains are told by who knows less: a rule of thumb, and what this cause brought elsewhere."""
    gains = [g for g in gains if not g.at_least]
    ruled = [g for g in gains if g.ideal is not None]
    by_cause = defaultdict(list)
    for gain in gains:
        by_cause[gain.cause].append(gain)
    means = []
    for alike in by_cause.values():
        for gain in alike:
            others = [math.log(g.realised) for g in alike if g is not gain]
            means += [abs(math.exp(statistics.mean(others)) / gain.realised - 1)] if others else []
    told = []
    if ruled:
        rule = spread([abs(g.ideal / g.realised - 1) for g in ruled])
        ours = spread([abs(g.promised[1] / g.realised - 1) for g in ruled])
        told.append(f"baseline max(making / workers, step), where it applies: {rule}, gputune: {ours}")
    if means:
        told.append(f"baseline what this cause brought in the other pairs: {spread(means)}")
    return told


def spread(errors: Iterable[float]) -> str:
    """Return median and 90th percentile of some errors, and how many they are."""
    ordered = sorted(errors)
    return f"median {statistics.median(ordered):.1%}, p90 {p90(ordered):.1%} ({len(ordered)})"


def p90(ordered: Sequence[float]) -> float:
    """Return the 90th percentile of what is sorted."""
    return ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]
