"""What all callbacks share: a training of a trainer is recorded, and its own metrics have what was found in numbers."""

import contextlib
import os
import sys
from typing import Any

from gputune.core.errors import GputuneError
from gputune.inside.blocks import Watch, watch

PREFIX = "gputune/"


class TrainerRuns:
    """One training of a trainer after the other, each a run. `options` are those of `gputune.watch`."""

    def __init__(self, out: "str | os.PathLike[str] | None", options: dict[str, Any]) -> None:
        self._out = out
        self._options = options
        self._made()  # what cannot be is refused where it is written
        self._run: Watch | None = None

    def _made(self) -> Watch:
        return watch(self._out, **self._options)

    def begin(self) -> None:
        """Begin to record; a training before, which an error ended, is over now."""
        self.end()
        run = self._made()
        try:
            self._run = run.start()
        except GputuneError as error:  # a second training, and the folder is the first one's
            with contextlib.suppress(Exception):
                sys.stderr.write(f"gputune: nothing is recorded: {error.args[0]}\n")

    def end(self) -> dict[str, float]:
        """Have the verdict said, and return what it says in numbers; none where nothing was recorded, or twice."""
        run, self._run = self._run, None
        if run is None:
            return {}
        run.stop()
        return numbers(run)


def numbers(run: Watch) -> dict[str, float]:
    """Return the numbers of a verdict by their names: shares 0 to 1, samples/s, batches, and the likely gain."""
    try:
        verdict = run.verdict
    except Exception:  # noqa: BLE001 - a file that cannot be read is no reason for a training to fail
        return {}
    if verdict is None:
        return {}
    from gputune.report.told import told_of  # noqa: PLC0415 - a training has ended: there is time

    told = told_of(verdict)
    return {f"{PREFIX}{name}": float(value) for name, value in told.items() if isinstance(value, int | float)}
