"""What the columns of the tables of records are, in the words of docs/recording.md: for `columns.csv`."""

from gputune.core.sample import Metric
from gputune.recording.spreadsheet import SpreadsheetColumn

COMMON = {
    "time": "when it began",
    "process": "index of the process in run.json and in notes; -1 the machine",
    "code": "flags: see docs/recording.md",
    "samples": "samples in the batch; 0 unknown",
    "bytes": "of the batch, or written or copied; 0 not measured",
}
TABLES: dict[str, dict[str, str]] = {
    "samples": {"time": "when the tick's last sample was read"},
    "batches": {
        "time": "when next() was called",
        "iterator": "which iterator of the process",
        "index": "number of the batch in its pass",
        "wait": "until next() returned",
        "ready": "batches that were ready when it was called; empty: unknown",
    },
    "fetches": {
        "seconds": "how long the batch took to make",
        "cpu": "CPU time in it",
        "queued": "waiting for a CPU; empty: unknown",
        "collate": "in collate_fn",
    },
    "spans": {
        "span": "checkpoint, logging, sync, ...",
        "seconds": "how long, nested spans included",
        "site": "place in the code (notes); 0 none",
        "thread": "0 the training thread",
        "iterator": "for loader.start",
        "detail": "see docs/recording.md",
    },
    "steps": {
        "what": "backward or optimizer",
        "seconds": "how long the backward call took; 0 for an optimizer",
        "optimizer": "which optimizer of the process",
    },
    "gaps": {
        "seconds": "how long the reading took",
        "idle": "the device idled before the next step's work",
        "work": "the step's work on the device",
        "index": "of the batch",
        "behind": "1 + µs after time at which the device was through with what was queued; 0 unknown",
    },
    "events": {"kind": "gputune/core/events.py", "seconds": "how long; empty: it lasts"},
    "notes": {"time": "when it became known", "what": "guest, note or open", "fields": "JSON"},
    "stacks": {
        "time": "when the burst ended",
        "pid": "of the process",
        "frames": "outermost first, one after the other",
        "count": "how many samples of the burst were there",
        "held": "only the thread that holds the interpreter was looked at",
    },
}


def told(column: SpreadsheetColumn, metrics: dict[str, Metric]) -> tuple[str, str, str, str, str]:
    """Return a row of `columns.csv`: table, column, unit, gauge or counter, meaning."""
    metric = metrics.get(column.name) if column.table == "samples" else None
    if metric is not None:
        return column.table, column.name, column.unit, metric.kind, metric.says
    says = TABLES.get(column.table, {}).get(column.name) or COMMON.get(column.name, "")
    return column.table, column.name, column.unit, "", says
