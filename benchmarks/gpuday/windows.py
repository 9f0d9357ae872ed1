"""Part 4, windows: what `prove` and `sweep-loader` say of two settings, against bare runs of both.

The bare runs know nothing of gputune; the device has caught up at both ends of what they time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuday.check import Check, Failed, Step, held
from gpuday.day import Day

BAR = 3.0  # %
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


def proved(kind: str, finding: str = "", bare_s: float = BARE_S) -> Callable[[Day], Iterator[Check]]:
    """Return the step that proves a training's finding, and runs both settings bare, for `bare_s` s each."""
    wanted = finding or TRAININGS[kind]

    def made(day: Day) -> Iterator[Check]:
        verdict, run, _ = day.watched(f"windows-{kind}", day.training(kind), GPU_DAY_SECONDS=WATCHED_S)
        found = [finding["id"] for finding in verdict["findings"]]
        if wanted not in found:
            raise Failed(f"gputune found {found or 'nothing'}, not {wanted}")
        command = day.ours("prove", "--json", "--pairs", "1", str(run), wanted, "--", *day.training(kind))
        proof = json.loads(day.run(command, okay=(0, 3), GPU_DAY_SECONDS=LONG_S))
        own, changed = both(day, kind, options(proof["change"]), bare_s)
        truth = changed / own
        said = proof["realised"]["likely"]
        rates = "; ".join(f"{row['variant']} {row['rate']:.0f}" for row in proof["trials"])
        note = f"prove ×{said:.3f} ({rates} samples/s), bare ×{truth:.3f} ({own:.0f} and {changed:.0f})"
        yield held(f"{kind}: prove's gain", "%", error(said, truth), BAR, note)

    return made


def swept(kind: str, bare_s: float = BARE_S) -> Callable[[Day], Iterator[Check]]:
    """Return the step that sweeps a training's loader, and runs its own and the best settings bare, `bare_s` s each."""

    def made(day: Day) -> Iterator[Check]:
        out = day.out / "work" / f"sweep-{kind}"
        words = day.training(kind)
        sweep = day.ours("sweep-loader", "--json", "--write", "-", "--budget", "30s", "--out", str(out))
        found = json.loads(day.run([*sweep, "--python", words[0], *words[1:]], GPU_DAY_SECONDS=LONG_S))
        best = {name: found["best"][name] for name in SETTINGS}
        own, changed = both(day, kind, options(best), bare_s)
        for name, row, true in (("own settings", "baseline", own), ("best settings", "best", changed)):
            said = found[row]["samples_per_s"]
            note = f"sweep {said:.0f}, bare {true:.0f} samples/s ({options(best) if row == 'best' else 'as it is'})"
            yield held(f"{kind}: sweep's rate of the {name}", "%", error(said, true), BAR, note)

    return made


def both(day: Day, kind: str, changed: list[str], bare_s: float) -> tuple[float, float]:
    """Return samples/s of bare runs, `bare_s` s each, with a training's own settings and with others.

    Raises Failed where two runs of its own, before and after, differ so much that nothing can be held against them.
    """
    before = day.bare(kind, seconds=bare_s)["samples_per_s"]
    other = day.bare(kind, *changed, seconds=bare_s)["samples_per_s"]
    after = day.bare(kind, seconds=bare_s)["samples_per_s"]
    if abs(error(after, before)) > BAR:
        raise Failed(f"the truth is not known: two equal bare runs gave {before:.0f} and {after:.0f} samples/s")
    return (before + after) / 2, other


RATES = ("sweep's rate of the own settings", "sweep's rate of the best settings")
STEPS = (
    Step(("images: prove's gain",), 50, proved("images")),
    Step(tuple(f"starved: {name}" for name in RATES), 60, swept("starved")),
    Step(("starved: prove's gain",), 50, proved("starved")),
    Step(tuple(f"images: {name}" for name in RATES), 60, swept("images")),
)
