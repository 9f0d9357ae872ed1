"""A real training's loader served under a setting for a while, and timed.

Each visit is an order of so many batches, so that a training whose recorder dies is soon as its script has it.
"""

import math
import time
from collections.abc import Callable

from gputune.core.sample import Json
from gputune.experiment.starting import State
from gputune.experiment.timeline import Timeline
from gputune.launch.steering import OrderChannel
from gputune.sweep.profile import Profile
from gputune.sweep.search import Outcome
from gputune.sweep.served import Served
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.visiting import PATIENCE, SWITCHED, NotSteered, VisitFailed, check, seconds, stretch
from gputune.tuning.training import Training


class Visits(Served):
    """A bench in a training that goes on. Raises Over where that ends."""

    def __init__(self, training: Training, orders: OrderChannel, profile: Profile) -> None:
        super().__init__()
        self._training = training
        self._orders = orders
        self._profile = profile
        self._visited = {profile.script}

    @property
    def timeline(self) -> Timeline:
        """Return its batches."""
        return self._training.timeline

    def known(self) -> Profile:
        """Return what was known of it before."""
        return self._profile

    @property
    def now(self) -> float:
        """Return the time, s."""
        return time.monotonic()

    def until(self, done: Callable[[], bool], most: float | None = None) -> None:  # noqa: ARG002 - it may stand still
        """Wait until something is so, however long that takes."""
        self._training.until(done)

    @property
    def script(self) -> LoaderSetting:
        """Return the settings that the script has by itself."""
        return self._profile.script

    def measure(self, wanted: LoaderSetting) -> Outcome:
        """Have the loader served under a setting, and time its batches. Raises NotSteered."""
        self.met(wanted)
        # 6.0 s: an epoch that is shorter is timed whole, in a training that goes on after one
        timed = stretch(self._profile, wanted, whole_s=6.0 if self.timeline.again(self.where) else 0.0)
        # 30.0 s of batches beyond a visit, until the next order must be there
        spare = math.ceil(30.0 / seconds(self._profile, wanted))
        try:
            rates = self.visit(self._changes(wanted), timed, timed.skip + PATIENCE * timed.longest + spare)
        except VisitFailed as why:
            return Outcome(state=State.FAILED, why=str(why))
        return Outcome(state=State.OK, rates=rates)

    def keep(self, wanted: LoaderSetting) -> None:
        """Have the loader served under a setting for good. Raises NotSteered or VisitFailed."""
        self.serve(self._changes(wanted))

    def _changes(self, wanted: LoaderSetting) -> dict[str, Json]:
        return {name: value for name, value in wanted.changes(self.script).items() if name in SWITCHED}

    def go_back(self) -> None:
        """Have the script's own settings serve from the next batch on; nobody waits for it."""
        self.send({"do": "serve", "where": self.where, "set": {}, "batches": None})

    def refused(self) -> str:
        """Return why the last order is not obeyed any more, "" while it is."""
        try:
            check(self.answers())
        except (VisitFailed, NotSteered) as why:
            return str(why)
        return ""
