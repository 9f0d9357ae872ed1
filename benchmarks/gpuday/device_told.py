"""Run by gputune's Python: `device_told.py RUN` prints what the device's clock says of a step, ns, as one JSON object.

`compute`: the medians of the parts of a step that it worked off without a gap (SEGMENT), added; null where one of the
parts was never seen like that. `work` and `idle`: medians of its time from a step's first to its last work, gaps in it
included, and between steps (GAP). `copied`: of its copies (DEVICE).
"""

import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Fields(NamedTuple):
    """What is needed of a record; docs/ring.md."""

    kind: str
    a: int
    b: int
    c: int


def told(records: Iterable[Fields]) -> dict[str, object]:
    """Return the figures of a recording's records."""
    segments: dict[int, list[int]] = defaultdict(list)
    masks: Counter[int] = Counter()
    steps: dict[str, list[int]] = {"work": [], "idle": [], "copied": []}
    for record in records:
        if record.kind == "SEGMENT":
            segments[record.b].append(record.a)
        elif record.kind == "GAP":
            steps["work"].append(record.b)
            steps["idle"].append(record.a)
        elif record.kind == "DEVICE":
            masks[record.c] += 1
            steps["copied"].append(record.a)
    mask = masks.most_common(1)[0][0] if masks else 0
    parts = [number for number in range(mask.bit_length()) if mask >> number & 1]
    known = [statistics.median(segments[number]) for number in parts if segments[number]]
    medians = {name: statistics.median(values) if values else None for name, values in steps.items()}
    compute = sum(known) if parts and len(known) == len(parts) else None
    seen = min((len(segments[number]) for number in parts), default=0)
    return {
        "compute": compute,
        "parts": len(parts),
        "known": len(known),
        "seen": seen,
        "steps": len(steps["work"]),
    } | medians


def main() -> None:
    """Print what is told in the run folder that is named."""
    from gputune.core.events import Event, Kind  # noqa: PLC0415 - its tests have no need of a recording
    from gputune.recording.reading import readings  # noqa: PLC0415 - as above

    records = (one.record for tick in readings(Path(sys.argv[1])) for one in tick if isinstance(one, Event))
    names = {int(kind): kind.name for kind in Kind}
    print(json.dumps(told(Fields(names.get(r.kind, ""), r.a, r.b, r.c) for r in records)))


if __name__ == "__main__":
    main()
