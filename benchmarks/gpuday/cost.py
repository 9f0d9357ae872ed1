"""Part 6, the cost of watching a training whose steps take 2 ms: bare, watched, bare, and so on, in turn."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuday.check import Check, Failed, Step, held, told
from gpuday.day import Day, last_json

BAR = 1.0  # %
STEP_S = 0.002
MEASURED_S = 5.0  # s of one run's timed steps
ONCE_S = 14.0  # s that one takes with starting torch, on a machine that was started a minute ago
MOST = 4  # watched runs
NAMES = (
    "a step, bare",
    "cost of watching it",
    "the same of the median step",
    "control: bare runs against each other",
)


def depth_for(step_s: float, depth: int) -> int:
    """Return how many layers make a step of 2 ms, where `depth` make one of `step_s`."""
    return max(1, round(depth * STEP_S / step_s))


def costs(bare: Sequence[float], watched: Sequence[float]) -> list[float]:
    """Return what each watched run's step costs, in %, over the mean of the bare ones before and after it."""
    return [100 * (w / ((before + after) / 2) - 1) for before, w, after in zip(bare, watched, bare[1:], strict=False)]


def known(bare: Sequence[float], watched: Sequence[float]) -> list[float]:
    """Return those of the costs that are known: the bare runs on both sides differ by no more than may be lost."""
    alike = [100 * (max(pair) / min(pair) - 1) <= BAR for pair in pairwise(bare)]
    return [each for each, sure in zip(costs(bare, watched), alike, strict=True) if sure]


def cost(day: Day) -> Iterator[Check]:
    """Run it bare and watched in turn, as often as fits."""
    tried = 8
    depth = str(depth_for(day.bare("short", "--depth", str(tried), seconds=1.0)["step_s"], tried))
    command = day.training("short", "--depth", depth)
    bare, watched = [day.bare("short", "--depth", depth, seconds=MEASURED_S)], list[dict[str, float]]()
    least = 2 * ONCE_S
    while len(watched) < MOST and day.box.left() > least:
        before = day.box.left()
        _, _, printed = day.watched(f"cost-{len(watched)}", command, GPU_DAY_SECONDS=str(MEASURED_S))
        watched.append(last_json(printed))
        bare.append(day.bare("short", "--depth", depth, seconds=MEASURED_S))
        least = 1.1 * (before - day.box.left())  # what another pair may take
    if not watched:
        raise Failed("no watched run fitted in")
    yield from judged(int(depth), bare, watched)


def judged(depth: int, bare: Sequence[dict[str, float]], watched: Sequence[dict[str, float]]) -> Iterator[Check]:
    """Yield what bare and watched runs in turn say."""
    whole, middle = ([[row[name] for row in each] for each in (bare, watched)] for name in ("step_s", "median_s"))
    yield told(NAMES[0], "ms", 1e3 * statistics.median(whole[0]), f"{depth} layers")
    yield told(NAMES[2], "%", statistics.median(costs(*middle)), _listed(costs(*middle)))
    apart = 100 * (max(whole[0]) / min(whole[0]) - 1)
    yield told(NAMES[3], "%", apart, f"of {len(bare)}: {', '.join(f'{1e3 * one:.3f}' for one in whole[0])} ms")
    each = known(*whole)
    if not each:
        raise Failed(f"bare runs differ by {apart:.1f} %, watched ones by {_listed(costs(*whole))} % from those around")
    note = f"{len(each)} of {len(watched)} watched runs: {_listed(each)}"
    yield held(NAMES[1], "%", max(0.0, statistics.median(each)), BAR, note)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{one:+.2f}" for one in sorted(values))


STEPS = (Step(NAMES, 4 * ONCE_S, cost),)
