"""Writes docs/causes.md: which advisor covers which line of the checklist, as the advisors say it themselves.

An advisor names its lines in `CHECKLIST`. Run by `make causes`; `tests/test_causes.py` holds what it wrote to them.
"""

from pathlib import Path

from gputune.core.plugins import identity, load, names

ROOM = "gputune.advisors"
PAGE = Path(__file__).with_suffix(".md")

# the checklist in its own order: root causes by their names, fixes by their numbers
LINES = {
    "data loading": "a root cause",
    "network wait": "a root cause",
    "preprocessing": "a root cause",
    "model saving": "a root cause",
    "loss computation": "a root cause",
    "metric computation": "a root cause",
    "log printing": "a root cause",
    "metric reporting": "a root cause",
    "progress reporting": "a root cause",
    "1.1": "storage and compute far apart: import the data first",
    "1.2": "slow disk: memory as disk for temporary data",
    "1.3": "many small files: merge them",
    "1.4": "no parallel reading: `num_workers`; in TensorFlow `num_parallel_calls`",
    "1.5": "no prefetch: `prefetch_factor`; in TensorFlow `Dataset.prefetch`",
    "1.6": "`pin_memory`",
    "1.7": "batch too small: first raise `batch_size` until the memory is used, then tune `num_workers`",
    "2.1": "preprocessing coupled with training: split it, or DALI",
    "3.1": "checkpoints too often",
    "3.2": "TensorBoard flushes too often",
    "3.3": "logs too often, switching between CPU and GPU",
    "sharing": "several processes on one device that one job cannot fill",
}

HEAD = """# Causes

The checklist that gputune comes from, a training platform's guide for people whose GPU is not busy, line by line, and
the advisors that each line leads to. `gputune explain ID` prints what an advisor sees, why it matters, what to do,
and when it is wrong. Written by `make causes` out of the advisors: change them, not this page.

| line | what it says | advisor | what that says |
|---|---|---|---|
"""


def covered() -> dict[str, list[str]]:
    """Return for each line the names of the advisors that claim it, sorted; what no line is called is a ValueError."""
    found: dict[str, list[str]] = {line: [] for line in LINES}
    for name in names(ROOM):
        for line in getattr(load(ROOM, name), "CHECKLIST", ()):
            if line not in found:
                raise ValueError(f"`{name}` claims the line {line!r}, which the checklist does not have")
            found[line].append(name)
    return found


def page() -> str:
    """Return the whole page."""
    rows = []
    for line, advisors in covered().items():
        cells = [f"**{line}**", LINES[line]]
        for name in advisors:
            says = (load(ROOM, name).__doc__ or "").partition("\n")[0].replace("|", "\\|")
            rows.append("| " + " | ".join([*cells, f"`{identity(name)}`", says]) + " |")
            cells = ["", ""]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
