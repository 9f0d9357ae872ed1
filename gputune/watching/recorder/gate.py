"""The gates of one run: looks while it goes on whether it starves, and says at its end what to leave with."""

import signal
from collections.abc import Callable, Iterable

from gputune.core.errors import STOPPED, TOO_LOW
from gputune.core.sample import now
from gputune.features import Features
from gputune.gathering import Gatherer, gates
from gputune.launch import signals
from gputune.launch.run import WatchedRun
from gputune.watching.recorder.end import End


class Gate:
    """What was asked of a run, and whether it was kept. `troubles` are sentences for after the run."""

    def __init__(self, run: WatchedRun, end: End, trainers: Callable[[], Iterable[int]]) -> None:
        self.troubles: list[str] = []
        self._least = run.fail_under
        self._starving = None if run.stop_when is None else gates.Starving(run.stop_when)
        self._end = end
        self._trainers = trainers
        self._stopped = False

    def look(self, gatherer: Gatherer) -> None:
        """End the command once it has starved for as long as was allowed. Asked about once a second."""
        if self._starving is None or self._stopped:
            return
        if gatherer.host.still:
            self._starving.reset()
        elif self._starving.look(gatherer.look(now())) and not self._end() and not self._end.alone:
            self._stopped = True
            self._stop()
            self.troubles.append(
                f"ended by `--stop-when`: for {self._starving.seconds:g} s it waited for batches "
                f"{self._starving.share:.0%} of the time"
            )

    def status(self, features: Features | None, exit_code: int | None) -> int | None:
        """Return what to leave with instead of the command's own status, None for just that one."""
        if self._stopped:
            return STOPPED
        if self._least is None or exit_code:
            return None
        if features is None:
            why = f"`--fail-under {self._least * 100:g}` failed: the run could not be judged"
        else:
            why = gates.below(features, self._least)
        if why:
            self.troubles.append(why)
        return TOO_LOW if why else None

    def _stop(self) -> None:
        """Ask the command and its training processes to end: a shell that runs them does not pass it on."""
        self._end.terminate()
        for pid in self._trainers():
            signals.send(pid, signal.SIGTERM)
