"""Part 5, causes: whether the zoo's planted ones are told first on this card, and what their fixes bring.

Where a fix brings nothing here, and nothing is said, nothing failed: the script was made for another card.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from gpuday.check import Check, Failed, Step, held, not_run, told, truth
from gpuday.day import ROOT, Day

ZOO = ROOT / "tests" / "zoo" / "cuda"
SCRIPTS = (  # the most telling first: what does not fit into the box is not run
    "unpinned_memory_images",
    "sync_every_step_item",
    "few_workers_convnet",
    "healthy_convnet",
    "host_bound_optimizer",
    "no_mixed_precision_transformer",
    "small_batch_convnet",
    "blocking_copy_boxes",
)
BAR = 25.0  # %: error of one prediction (the bar for nine of ten)
WORTH = 1.05  # what a fix must bring to be worth a word: gputune's own bar


def script(name: str) -> Callable[[Day], Iterator[Check]]:
    """Return the step that watches a script and runs its repaired twin."""

    def made(day: Day) -> Iterator[Check]:
        path = ZOO / f"{name}.py"
        if not path.exists():
            raise Failed(f"there is no {path.relative_to(ROOT)} in this tree")
        pace = day.out / "work" / f"{name}.pace.json"
        pace.parent.mkdir(exist_ok=True)
        verdict, _, _ = day.watched(f"cause-{name}", [day.python, str(path)], ZOO_PACE=str(pace))
        findings = verdict["findings"]
        first = findings[0]["id"] if findings else "nothing"
        own = _pace(json.loads(pace.read_text()))
        if name.startswith("healthy"):
            yield truth(f"{name}: first", first, right=not findings)
            return
        day.run([day.python, str(path), "--fixed"], ZOO_PACE=str(pace))
        realised = _pace(json.loads(pace.read_text())) / own
        yield from judged(name, first, findings, realised)

    return made


def judged(name: str, first: str, findings: list[dict[str, Any]], realised: float) -> Iterator[Check]:
    """Yield whether the planted cause came first, and by how much its prediction is off."""
    planted = name.replace("_", "-").startswith(first)
    if realised < WORTH and not findings:
        yield told(f"{name}: first", "", "nothing", f"nothing to find on this card: the fix brings ×{realised:.2f}")
        yield not_run(f"{name}: error of the gain", "there is nothing to find on this card")
        return
    yield truth(f"{name}: first", first, f"the fix brings ×{realised:.2f}", right=planted)
    if not planted:
        yield not_run(f"{name}: error of the gain", "the planted cause did not come first")
        return
    likely = findings[0]["speedup"]["likely"]
    note = f"predicted ×{likely:.2f}, realised ×{realised:.2f}"
    yield held(f"{name}: error of the gain", "%", 100 * (likely / realised - 1), BAR, note)


def _pace(row: dict[str, float]) -> float:
    return row["samples"] / row["seconds"]


STEPS = tuple(
    Step((f"{name}: first", *(() if name.startswith("healthy") else (f"{name}: error of the gain",))), 15, script(name))
    for name in SCRIPTS
)
