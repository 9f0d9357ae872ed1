"""The process that turns segments into Parquet while the recorder goes on with its beat."""

import json
import os
import subprocess
from collections.abc import Sequence

from gputune.core.isolation import own_python
from gputune.core.sample import Json

CODE = "from gputune.recording.lean import keeping; keeping().main(sys.argv[1:])"


class ParquetFailed(Exception):  # noqa: N818 - named for what happened
    """Segments could not be made Parquet, again and again."""


class Turning:
    """At most one such process at a time. A segment that it could not turn is tried again with the next one."""

    def __init__(self, folder: str, clocks: int, max_size: int) -> None:
        self._command = [*own_python(CODE), folder, str(clocks), str(max_size)]
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Return whether segments are being turned."""
        return self._process is not None

    def start(self, segments: Sequence[int]) -> None:
        """Turn these segments; not while it is busy."""
        self._process = subprocess.Popen(
            [*self._command, *map(str, segments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")},
        )

    def poll(self) -> list[Json]:
        """Return what was dropped by a process that is done; nothing while it is at work. Raises ParquetFailed."""
        if self._process is None or self._process.poll() is None:
            return []
        return self._collect(self._process)

    def wait(self) -> list[Json]:
        """Wait for the process, if there is one, and return what it dropped. One that hangs is ended."""
        if self._process is None:
            return []
        try:
            self._process.wait(60)  # s: for a process that takes a tenth of a second, however slow the disk
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._collect(self._process)

    def _collect(self, process: "subprocess.Popen[bytes]") -> list[Json]:
        self._process = None
        said, _ = process.communicate()
        if process.returncode == 0:
            self._failures = 0
            return list(json.loads(said))
        self._failures += 1
        if self._failures >= 3:  # in a row, after which frames would only pile up
            raise ParquetFailed(f"{self._failures} segments could not be made Parquet")
        return []
