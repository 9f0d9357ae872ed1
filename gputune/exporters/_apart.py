"""The process of `watch --export`: it exports, and writes down how that went. Nobody waits for it or hears it."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from gputune import exporters
from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.recording import lean
from gputune.recording.folder import EXPORTS, REPORT, Folder


def main(arguments: Sequence[str]) -> None:
    """Export the run in a folder, in turn, to each of the names; a line of `export.log` says how it went."""
    os.nice(10)  # whatever trains next goes first
    signal.alarm(600)  # s that all of it may take: a tracker that is not reachable is tried again, and not for ever
    folder, typed, paged, *names = arguments
    lean()
    if paged:
        _wait(Path(folder, REPORT))
    told = ""
    for name in names:
        told += f"{name}: {_exported(name, Path(folder), typed)}\n"
        with Folder(Path(folder)) as opened:
            opened.write(EXPORTS, told.encode())


def _wait(page: Path) -> None:
    until = time.monotonic() + 60.0  # s to wait for the page that is written meanwhile
    while not page.exists() and time.monotonic() < until:
        time.sleep(0.1)  # s between looks


def _exported(name: str, folder: Path, typed: str) -> str:
    """Return where a run went, or why it did not."""
    said: list[str] = []
    try:
        sent = exporters.export(name, exporters.ExportRequest(run=folder, typed=typed, say=said.append, own=True))
    except GputuneError as error:
        return f"error: {clean(str(error.args[0]), 300)}; hint: {error.hint}"
    except Exception as error:  # noqa: BLE001 - nobody hears a traceback
        return f"error: {clean(f'{type(error).__name__}: {error}', 300)}"
    return "; ".join([sent.where, *said])
