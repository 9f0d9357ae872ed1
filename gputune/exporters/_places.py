"""Where the recordings of a run lie, and where an export of it goes."""

import os
from pathlib import Path

from gputune.core import opening, replacing
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.units import US
from gputune.exporters import ExportRequest
from gputune.launch import job
from gputune.recording import stretch
from gputune.recording.about import NotARun
from gputune.recording.folder import TABLES, Folder
from gputune.recording.stretch import Stretch

EVER = Stretch(0, 1 << 62)  # the last tick comes after a run's end


def seats(run: Path) -> list[Path]:
    """Return the folders of a run that hold recordings: its own, or one for each rank with a watch of its own."""
    if not (run / job.MARK).is_file():
        return [run]
    found = [Path(seat) for seat in job.seats(str(run))]
    if not found:
        raise NotARun(run, "no rank has recorded anything")
    return found


def lasted(wish: ExportRequest, lost: dict[str, str]) -> Stretch:
    """Return from when to when the run goes, so far, in all its recordings."""
    found = [stretch.lasted(seat, lost) for seat in seats(wish.run)]
    return Stretch(min(each.since for each in found), max(each.until for each in found))


def empty(wish: ExportRequest, lost: dict[str, str]) -> GputuneError:
    """Return what is to be said where there is nothing to be exported."""
    hint = "it ended before anything was read, has just begun, or was not recorded at that time"
    file, why = next(iter(lost.items()), ("", ""))
    return GputuneError(
        f"`{wish.typed}` holds no readings{f': `{file}` is damaged ({why})' if file else ''}", hint=hint
    )


def asked(wish: ExportRequest, whole: Stretch, least: float) -> Stretch:
    """Return the stretch of time that was asked for; where one end was, it has `least` seconds. Raises BadUsage."""
    since, until = wish.since, wish.until
    if since is not None and since * US >= whole.until - whole.since:
        says = (
            f"`--from {since:g}` lies behind the end of the run, which lasted {(whole.until - whole.since) / US:.1f} s"
        )
        raise BadUsage(says, hint=f"`gputune export {wish.typed} --to …` without it takes what is there")
    begin = max(0.0, (until or 0.0) - least) if since is None else since
    end = begin + least if until is None else until
    return Stretch(whole.since + round(begin * US), whole.since + round(end * US))


def keep(wish: ExportRequest, name: str, data: bytes) -> Path:
    """Write a file where `--out` says, or by this name into the run's folder; return it. Raises GputuneError."""
    if wish.out is not None:
        why = replacing.put(str(wish.out), data)
        if why:
            raise GputuneError(why, hint="look at its rights, and at the disk that it is on")
        return wish.out
    try:
        with Folder(wish.run) as folder:
            folder.write(name, data)
    except OSError as error:
        raise refused(wish, error) from None
    return Path(wish.typed, name)


def refused(wish: ExportRequest, error: OSError) -> GputuneError:
    """Return what is to be said where an export cannot be written, or a table of the run not be read for it."""
    table = Path(os.fsdecode(error.filename or ""))
    if table.parts and table.parts[0] in TABLES:  # they are opened by their names in the run's folder
        says = f"`{Path(wish.typed, table)}` cannot be read: {error.strerror or error}"
        return GputuneError(says, hint="look at whose it is, and at its rights")
    place, owner = wish.out or wish.typed, "" if wish.out else opening.whose(wish.run)
    says = f"`{place}` cannot be written{f', it is {owner}s' if owner else ''}: {error.strerror or error}"
    return GputuneError(says, hint="look at the disk that it is on, or name another place with `--out`")
