"""The trials of one sweep or of several as a table for other programs: CSV, a row for each setting that was tried."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from gputune.core.hygiene import clean
from gputune.sweep.result import MeasuredSetting, Sweep, TrialRow, is_same

FILE = "trials.csv"  # in the sweep's folder
FIRST = ("script", "where", "node")
LAST = ("is_own", "is_best")
HEAD = (*FIRST, *(name for name in TrialRow.__struct_fields__ if name != "node"), *LAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A sweep with the script that it is of, and the node on which it ran ("" for this machine)."""

    script: str
    node: str
    sweep: Sweep


def table(sweeps: Iterable[Named]) -> str:
    """Return the table. Numbers as Python writes them, truths as 0 and 1, what is not known as nothing.

    `is_own` marks the script's own settings, `is_best` the best ones. Of a row that was `replayed` neither is said:
    its batches cost nothing.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, HEAD, lineterminator="\n")
    writer.writeheader()
    for named in sweeps:
        for row in named.sweep.trials:
            writer.writerow({name: _text(value) for name, value in _fields(named, row).items()})
    return file.getvalue()


def _fields(named: Named, row: TrialRow) -> dict[str, object]:
    sweep = named.sweep
    fields = {"script": named.script, "where": sweep.where, **msgspec.structs.asdict(row)}
    fields["node"] = row.node or named.node
    return {**fields, "is_own": _is(row, sweep.baseline), "is_best": _is(row, sweep.best)}


def _is(row: TrialRow, other: MeasuredSetting) -> bool:
    return not row.replayed and is_same(row, other)


def _text(value: object) -> object:
    """Return a value as it stands in a cell. A text that a spreadsheet would take for a formula gets a quote first."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        text = clean(value, 500)
        return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text
    return value
