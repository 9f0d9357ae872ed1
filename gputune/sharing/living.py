"""`share.json` while the run goes on: the same document as at its end, kept up to date for a screen to read."""

import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from gputune.core.pace import Pace
from gputune.sharing.member import Member
from gputune.sharing.progress import TaskCounts, between
from gputune.sharing.window import Eyes
from gputune.verdict.document import to_json
from gputune.verdict.packed import FILE, Packed


class RecentPace:
    """The pace of each task over the last beats."""

    def __init__(self, eyes: Eyes) -> None:
        self._eyes = eyes
        # 6 beats that the recent pace is of: short enough to see a task slow down, long enough for slow batches
        self._past: deque[dict[int, TaskCounts]] = deque(maxlen=6)

    def look(self, members: "list[Member]") -> dict[int, Pace]:
        """Return the paces of those that run, by slot, and begin a beat."""
        progress, logs = self._eyes.progress, self._eyes.logs
        now = {m.task.slot: progress.count(m.task.slot) for m in members}
        found: dict[int, Pace | None] = {}
        for slot, count in now.items():
            before = next((counts[slot] for counts in self._past if slot in counts and counts[slot].at), None)
            told = logs.metrics[slot].pace() if logs.has_metric and slot in logs.metrics else None
            found[slot] = told if logs.has_metric else between(before, count) if before is not None else None
        self._past.append(now)
        return {slot: one for slot, one in found.items() if one is not None}


class ShareLiveWriter:
    """Writes the file. Its failure is its own affair: it is not tried again, and told at the end."""

    def __init__(self, folder: str, recent: RecentPace, make: Callable[[Mapping[int, Pace]], Packed]) -> None:
        self.trouble = ""
        self.written = False
        self._folder = folder
        self._recent = recent
        self._make = make
        self._due = time.monotonic() + 0.5  # s: the tasks have the machine to themselves while they start
        self._shape: Hashable = None
        self._paces: Mapping[int, Pace] = {}

    def look(self, running: "list[Member]", shape: Hashable) -> None:
        """Write the file if that is due, or if `shape` (which task is in which state) has changed."""
        at = time.monotonic()
        due = at >= self._due
        if not self._folder or not (due or (self._shape is not None and shape != self._shape)):
            return
        self._shape = shape
        if due:
            self._due = at + 2.0  # s between two writings where nobody has come or gone
            self._paces = self._recent.look(running)
        self.put(self._make(self._paces))

    def put(self, document: Packed) -> None:
        """Write the document."""
        if not self._folder:
            return
        self.trouble = kept(self._folder, document)
        self.written = self.written or not self.trouble
        self._folder = "" if self.trouble else self._folder


def kept(folder: str, document: Packed) -> str:
    """Write the document into a run folder; return why that was not possible, "" where it was."""
    from gputune.recording.folder import Folder  # noqa: PLC0415 - the tasks start sooner without it

    try:
        with Folder(Path(folder)) as opened:
            opened.write(FILE, to_json(document))
    except OSError as error:
        return f"`{FILE}` was not written ({error.strerror or error})"
    return ""
