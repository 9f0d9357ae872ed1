"""Old runs and their end: only run folders of this user's that nobody is at work on and that have no label."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gputune.core import opening
from gputune.runs.found import is_run
from gputune.runs.labels import label
from gputune.runs.one import GOES_ON
from gputune.runs.rows import UNREADABLE, Row, row


class Spared(msgspec.Struct, frozen=True, kw_only=True):
    """An old run that stays, and why."""

    name: str
    why: str


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `gputune runs --prune`: what went, how many bytes that were, and which old runs stay."""

    schema_version: int = 1
    removed: list[str]
    bytes: int
    spared: list[Spared]


def old(found: Iterable[Row], age: float, now: float | None = None) -> tuple[list[Row], list[Spared]]:
    """Return the runs in which nothing was written for `age` s and that may go, and those as old that stay."""
    before = (time.time() if now is None else now) - age
    gone, spared = [], []
    for each in found:
        if each.changed < before:
            why = _keeps(each)
            if why:
                spared.append(Spared(name=each.name, why=why))
            else:
                gone.append(each)
    return gone, spared


def _keeps(one: Row) -> str:
    """Return why a run stays; nothing where it may go."""
    if one.state == GOES_ON:
        return "it goes on"
    if one.label:
        return f"its label is `{one.label}`"
    if one.foreign:
        return "some of it is somebody else's"
    return one.why if one.state == UNREADABLE else ""


def remove(found: Iterable[Row], spared: Iterable[Spared]) -> Pruned:
    """Remove these run folders with all that is in them, and return what went. What has changed since stays."""
    removed, kept, size = [], list(spared), 0
    for each in found:
        why = _remove(Path(each.folder), each)
        if why:
            kept.append(Spared(name=each.name, why=why))
        else:
            removed.append(each.name)
            size += each.bytes
    return Pruned(removed=removed, bytes=size, spared=kept)


def _remove(folder: Path, listed: Row) -> str:
    """Remove one folder; return why not. It is looked at again: somebody may have been asked in between."""
    if not is_run(folder) or not opening.is_mine(folder):
        return "it is no run folder of yours any more"
    if label(folder) or row(folder).changed != listed.changed:
        return "it has changed since it was listed"
    try:
        shutil.rmtree(folder)  # it follows no link, and refuses to begin at one
    except OSError as error:
        return f"it could not be removed: {error.strerror or error}"
    return ""
