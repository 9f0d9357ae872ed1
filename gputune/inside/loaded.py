"""`gputune.load(RUN)`: a run folder as tables and objects, also of a run that goes on or was killed.

What is measured is in Arrow tables (docs/recording.md has their columns and units), what was found in the structs of
`gputune/verdict/document.py`, which are `findings.json` field by field.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from gputune import recording
from gputune.core import opening
from gputune.core.errors import BadUsage
from gputune.core.sample import Json
from gputune.launch.job import MARK, SEAT, seats
from gputune.recording.about import read
from gputune.recording.folder import TABLES
from gputune.report.kept import unjudged, verdict_of
from gputune.verdict.document import FindingRow, Verdict

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

TableName: TypeAlias = Literal[
    "samples", "batches", "fetches", "steps", "gaps", "spans", "events", "notes", "stacks", "experiments"
]  # as docs/recording.md has them
State: TypeAlias = Literal["ended", "live", "broken"]


class NoTable(BadUsage):
    """A run has no table of that name, or it is a job whose ranks have tables."""

    def __init__(self, name: str, folder: Path, *, is_job: bool) -> None:
        if is_job and name in TABLES:
            super().__init__(f"`{folder}` is a job: each of its ranks has tables of its own", hint="`.ranks`")
        else:
            super().__init__(f"a run has no table `{name}`", hint=f"it has {', '.join(TABLES)}")


@dataclass(frozen=True)
class Table:
    """One table of a run. Units are the columns' own: docs/recording.md."""

    name: str
    _arrow: "pa.Table"

    def arrow(self) -> "pa.Table":
        """Return it as `pyarrow.Table`, without a copy."""
        return self._arrow

    def pandas(self) -> "pd.DataFrame":
        """Return it as `pandas.DataFrame`. Raises ImportError where pandas is not installed."""
        return self._arrow.to_pandas()

    def polars(self) -> "pl.DataFrame":
        """Return it as `polars.DataFrame`. Raises ImportError where polars is not installed."""
        import polars as pl  # noqa: PLC0415 - the user's own, and only where it is asked for

        return pl.DataFrame(self._arrow)

    def __len__(self) -> int:
        return int(self._arrow.num_rows)


class Run:
    """A run folder. What it holds is read when it is first asked for, and then kept: `load` again for news."""

    def __init__(self, folder: Path, about: Mapping[str, Json]) -> None:
        self.folder = folder
        self.about = about

    @property
    def state(self) -> State:
        """`ended`; `live` while it goes on; `broken` where its recorder was killed and nobody writes any more."""
        from gputune.runs.whereabouts import fresh  # noqa: PLC0415 - with what a screen needs

        return "ended" if self.about.get("finished") else "live" if fresh(self.folder) else "broken"

    @cached_property
    def ranks(self) -> "list[Run]":
        """The runs of a job's ranks, the lowest first; none where it is a run of its own."""
        return [load(seat) for seat in seats(str(self.folder))] if (self.folder / MARK).is_file() else []

    @cached_property
    def _tables(self) -> "Mapping[str, pa.Table]":
        return {} if self.ranks else recording.load(self.folder).tables

    def table(self, name: TableName) -> Table:
        """Return a table, with no rows where nothing of the kind was measured.

        Raises NoTable, and Damaged where a part of the recording cannot be read.
        """
        if name not in self._tables:
            raise NoTable(name, self.folder, is_job=bool(self.ranks))
        return Table(name, self._tables[name])

    @cached_property
    def verdict(self) -> Verdict:
        """What was found: the verdict at its end, else, as `gputune report` does, what can be told by now.

        Warns where nobody gave one though the run is over: what was recorded is judged then, as far as it goes. Raises
        NewerRun of a verdict that a newer gputune has given, Damaged where there is none and nothing to judge.
        """
        if self.state != "live" and unjudged(self.folder):
            said = f"{self.folder} has no verdict of its own: what was recorded is judged now, as far as it goes"
            warnings.warn(said, stacklevel=3)  # beyond `cached_property`, whose frame is one of Python's
        return verdict_of(self.folder)

    @property
    def findings(self) -> list[FindingRow]:
        """The findings of the verdict, the best first."""
        return self.verdict.findings

    def __repr__(self) -> str:
        return f"<gputune run {self.folder}: {self.state}>"

    def _repr_html_(self) -> str:
        from gputune.inside.shown import html  # noqa: PLC0415 - only in a notebook

        return html(self.folder, repr(self))


def load(run: "str | os.PathLike[str]") -> Run:
    """Return the run in a folder. Raises NotARun where it is none, NewerRun where a newer gputune has written it."""
    folder = opening.given(Path(run))
    return Run(folder, _about(folder))


def _about(folder: Path) -> Mapping[str, Json]:
    try:
        return read(folder)
    except recording.NotARun:
        if (folder / MARK).is_file() and any(folder.glob(f"{SEAT}*")):
            return {}  # a job whose ranks go on, or were killed: it is told when all have ended
        raise
