"""run.json: what a run folder says of itself, and what it says when it cannot be read."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.recording.folder import FINDINGS, RUN

SCHEMA_VERSION = 1
VERSION = "schema_version"
CRC = "crc32"  # its first field: the checksum of the others, as Python writes them in one line
LONGEST = 1 << 62  # ns, 146 years: with a time of the monotonic clock it is still a 64-bit number


class NotARun(GputuneError):  # noqa: N818 - named for what happened
    """The folder has no readable run.json."""

    def __init__(self, folder: Path, why: str, *, mistyped: bool = False) -> None:
        self.status = BadUsage.status if mistyped else GputuneError.status
        verdict = Path(folder, FINDINGS)
        hint = "`gputune watch` names the folder of a run; it holds a `run.json`"
        if opening.is_there(verdict):
            hint = f"copy the run folder again; the verdict at the end of the run is in `{verdict}`"
        super().__init__(f"`{folder}` is no run folder: {why}", hint=hint)


class Damaged(GputuneError):  # noqa: N818 - as above
    """A file of the run folder cannot be read: what is left would give another verdict."""

    def __init__(self, file: str, why: str, *, hint: str = "") -> None:
        other = "copy the run folder again; the verdict at the end of the run is in its `findings.json`"
        super().__init__(f"`{file}` is damaged: {clean(why)}", hint=hint or other)


class NewerRun(GputuneError):  # noqa: N818 - as above
    """The folder was written by a gputune that knows more than this one."""

    def __init__(self, folder: Path, version: Json, by: Json) -> None:
        super().__init__(
            f"`{folder}` has schema version {version}, written by gputune {by}; this one reads up to {SCHEMA_VERSION}",
            hint="pip install --upgrade gputune",
        )


class ChangedRun(NotARun):
    """Its run.json is not what was written: a disk, a copy, or somebody has changed it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "its `run.json` is not what was written: damaged, or changed by hand")
        self.hint = f"copy the run folder again; if you have changed it, take its line `{CRC}` out"


def sealed(about: Mapping[str, Json]) -> bytes:
    """Return run.json as it is written: with a checksum of what it says."""
    told = _told(about)
    return json.dumps({CRC: _sum(told), **told}, indent=1).encode() + b"\n"


def _told(about: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in about.items() if name != CRC}


def _sum(about: Mapping[str, Json]) -> str:
    return f"{zlib.crc32(json.dumps(about).encode()):08x}"


def _is_whole(found: Mapping[str, Json]) -> bool:
    """Return whether it says what was written. One without a checksum, as all were before, begins with its version."""
    return found[CRC] == _sum(_told(found)) if CRC in found else next(iter(found)) == VERSION


def read(folder: Path) -> dict[str, Json]:
    """Return run.json without its checksum. Raises NotARun or NewerRun."""
    try:
        found = json.loads(opening.read(Path(folder, RUN)))
        version = found[VERSION]
    except FileNotFoundError:
        raise NotARun(folder, "it has no `run.json`", mistyped=True) from None
    except OSError as error:
        raise NotARun(folder, _refused(folder, error), mistyped=isinstance(error, NotADirectoryError)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotARun(folder, "its `run.json` is damaged") from None
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NewerRun(folder, version, found.get("gputune"))
    try:
        offset(found)
        whole = _is_whole(found)
    except (ValueError, KeyError, RecursionError):
        raise NotARun(folder, "its `run.json` is damaged") from None
    if not whole:
        raise ChangedRun(folder)
    return _told(found)


def _refused(folder: Path, error: OSError) -> str:
    why = error.strerror or str(error)
    owner = opening.whose(folder) if isinstance(error, PermissionError) else ""
    return f"{why}: it is {owner}'s" if owner else why


def offset(story: Mapping[str, Json]) -> int:
    """Return the ns from the monotonic clock to Unix time, as they were when the run began. Raises ValueError."""
    found = int(str(story["unix_minus_monotonic_ns"]))
    if abs(found) > LONGEST:
        raise ValueError("no clock shows that")
    return found
