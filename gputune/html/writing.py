"""The page of a folder into a file: where the user says, or beside the recording, by a process of its own."""

import html
import os
from collections.abc import Sequence
from pathlib import Path

from gputune.core import replacing
from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.html.kinds import page
from gputune.recording import lean
from gputune.recording.folder import REPORT, Folder
from gputune.verdict.document import Verdict


def put(file: str, made: bytes) -> None:
    """Write a page into the file that the user has named, in one move. Raises GputuneError where it takes none."""
    why = replacing.put(file, made)
    if why:
        raise GputuneError(why, hint="look at its rights, and at the disk that it is on")


def main(arguments: Sequence[str]) -> None:
    """Write a run folder's `report.html`. Nobody waits for this process or hears it: the file says why it is none."""
    os.nice(10)  # whatever trains next goes first
    folder, typed = arguments
    verdict: Verdict | None = None
    try:
        lean()
        made = page(Path(folder), typed, verdict)
    except Exception as error:  # noqa: BLE001 - as above
        made = _none(f"{type(error).__name__}: {error.args[0] if error.args else ''}")
    with Folder(Path(folder)) as opened:
        opened.write(REPORT, made)


def _none(why: str) -> bytes:
    said = html.escape(clean(why, 300))  # characters of an error
    return f"<!doctype html><meta charset=utf-8><title>gputune</title><p>This page was not made ({said}).\n".encode()
