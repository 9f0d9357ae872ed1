"""The recording of a start, and its verdict beside it: it can be looked at like every other run."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gputune.core.hygiene import mask
from gputune.core.sample import Reading, now
from gputune.features import Features
from gputune.recording import Recording, lean
from gputune.recording.folder import FINDINGS, Folder
from gputune.verdict.building import Overhead, build, to_json
from gputune.verdict.judging import judge


class StartRecord:
    """Written while the start goes on. What cannot be written is no reason to end it."""

    def __init__(self, folder: Path, command: Sequence[str], cwd: str, pid: int, started: int) -> None:
        lean()
        self._folder = folder
        self._recording = Recording.create(
            folder,
            {"command": list(mask(command)), "cwd": cwd, "pid": pid, "started": started, "host": os.uname().nodename},
        )

    def take(self, readings: Sequence[Reading]) -> None:
        """Take the readings of one tick."""
        self._recording.take(readings)
        self._recording.beat(now())

    def close(self, run: Features) -> None:
        """Finish it, with what is known of the start in the end."""
        self._recording.about(exit_code=run.exit_code, ended=now(), unavailable=dict(run.unavailable))
        self._recording.close()
        with suppress(OSError), Folder(self._folder) as folder:
            folder.write(FINDINGS, to_json(build(run, judge(run, {}), overhead=Overhead())))
