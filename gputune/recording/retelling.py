"""The notes of a run whose notes cannot be read, as far as its run.json tells them again."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from gputune.core.sample import Guest, Json, Note, Reading
from gputune.recording import parquet
from gputune.recording.folder import Folder, part_name
from gputune.recording.replaying import one_part

TABLE = "notes"


def missed(folder: Folder) -> bool:
    """Return whether notes of a run that trained are gone or damaged; its frames, where there are any, have theirs."""
    parts = folder.parts()
    trained = any(not tables.keys().isdisjoint({"batches", "steps"}) for tables in parts.values())
    if not any(TABLE in tables for tables in parts.values()):
        return trained and not folder.frames()
    bound = parquet.Bound()
    return any(_is_damaged(folder, part_name(TABLE, n), bound) for n, tables in parts.items() if TABLE in tables)


def _is_damaged(folder: Folder, file: str, bound: parquet.Bound) -> bool:
    try:
        one_part(folder, TABLE, file, bound)
    except Exception:  # noqa: BLE001 - pyarrow's words for nonsense are many; whoever replays it puts the reason down
        return True
    return False


def retold(story: dict[str, Json]) -> list[Reading]:
    """Return the training processes and what they and the machine have said; what fits nothing is left out.

    Workers are only counted there: what they took for a batch belongs to nobody any more.
    """
    return [*_said(-1, story.get("machine")), *_guests(story.get("processes"))]


def _guests(processes: Json) -> Iterator[Reading]:
    for each in processes if isinstance(processes, list) else ():
        if isinstance(each, dict):
            with suppress(msgspec.ValidationError):
                guest = msgspec.convert([each.get(name) for name in Guest._fields], Guest)
                yield from (guest, *_said(guest.process, each.get("notes")))


def _said(process: int, notes: Json) -> Iterator[Reading]:
    for fields in notes if isinstance(notes, list) else ():
        if isinstance(fields, dict):
            yield Note(process, fields)
