"""How far a long reading has come, in one line on a terminal's stderr that goes again; nothing where that is none."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from gputune.core.figures import duration
from gputune.core.sample import Reading, Sample
from gputune.core.units import NS

SILENT_S = 0.5  # s of reading without a word: most recordings are read in less
WORD_EVERY_S = 0.2  # s between two words


class ReadingProgress:
    """Takes the readings as they are read. `started` and `ended`: of the run, ns of its clock; 0 unknown."""

    def __init__(self, started: int, ended: int) -> None:
        self._started = started
        self._of = f" of {duration((ended - started) / NS)}" if ended > started > 0 else ""
        self._due = time.monotonic() + SILENT_S
        self._shown = False
        self._wanted = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> "ReadingProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._write("")

    def take(self, readings: Sequence[Reading]) -> None:
        """Say how much of the run was read, if that is due."""
        if not self._wanted or time.monotonic() < self._due:
            return
        t = next((reading.t for reading in reversed(readings) if isinstance(reading, Sample)), 0)
        if t > self._started:
            self._due = time.monotonic() + WORD_EVERY_S
            self._shown = True
            self._write(f"reading the recording: {duration((t - self._started) / NS)}{self._of}")

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        except OSError:  # the terminal is gone: what is read goes on
            return
