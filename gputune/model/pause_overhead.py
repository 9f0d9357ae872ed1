"""What a pause costs beyond itself: a loop that loses its pauses wins back the slower rounds after them as well.

After some milliseconds of anything else a step begins with cold caches and sleeping threads, what belongs to the pause
is not all inside its span, and a saved model's pages are still being written while the next steps run. Where pauses are
rarer than every step, the rounds far from one show what a round takes without. Where every step pauses, only what
idling is known to cost a step can be taken off. Workers, on the other hand, fill their queue in a pause, so the
rounds after it may also wait less than the others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev

from gputune.core.figures import mean
from gputune.features import Loader

CHILL_S = 0.00085  # s that a step takes longer when it begins cold (measured: 0.3 to 1.0 ms for steps of 0.4 to 14 ms)
COOLING_S = 0.005  # s of pause after which it is cold for the most part (measured: half of it after 2 to 6 ms)
COLDEST = 0.8  # of a step: more of it than this is hardly lost by beginning cold (0.13 ms took 0.85: all code anew)
COLDER = 0.55  # of a longer step that may be lost so (2.2 ms for 1.0, 4.9 for 2.7 were seen)
COLDEST_S = 0.006  # s likewise (5.7 of 15.6 ms, on virtual CPUs that the hypervisor gives away while they idle)
BUSY = 0.85  # of the chill that is left where the pause computes: its thread stays awake and some caches warm
APART = 2  # steps after a pause before a round can be a quiet one: its own and the next are the pause's
FAR_ENOUGH = 16  # steps after a pause from which on every round is quiet
LEAST = 10  # pauses with quiet rounds behind them below which their mean says nothing
TRIMMED = 0.1  # of the pauses at either end that are left out of the mean: somebody else was at work
LINGERS = 0.08  # of a round: by so much rounds that are never far from a saved model may differ from any without
SURE = 1.6  # standard errors: nine means of ten lie within


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What each pause costs the rounds around it beyond its own span, in s (below 0: they catch up what it cost).

    `unsure` is by how much that may be wrong, `colder` what it may be more than that. `lingers` is by how much rounds
    to the next pause may be slower or quicker than those of a run without any: no round of this one tells. `apart` is
    how many rounds after a pause others were seen for comparison; 0 where there were none, so that it is not known how
    rounds without any pause would do.
    """

    seconds: float
    unsure: float
    apart: int
    colder: float = 0.0
    lingers: float = 0.0


def chill(pause: float, step: float, busy: float = 0.0) -> float:
    """Return how many of the `step` s that follow a pause of `pause` s are due to beginning cold.

    `busy` is the share of the pause in which its thread computes.
    """
    return min(_chill(pause, busy), COLDEST * max(0.0, step))


def coldest(pause: float, step: float) -> float:
    """Return how many of the `step` s that follow a pause may be due to beginning cold at the most.

    On some machines that is several times what `chill` says, and on virtual ones no two hours are alike.
    """
    most = -math.expm1(-max(0.0, pause) / COOLING_S) * min(COLDEST_S, COLDER * max(0.0, step))
    return max(most, chill(pause, step))


def chilled(pause: float, step: float, busy: float = 0.0) -> float:
    """Return how many s come on top of a step of `step` s that did not begin cold: `chill` the other way."""
    return min(_chill(pause, busy), COLDEST / (1 - COLDEST) * max(0.0, step))


def _chill(pause: float, busy: float) -> float:
    most = CHILL_S * (1 - (1 - BUSY) * min(1.0, max(0.0, busy)))
    return -most * math.expm1(-max(0.0, pause) / COOLING_S)


def aftermath(loader: Loader, span: str) -> Aftermath:
    """Return what a pause of this kind costs the rounds of this loader's loop beyond itself."""
    pauses = loader.pauses.get(span, ())
    count = sum(pause > 0 for pause in pauses)
    if not count:
        return Aftermath(0.0, 0.0, 0)
    apart = min(FAR_ENOUGH, max(APART, math.ceil(len(pauses) / count / 2)))
    rest = [w + s - p for w, s, p in zip(loader.waits, loader.steps, pauses, strict=True)]
    excesses = sorted(_excesses(rest, pauses, apart))
    if len(excesses) >= LEAST:
        cut = int(TRIMMED * len(excesses))
        kept = excesses[cut : len(excesses) - cut]
        error = stdev(kept) / math.sqrt(len(kept))
        excess = mean(kept)
        believed = excess**2 / (excess**2 + error**2) if error else 1.0
        near = _lingering(excess, mean(rest), len(pauses) / count) if span == "checkpoint" and apart < FAR_ENOUGH else 0
        return Aftermath(excess * believed, SURE * error, apart, lingers=near)
    if span == "evaluation":  # it runs the model itself
        return Aftermath(0.0, 0.0, 0)
    pause = mean(p for p in pauses if p > 0)
    cold = chill(pause, mean(rest), _busy(loader, pauses))
    warm = 1 - (1 - BUSY) * min(1.0, max(0.0, _busy(loader, pauses)))
    most = min(COLDEST_S, COLDER * mean(rest)) * warm  # however short: it may be many, each of which lets others work
    return Aftermath(cold, cold, 0, max(0.0, most - 2 * cold))


def _lingering(excess: float, rest: float, rounds: float) -> float:
    """Return the s a pause by which all the `rounds` around it are slower than any without pauses, seen or not."""
    return LINGERS * max(0.0, rest * rounds - excess)


def _busy(loader: Loader, pauses: Sequence[float]) -> float:
    """Return the share of the pauses in which the process computes: the CPU time of steps beyond their other part."""
    cpu = mean(loader.step_cpus) if loader.step_cpus else loader.step_cpu or 0.0
    return (cpu - (mean(loader.steps) - mean(pauses))) / mean(pauses)


def _excesses(rest: Sequence[float], pauses: Sequence[float], apart: int) -> Iterable[float]:
    """Yield for each pause what it and the `apart` - 1 rounds after it took beyond the later ones before the next."""
    at = [i for i, pause in enumerate(pauses) if pause > 0]
    for here, after in zip(at, [*at[1:], len(pauses)], strict=True):
        near, far = rest[here : here + apart], rest[here + apart : after]
        if far:
            yield sum(near) - len(near) * mean(far)
