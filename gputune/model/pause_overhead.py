"""What a pause costs beyond itself: a loop that loses its pauses wins back the slower rounds after them as well.

What belongs to the pause is not all inside its span, the step after it begins with cold caches and sleeping threads,
and a saved model's pages are still being written while the next steps run. Where pauses are rarer than every step, the
rounds far from one show what a round takes without; where every step pauses, nothing does, and nothing is promised.
Workers, on the other hand, fill their queue in a pause, so the rounds after it may also wait less than the others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gputune.core.figures import NORMAL, deviation_of_mean, mean
from gputune.features import Loader

APART = 2  # steps after a pause before a round can be a quiet one: its own and the next are the pause's
FAR_ENOUGH = 16  # steps after a pause from which on every round is quiet
LEAST = 10  # pauses with quiet rounds behind them below which their mean says nothing


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What each pause costs the rounds around it beyond its own span, in s (below 0: they catch up what it cost).

    `unsure` is by how much that may be wrong, with 95 %. `apart` is how many rounds after a pause others were seen for
    comparison; 0 where there were none, so that it is not known how rounds without any pause would do.
    """

    seconds: float
    unsure: float
    apart: int


def aftermath(loader: Loader, span: str) -> Aftermath:
    """Return what a pause of this kind costs the rounds of this loader's loop beyond itself."""
    pauses = loader.pauses.get(span, ())
    count = sum(pause > 0 for pause in pauses)
    if not count:
        return Aftermath(0.0, 0.0, 0)
    apart = min(FAR_ENOUGH, max(APART, math.ceil(len(pauses) / count / 2)))
    rest = [w + s - p for w, s, p in zip(loader.waits, loader.steps, pauses, strict=True)]
    excesses = list(_excesses(rest, pauses, apart))
    if len(excesses) < LEAST:
        return Aftermath(0.0, 0.0, 0)
    error, excess = deviation_of_mean(excesses), mean(excesses)
    believed = excess**2 / (excess**2 + error**2) if error else 1.0
    return Aftermath(excess * believed, NORMAL * error, apart)


def _excesses(rest: Sequence[float], pauses: Sequence[float], apart: int) -> Iterable[float]:
    """Yield for each pause what it and the `apart` - 1 rounds after it took beyond the later ones before the next."""
    at = [i for i, pause in enumerate(pauses) if pause > 0]
    for here, after in zip(at, [*at[1:], len(pauses)], strict=True):
        near, far = rest[here : here + apart], rest[here + apart : after]
        if far:
            yield sum(near) - len(near) * mean(far)
