"""The recording of the machine itself: written first and served afterwards, so that a lost link loses nothing.

It is a run folder like any other, without processes. An agent that was killed goes on with it, as a recorder does with
a run; after a restart of the machine a new one begins, because its clock does, and the one before is kept until then.
"""

import os
import shutil
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.sample import Json, Reading, now
from gputune.host.procfs import read_bytes
from gputune.recording import Recording
from gputune.recording.about import read

FOLDER, BEFORE = "machine", "machine-before"
BOOT = "/proc/sys/kernel/random/boot_id"


class MachineRecording:
    """Takes the readings of every tick. No method raises; `trouble` says what is wrong with it."""

    def __init__(self, state: Path) -> None:
        self.folder = state / FOLDER
        boot = read_bytes(BOOT).decode(errors="replace").strip()
        if _goes_on(self.folder, boot):
            self._recording = Recording.resume(self.folder)
            if not self._recording.broken:
                return
        _aside(self.folder, state / BEFORE)
        about: dict[str, Json] = {
            "command": ["gputune", "agent"],
            "pid": os.getpid(),
            "started": now(),
            "host": os.uname().nodename,
            "boot": boot,
            "machine_of": "agent",
        }
        # 64 << 20 B: two weeks of 8 devices once a second
        self._recording = Recording.create(self.folder, about, max_size=64 << 20)

    @property
    def trouble(self) -> str:
        """Return why nothing is recorded any more, nothing where all is well."""
        return self._recording.broken

    def take(self, readings: list[Reading]) -> None:
        """Take the readings of one tick, and write once a second."""
        self._recording.take(readings)
        self._recording.beat(now())

    def leave(self) -> None:
        """Write what was taken. The recording stays as it is: the next agent goes on with it."""
        self._recording.leave()


def _goes_on(folder: Path, boot: str) -> bool:
    try:
        return read(folder).get("boot") == boot
    except GputuneError:
        return False


def _aside(folder: Path, before: Path) -> None:
    """Make room for a new recording; of those before the last one is kept."""
    if folder.is_dir() and any(folder.iterdir()):
        shutil.rmtree(before, ignore_errors=True)
        folder.rename(before)
