"""Part 4, windows: what `prove` and `sweep-loader` say of two settings, against bare runs of both.

The bare runs know nothing of gputune; the device has caught up at both ends of what they time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from gpuday.check import Check, Failed, Step, held
from gpuday.day import Day

BAR = 3.0  # %
SLICES = 2  # bare runs of either setting, in turn: machines change their pace from minute to minute
BARE_S, WATCHED_S, LONG_S = 5.0, "8", "600"
TRAININGS = {"images": "unpinned-memory", "starved": "few-workers"}
SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")


def options(change: Mapping[str, Any]) -> list[str]:
    """Return a change of settings as options of the training. Raises Failed where it has no such."""
    made = []
    for name, value in change.items():
        if name not in SETTINGS and value:
            raise Failed(f"it changes `{name}`, which this training has no option for")
        if name in SETTINGS and value is not None:
            made += ["--" + name.replace("_", "-"), str(int(value))]
    return made


def error(said: float, true: float) -> float:
    """Return by how many percent `said` is off."""
    return 100 * (said / true - 1)


def proved(
    kind: str, finding: str = "", bare_s: float = BARE_S, slices: int = SLICES, pairs: int = 1
) -> Callable[[Day], Iterator[Check]]:
    """Return the step that proves a training's finding, and runs both settings bare, `slices` times `bare_s` s each."""
    wanted = finding or TRAININGS[kind]

    def made(day: Day) -> Iterator[Check]:
        verdict, run, _ = day.watched(f"windows-{kind}", day.training(kind), GPU_DAY_SECONDS=WATCHED_S)
        found = [finding["id"] for finding in verdict["findings"]]
        if wanted not in found:
            raise Failed(f"gputune found {found or 'nothing'}, not {wanted}")
        command = day.ours("prove", "--json", "--pairs", str(pairs), str(run), wanted, "--", *day.training(kind))
        proof = json.loads(day.run(command, okay=(0, 3), GPU_DAY_SECONDS=LONG_S))
        own, changed = both(day, kind, options(proof["change"]), bare_s, slices)
        truth = sure("times", [new / old for old, new in zip(own, changed, strict=True)])
        said = proof["realised"]["likely"]
        rates = "; ".join(f"{row['variant']} {row['rate']:.0f}" for row in proof["trials"])
        note = f"prove ×{said:.3f} ({rates} samples/s), bare ×{truth:.3f} ({median(own):.0f} and {median(changed):.0f})"
        yield held(f"{kind}: prove's gain", "%", error(said, truth), BAR, note)

    return made


def swept(kind: str, bare_s: float = BARE_S, slices: int = SLICES) -> Callable[[Day], Iterator[Check]]:
    """Return the step that sweeps a training's loader, and runs its own and the best settings bare like `proved`."""

    def made(day: Day) -> Iterator[Check]:
        out = day.out / "work" / f"sweep-{kind}"
        words = day.training(kind)
        sweep = day.ours("sweep-loader", "--json", "--write", "-", "--budget", "30s", "--out", str(out))
        found = json.loads(day.run([*sweep, "--python", words[0], *words[1:]], GPU_DAY_SECONDS=LONG_S))
        best = {name: found["best"][name] for name in SETTINGS}
        bare = both(day, kind, options(best), bare_s, slices)
        for name, row, rates in zip(("own settings", "best settings"), ("baseline", "best"), bare, strict=True):
            said, true = found[row]["samples_per_s"], sure("samples/s", rates)
            note = f"sweep {said:.0f}, bare {true:.0f} samples/s ({options(best) if row == 'best' else 'as it is'})"
            yield held(f"{kind}: sweep's rate of the {name}", "%", error(said, true), BAR, note)

    return made


def both(day: Day, kind: str, changed: list[str], bare_s: float, slices: int) -> tuple[list[float], list[float]]:
    """Return samples/s of bare runs in turn, `slices` of `bare_s` s, with a training's own settings and with others."""
    own, other = [], []
    for _ in range(slices):
        own.append(day.bare(kind, seconds=bare_s)["samples_per_s"])
        other.append(day.bare(kind, *changed, seconds=bare_s)["samples_per_s"])
    return own, other


def sure(unit: str, found: list[float]) -> float:
    """Return the median of what equal bare runs gave. Raises Failed where nothing can be held against it.

    That is where any of them lies further from it than what would be judged by it may.
    """
    middle = median(found)
    if max(abs(error(each, middle)) for each in found) > BAR:
        raise Failed(f"the truth is not known: equal bare runs gave {', '.join(f'{x:.4g}' for x in found)} {unit}")
    return middle


RATES = ("sweep's rate of the own settings", "sweep's rate of the best settings")
STEPS = (
    Step(("images: prove's gain",), 60, proved("images")),
    Step(tuple(f"starved: {name}" for name in RATES), 70, swept("starved")),
    Step(("starved: prove's gain",), 60, proved("starved")),
    Step(tuple(f"images: {name}" for name in RATES), 70, swept("images")),
)
