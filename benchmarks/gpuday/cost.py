"""Part 6, the cost of watching a training whose steps take 2 ms: bare, watched, bare, and so on, in turn."""

import statistics
from collections.abc import Iterator, Sequence

from gpuday.check import Check, Failed, Step, held, not_run, told
from gpuday.day import Day, last_json

BAR = 1.0  # %
STEP_S = 0.002
MEASURED_S, ONCE_S = 4.0, 9.0  # s of one run's timed steps; what a run takes with starting torch, at a guess
MOST = 4  # watched runs
NAMES = ("a step, bare", "cost of watching it", "control: bare runs against each other")


def depth_for(step_s: float, depth: int) -> int:
    """Return how many layers make a step of 2 ms, where `depth` make one of `step_s`."""
    return max(1, round(depth * STEP_S / step_s))


def costs(bare: Sequence[float], watched: Sequence[float]) -> list[float]:
    """Return what each watched run's step costs, in %, over the mean of the bare ones before and after it."""
    return [100 * (w / ((before + after) / 2) - 1) for before, w, after in zip(bare, watched, bare[1:], strict=False)]


def cost(day: Day) -> Iterator[Check]:
    """Run it bare and watched in turn, as often as fits."""
    tried = 8
    depth = str(depth_for(day.bare("short", "--depth", str(tried), seconds=1.0)["step_s"], tried))
    command = day.training("short", "--depth", depth)
    bare, watched = [day.bare("short", "--depth", depth, seconds=MEASURED_S)["step_s"]], []
    while len(watched) < MOST and day.box.left() > 2 * ONCE_S:
        _, _, printed = day.watched(f"cost-{len(watched)}", command, GPU_DAY_SECONDS=str(MEASURED_S))
        watched.append(last_json(printed)["step_s"])
        bare.append(day.bare("short", "--depth", depth, seconds=MEASURED_S)["step_s"])
    if not watched:
        raise Failed("no watched run fitted in")
    yield told(NAMES[0], "ms", 1e3 * statistics.median(bare), f"{depth} layers")
    yield judged(costs(bare, watched), 100 * (max(bare) / min(bare) - 1))
    yield told(NAMES[2], "%", 100 * (max(bare) / min(bare) - 1), f"of {len(bare)}")


def judged(each: Sequence[float], control: float) -> Check:
    """Return what it costs, in %; where bare runs differ by more than the bar, only what lies beyond that is judged."""
    found, note = statistics.median(each), f"watched runs: {', '.join(f'{one:+.2f}' for one in sorted(each))}"
    if control > BAR and abs(found - BAR) < control:
        return not_run(NAMES[1], f"the truth is not known: bare runs differ by {control:.1f} %; {len(each)} {note}")
    return held(NAMES[1], "%", max(0.0, found), BAR, f"{len(each)} {note}")


STEPS = (Step(NAMES, 4 * ONCE_S, cost),)
