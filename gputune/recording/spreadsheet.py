"""The tables of a recording as CSV, a segment at a time.

Times are one column, with all their digits; the frames of a stack are one text, innermost last.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from gputune.core.sample import Metric
from gputune.recording import stretch, tables
from gputune.recording.folder import TABLES
from gputune.recording.records import COLUMNS
from gputune.recording.stretch import Stretch

Open = Callable[[str], AbstractContextManager[IO[bytes]]]  # a table's name to the file that it goes to


class SpreadsheetColumn(NamedTuple):
    """A column of a file: `unit` is a base unit, `1` for plain numbers, or what kind of text it is."""

    table: str
    name: str
    unit: str


def metrics(folder: Path, chosen: Stretch, lost: dict[str, str]) -> dict[str, Metric]:
    """Return what the columns of `samples` are in a stretch of time, in their order."""
    found: dict[str, Metric] = {}
    for piece in stretch.pieces(folder, ("samples",), chosen, lost):
        found.update(piece.metrics)
    return found


def write(
    folder: Path, chosen: Stretch, known: dict[str, Metric], make: Open, lost: dict[str, str]
) -> list[SpreadsheetColumn]:
    """Write the tables that have rows in a stretch of time, each where `make` opens a file; return their columns."""
    writers: dict[str, csv.CSVWriter] = {}
    columns: list[SpreadsheetColumn] = []
    with ExitStack() as stack:
        for name in TABLES:
            for table in _parts(folder, name, chosen, known, lost):
                if name not in writers:
                    file = stack.enter_context(make(name))
                    writers[name] = stack.enter_context(csv.CSVWriter(file, table.schema))
                    columns += [
                        SpreadsheetColumn(name, field.name, _unit(name, field, known)) for field in table.schema
                    ]
                writers[name].write_table(table)
            if name in writers:
                stack.close()  # a zip takes one file at a time
    return columns


def _parts(
    folder: Path, name: str, chosen: Stretch, known: dict[str, Metric], lost: dict[str, str]
) -> Iterator[pa.Table]:
    for piece in stretch.pieces(folder, (name,), chosen, lost):
        table = piece.tables.get(name)
        part = None if table is None else stretch.among(table, name, chosen)
        if part is not None and len(part):
            yield _flat(name, part, known)


def _flat(name: str, table: pa.Table, known: dict[str, Metric]) -> pa.Table:
    """Return a table of nothing but plain columns, the same ones in each segment."""
    if name == "samples":
        wanted = pa.schema([("time", tables.US), *((column, _type(metric)) for column, metric in known.items())])
        return pa.concat_tables([wanted.empty_table(), table.replace_schema_metadata()], promote_options="default")
    table = table.set_column(0, "time", stretch.moments(table).cast(tables.US))
    table = table.drop_columns(["us"]) if "us" in table.column_names else table
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            table = table.set_column(place, field.name, pc.binary_join(table[field.name], ";"))
    return table.replace_schema_metadata()


def _type(metric: Metric) -> pa.DataType:
    return pa.int64() if metric.kind == "counter" else pa.float32()


def _unit(name: str, field: pa.Field, known: dict[str, Metric]) -> str:
    if field.name in known and name == "samples":
        return known[field.name].unit
    if pa.types.is_timestamp(field.type):
        return "UTC"
    if pa.types.is_string(field.type):
        return "text"
    if any(c.name == field.name and c.how in {"ns", "ns?"} for c in COLUMNS.get(name, ())):
        return "s"
    return "B" if field.name == "bytes" else "1"
