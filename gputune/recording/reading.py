"""The other side: a run folder, finished, torn or still growing, as tables or as the readings it was made of."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputune.core import opening
from gputune.core.sample import Json, Reading
from gputune.recording.about import offset, read
from gputune.recording.folder import Folder

if TYPE_CHECKING:  # pyarrow is imported when a folder is read, not when this package is
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as it is on the disk: `about` is run.json, `tables` are those of docs/recording.md, empty ones included."""

    about: Mapping[str, Json]
    tables: Mapping[str, "pa.Table"]


def load(folder: str | Path) -> RecordedRun:
    """Return the run in `folder` with all its tables, also while it is being recorded.

    Raises NotARun, NewerRun, and Damaged where any of it cannot be read.
    """
    folder = opening.given(Path(folder))
    story = read(folder)
    replaying = importlib.import_module("gputune.recording.replaying")
    experiments = importlib.import_module("gputune.recording.experiments")
    with Folder(folder) as opened:
        tables = replaying.whole_tables(opened, offset(story))
    return RecordedRun(story, {**tables, experiments.TABLE: experiments.of(tables["events"])})


def readings(folder: Path, lost: dict[str, str] | None = None) -> Iterator[list[Reading]]:
    """Yield the readings of the run in `folder`, tick by tick in the order of time, also while it is being recorded.

    Of a segment that is still frames they are exact; else times are on the grid that docs/recording.md describes.
    A file that is damaged is left out, and put down in `lost` with the reason; without `lost` it raises Damaged. Where
    notes are lost, what run.json tells again of them comes first.
    """
    story = read(folder)
    replaying = importlib.import_module("gputune.recording.replaying")
    retelling = importlib.import_module("gputune.recording.retelling")
    with Folder(folder) as opened:
        if lost is not None and retelling.missed(opened):
            yield retelling.retold(story)
        yield from replaying.replay(opened, offset(story), lost)
