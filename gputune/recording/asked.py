"""What is asked of a run's history: a column by its name, and where in the recording it lies.

| `gpu.busy[0]` | one column of `samples` | `gpu.busy` | each of them: of every device |
| `batches.ready` | a column of a table of records | `batches.ready[3]` | of process 3 alone |
| `spans.seconds[sync]` | of the rows of that name | `steps.seconds[backward]` | |
| `batches.samples/s` | its sum a second | `batches/s` | rows a second |
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from gputune.recording.records import SHAPES

_RECORDS = re.compile(
    rf"(?P<table>{'|'.join(SHAPES)})(?:\.(?P<column>\w+))?(?P<rate>/s)?(?:\[(?P<only>.*)\])?", re.DOTALL
)
_SAMPLES = re.compile(r"(?P<metric>[^\[]+)(?:\[(?P<instance>.*)\])?", re.DOTALL)
NAMED = {"spans": "span", "steps": "what"}  # tables whose rows have a name, by the column that holds it
UNITS = {"bytes": "B"}
LASTS = {"batches": "wait", "fetches": "seconds", "spans": "seconds", "steps": "seconds"}  # s, from a row's time on
LASTING = frozenset(LASTS.values())  # columns that say how long a row lasts


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """One column of a table of records. `only`: of rows with that process or name; `rate`: a second."""

    name: str
    table: str
    column: str
    only: str
    rate: bool

    @property
    def unit(self) -> str:
        """Return the base unit of its values."""
        if not self.column:
            return "1/s"
        seconds = pa.types.is_floating(SHAPES[self.table].field(self.column).type)
        unit = "s" if seconds else UNITS.get(self.column, "1")
        return {"s": "ratio"}.get(unit, f"{unit}/s") if self.rate else unit

    @property
    def needs(self) -> list[str]:
        """Return the columns of the table that are to be read."""
        by = NAMED.get(self.table, "process") if self.only else ""
        code = "code" if self.table == "batches" else ""
        return [name for name in ("time", self.column, by, code) if name]


def records(names: Iterable[str]) -> list[ColumnQuery]:
    """Return those of the names that ask for records."""
    found = [(name, _RECORDS.fullmatch(name)) for name in dict.fromkeys(names)]
    asked = [
        ColumnQuery(name, m["table"], m["column"] or "", m["only"] or "", rate=bool(m["rate"]))
        for name, m in found
        if m
    ]
    return [each for each in asked if _is_there(each)]


def _is_there(asked: ColumnQuery) -> bool:
    shape = SHAPES[asked.table]
    if not asked.column:
        return asked.rate
    kind = shape.field(asked.column).type if asked.column in shape.names else None
    return kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind))


def samples(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the columns of `samples`, of those that are `known`, that the names ask for."""
    wanted = set(names)
    return [column for column in known if column in wanted or _metric(column) in wanted]


def _metric(column: str) -> str:
    found = _SAMPLES.fullmatch(column)
    return found["metric"] if found else column
