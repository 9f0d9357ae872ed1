"""Which plots a page has, and of which columns of a recording: of what it has once a tick rather than of its records.

A week has tens of millions of records and ten thousandths as many points: where the recorder kept a number a tick that
says the same, that one is read.
"""

from collections.abc import Collection
from typing import NamedTuple

from gputune.core.events import STOPPING

PAUSES = tuple(sorted(STOPPING))
SPANS = {f"spans.seconds/s[{name}]": name for name in (*PAUSES, "sync", "copy.h2d", "collective")}
# A number a tick, and the records that tell the same where an older recording lacks it.
WAIT, WAITED = "loader.wait", "batches.wait/s"
SAMPLES, SAMPLED = "loader.samples", "batches.samples/s"
STEPS = "steps/s[optimizer]"  # the pace of a training whose samples nobody counted
NAMES = {**SPANS, WAITED: WAIT, SAMPLES: "samples", SAMPLED: "samples", STEPS: "steps"}
SUMS = frozenset({*SPANS, WAITED})  # of all training processes together: shown as their mean
# What a line is called below the title of its plot, where its metric's own name would ask for a manual
WORDS = {
    "batches.ready": "batches", "cpu.main": "training", "cpu.workers": "workers", "cpu.rest": "rest of the job",
    "cpu.others": "others", "memory.job": "job", "disk.read": "read", "disk.write": "written",
    "net.received": "received", "net.sent": "sent", "pressure.cpu": "for a CPU", "pressure.io": "for storage",
    "pressure.memory": "for memory",
}  # fmt: skip


class Plot(NamedTuple):
    """Lines that are drawn over one another: of these columns of a recording, in this base unit."""

    title: str
    unit: str
    columns: tuple[str, ...]
    most: float | None = None  # the upper end of its axis; None where values set it
    quiet: bool = False  # lines that stay at 0 are left out


def label(column: str) -> str:
    """Return what a column is called in a legend: `read sda`, `GPU 0`."""
    metric, _, instance = column.rstrip("]").partition("[")
    word = "GPU" if metric.startswith("gpu.") else WORDS.get(metric)
    return NAMES.get(column, column) if word is None else f"{word} {instance}".rstrip()


def plots(known: Collection[str], words: Collection[str]) -> tuple[Plot, ...]:
    """Return the plots of a recording whose samples have these metrics, and whose ledger these words."""
    spans = tuple(column for column, name in SPANS.items() if name in words)
    wait = WAIT if WAIT in known else WAITED
    pace = SAMPLES if SAMPLES in known else SAMPLED
    return (
        Plot("device busy", "ratio", ("gpu.busy",), 1.0),
        Plot("SMs active", "ratio", ("gpu.sm.active",), 1.0),
        Plot("device memory", "B", ("gpu.memory.used",)),
        Plot("device power", "W", ("gpu.power",)),
        Plot("share of the training's time", "ratio", (wait, *spans), 1.0, quiet=True),
        Plot("batches ready when one is asked for", "1", ("batches.ready",)),
        Plot("pace", "1/s", (pace,), quiet=True),
        Plot("CPUs by role", "cores", ("cpu.main", "cpu.workers", "cpu.rest", "cpu.others")),
        Plot("host memory of the job", "B", ("memory.job",)),
        Plot("disk", "B/s", ("disk.read", "disk.write"), quiet=True),
        Plot("network", "B/s", ("net.received", "net.sent"), quiet=True),
        Plot("pressure: time in which something waited", "ratio", ("pressure.cpu", "pressure.io", "pressure.memory")),
    )
