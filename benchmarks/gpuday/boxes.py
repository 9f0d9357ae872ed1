"""Time boxes: how long each part may take, and the steps of one within its own. A part that fails leaves its rows."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuday.check import NOT_RUN, Check, Failed, Step, not_run, read

TOTAL_S = 480.0  # of one call: a lent machine allows ten minutes a command, and starting it takes some of them
LAST_S = 8.0  # of that: to pack the recordings and write the table
MOST = 4.0  # times its usual box that a part may have where it runs alone


def stretched(boxes: Mapping[str, float], chosen: Sequence[str], total: float) -> dict[str, float]:
    """Return the s of each chosen part: its own box, larger where others are left out, smaller where `total` is."""
    usual = {part: boxes[part] for part in chosen}
    factor = min(MOST, (total - LAST_S) / max(1e-9, sum(usual.values())))
    return {part: seconds * factor for part, seconds in usual.items()}


class Box:
    """A deadline. `clock` is a test's."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self.until = clock() + seconds

    def left(self) -> float:
        """Return the s that are left, 0 at the least."""
        return max(0.0, self.until - self.clock())


def taken(part: str, steps: Iterable[Step], day: object, box: Box) -> Iterator[Check]:
    """Take a part's steps and yield their checks as they come. What fails or does not fit is not run, and says why."""
    for step in steps:
        missing = list(step.names)
        why = "it said nothing of it"
        try:
            if box.left() < step.seconds:
                why = (
                    f"it needs {step.seconds:.0f} s, and {box.left():.0f} s of the part's {box.seconds:.0f} s were left"
                )
            else:
                for check in step.make(day):  # type: ignore[operator]
                    missing = [name for name in missing if name != check.name]
                    yield replace(check, part=part)
        except Exception as error:  # noqa: BLE001 - one step's failure is one sentence, and never the next one's
            why = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        for name in missing:
            yield replace(not_run(name, why), part=part)


def kept(file: Path, part: str, steps: Iterable[Step], why: str) -> list[Check]:
    """Return the checks that a part wrote to `file`, a line each; those it did not come to are not run: `why`."""
    found = [check for line in file.read_text().splitlines() if (check := _read(line))] if file.exists() else []
    names = {check.name for check in found}
    return found + [
        replace(not_run(name, why), part=part) for step in steps for name in step.names if name not in names
    ]


def merged(before: Iterable[Check], now: Sequence[Check], order: Sequence[tuple[str, str]]) -> list[Check]:
    """Return the checks of two calls, by parts and names in `order`: the later one counts where both made one."""
    places = {key: place for place, key in enumerate(order)}
    made = {(check.part, check.name) for check in now if check.verdict != NOT_RUN}
    tried = {(check.part, check.name) for check in now}  # of what neither made, the later reason counts
    old = [check for check in before if (check.part, check.name) not in (tried if check.verdict == NOT_RUN else made)]
    kept_names = {(check.part, check.name) for check in old}
    new = [check for check in now if (check.part, check.name) not in kept_names]
    return sorted([*old, *new], key=lambda check: places.get((check.part, check.name), len(places)))


def _read(line: str) -> Check | None:
    """Return the check that a line holds, None where its writer was ended within it."""
    try:
        return read(json.loads(line))
    except (ValueError, TypeError):
        return None
