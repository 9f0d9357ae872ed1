"""The tables of the recording as CSV files, with the unit of each column, in a folder or a .zip.

`RUN/csv/`, or `--out DIR` or `--out FILE.zip`: `samples.csv`, `batches.csv`, …, and `columns.csv`, which says what each
column is. Of a job whose ranks have watches of their own it is a folder each. docs/recording.md describes the tables.
"""

import csv
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gputune.core import replacing
from gputune.core.errors import BadUsage
from gputune.core.sample import Metric
from gputune.core.units import US
from gputune.exporters import ExportRequest, Sent
from gputune.exporters._columns import told
from gputune.exporters._places import EVER, asked, empty, lasted, refused, seats
from gputune.launch.job import SEAT
from gputune.recording import spreadsheet
from gputune.recording.folder import TABLES
from gputune.recording.spreadsheet import Open, SpreadsheetColumn
from gputune.recording.stretch import Stretch

TAKES = frozenset({"out", "stretch"})
NEEDS: tuple[str, ...] = ()
NAME = "csv"
HEAD = ("table", "column", "unit", "kind", "meaning")


def export(wish: ExportRequest) -> Sent:
    """Write the tables. Raises BadUsage where `--out` names a folder that is not empty, GputuneError as `_places`."""
    lost: dict[str, str] = {}
    place = _place(wish)
    chosen = EVER
    if (wish.since, wish.until) != (None, None):
        whole = lasted(wish, lost)
        chosen = asked(wish, whole, (whole.until - whole.since) / US)
    try:
        if place.suffix == ".zip":
            with _draft(place) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                _write(wish, chosen, lambda name: archive.open(name, "w", force_zip64=True), lost)
        else:
            _clear(place)
            _write(wish, chosen, lambda name: _draft(place / name), lost)
    except OSError as error:
        raise refused(wish, error) from None
    shown = place if wish.out is not None else Path(wish.typed, NAME)
    return Sent(to=NAME, where=str(shown), from_s=wish.since, to_s=wish.until, lost=lost)


def _place(wish: ExportRequest) -> Path:
    """Return the folder, or the archive, that the tables go into."""
    place = wish.run / NAME if wish.out is None else wish.out
    if wish.out is None and place.is_symlink():  # in the folder of a run no link leads anywhere
        raise BadUsage(f"`{wish.typed}/{NAME}` is a link", hint="name another place with `--out`")
    if place.suffix == ".zip":
        why = replacing.unfit(str(place))
        if why:
            raise BadUsage(f"`--out {place}` {why}", hint="name a file, like `--out tables.zip`")
    elif wish.out is not None and place.exists() and (not place.is_dir() or any(place.iterdir())):
        why = "is not empty" if place.is_dir() else "is no folder"
        raise BadUsage(f"`--out {place}` {why}", hint="name a new folder, or a file like `--out tables.zip`")
    return place


def _clear(place: Path) -> None:
    """Remove the tables of an earlier export, which may be of another stretch of time."""
    for table in TABLES:
        for file in (place / f"{table}.csv", *place.glob(f"{SEAT}*/{table}.csv")):
            file.unlink(missing_ok=True)


def _write(wish: ExportRequest, chosen: Stretch, make: Open, lost: dict[str, str]) -> None:
    folders = seats(wish.run)
    metrics: dict[str, Metric] = {}
    columns: dict[SpreadsheetColumn, None] = {}  # as a set that keeps its order
    for folder in folders:
        known = spreadsheet.metrics(folder, chosen, lost)
        before = "" if len(folders) == 1 else f"{folder.name}/"
        found = spreadsheet.write(folder, chosen, known, _below(before, make), lost)
        metrics.update(known)
        columns.update(dict.fromkeys(found))
    if not columns:
        raise empty(wish, lost)
    text = io.StringIO()
    csv.writer(text).writerows([HEAD, *(told(column, metrics) for column in columns)])
    with make("columns.csv") as file:
        file.write(text.getvalue().encode())


def _below(folder: str, make: Open) -> Open:
    return lambda table: make(f"{folder}{table}.csv")


@contextmanager
def _draft(place: Path) -> Iterator[IO[bytes]]:
    """Give a file that has this name once it is whole; only this user can read it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it is a descriptor
            yield file
        draft.replace(place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
