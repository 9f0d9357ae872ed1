"""The other side: a run folder, finished, torn or still growing, as tables or as the readings it was made of."""

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputune.errors import GputuneError
from gputune.recording.folder import RUN, Folder
from gputune.recording.writing import SCHEMA_VERSION
from gputune.sample import Json, Reading

if TYPE_CHECKING:  # pyarrow is imported when a folder is read, not when this package is
    import pyarrow as pa


class NotARun(GputuneError):
    """The folder has no readable run.json."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"`{folder}` is no run folder: {why}",
            hint="`gputune watch` names the folder of a run; it holds a `run.json`",
        )


class NewerRun(GputuneError):
    """The folder was written by a gputune that knows more than this one."""

    def __init__(self, folder: Path, version: Json, by: Json) -> None:
        super().__init__(
            f"`{folder}` has schema version {version}, written by gputune {by}; this one reads up to {SCHEMA_VERSION}",
            hint="pip install --upgrade gputune",
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is on the disk: `about` is run.json, `tables` are those of docs/recording.md, empty ones included."""

    about: Mapping[str, Json]
    tables: Mapping[str, "pa.Table"]


def about(folder: Path) -> dict[str, Json]:
    """Return run.json. Raises NotARun or NewerRun."""
    try:
        found = json.loads(Path(folder, RUN).read_bytes())
        version = found["schema_version"]
    except FileNotFoundError:
        raise NotARun(folder, "it has no `run.json`") from None
    except OSError as error:
        raise NotARun(folder, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise NotARun(folder, "its `run.json` is damaged") from None
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NewerRun(folder, version, found.get("gputune"))
    return dict(found)


def load(folder: Path) -> Run:
    """Return the run in `folder` with all its tables, also while it is being recorded."""
    story = about(folder)
    tables = importlib.import_module("gputune.recording.replaying").whole_tables(Folder(folder), _offset(story))
    return Run(story, tables)


def readings(folder: Path) -> Iterator[list[Reading]]:
    """Yield the readings of the run in `folder`, tick by tick in the order of time, also while it is being recorded.

    Of a segment that is still frames they are exact; else times are on the grid that docs/recording.md describes.
    """
    story = about(folder)
    replay = importlib.import_module("gputune.recording.replaying").replay
    yield from replay(Folder(folder), _offset(story))


def _offset(story: Mapping[str, Json]) -> int:
    return int(str(story["unix_minus_monotonic_ns"]))
