"""A real training's loader served under a setting for a while, and timed.

Each visit is an order of so many batches, so that a training whose recorder dies is soon as its script has it.
"""

import math
import time

from gputune.core.sample import Json
from gputune.experiment.starting import State
from gputune.launch.steering import Orders
from gputune.sweep.profile import Profile
from gputune.sweep.search import Outcome
from gputune.sweep.settings import Setting
from gputune.sweep.visiting import (
    ANSWER_S,
    NOISE,
    PATIENCE,
    SWITCHED,
    Failed,
    NotSteered,
    answers,
    check,
    ready,
    seconds,
    stretch,
)
from gputune.tuning.training import Training

WHOLE_S = 6.0  # s: an epoch that is shorter is timed whole, in a training that goes on after one
SPARE_S = 30.0  # s of batches beyond a visit, until the next order must be there
UNHEARD = 100  # batches beyond the queue that came without an answer: nobody will give one
BACK = "back"  # the state in which an order of so many batches is over


class Visits:
    """A bench (`gputune.sweep.search.Bench`) in a training that goes on. Raises Over where that ends."""

    noise = NOISE
    kept = 0

    def __init__(self, training: Training, orders: Orders, profile: Profile) -> None:
        self._training = training
        self._orders = orders
        self._profile = profile
        self._where = profile.loader.where
        self._visited = {profile.script}
        self.seq = 0  # of the last order

    @property
    def script(self) -> Setting:
        """Return the settings that the script has by itself."""
        return self._profile.script

    def price(self, wanted: Setting) -> int:
        """Return 1 for a setting that was not visited yet."""
        return int(wanted not in self._visited)

    def met(self, wanted: Setting) -> None:
        """Learn that a setting was visited before."""
        self._visited.add(wanted)

    def measure(self, wanted: Setting) -> Outcome:
        """Have the loader served under a setting, and time its batches. Raises NotSteered."""
        self._visited.add(wanted)
        try:
            return self._timed(wanted)
        except Failed as why:
            return Outcome(state=State.FAILED, why=str(why))

    def _timed(self, wanted: Setting) -> Outcome:
        timeline, where = self._training.timeline, self._where
        timed = stretch(self._profile, wanted, whole_s=WHOLE_S if timeline.again(where) else 0.0)
        spare = math.ceil(SPARE_S / seconds(self._profile, wanted))
        begin = self._caught_up(self.serve(wanted, batches=timed.skip + PATIENCE * timed.longest + spare))
        self._training.until(lambda: self._over() or timed.enough(timeline, where, begin))
        check(self._answers())
        if self._over():
            raise Failed("it was over before it was measured")
        return Outcome(state=State.OK, rates=timed.rates(timeline, where, begin))

    def _caught_up(self, served: int) -> int:
        """Wait until devices are through with what was queued under other settings; return when that was (ns)."""
        timeline, where = self._training.timeline, self._where
        self._training.until(lambda: timeline.caught_up(where, served) is not None)
        return timeline.caught_up(where, served) or served

    def serve(self, wanted: Setting, batches: int | None = None) -> int:
        """Have the loader served under a setting; return when the last rank had its first batch so (ns).

        Without `batches` for good. Raises NotSteered or Failed, and Over.
        """
        changes = {name: value for name, value in wanted.changes(self.script).items() if name in SWITCHED}
        self._send(changes, batches)
        self._wait()
        check(self._answers())
        return ready(self._answers())

    def go_back(self) -> None:
        """Have the script's own settings serve from the next batch on; nobody waits for it."""
        self._send({}, None)

    def refused(self) -> str:
        """Return why the last order is not obeyed any more, "" while it is."""
        try:
            check(self._answers())
        except (Failed, NotSteered) as why:
            return str(why)
        return ""

    def _send(self, changes: dict[str, Json], batches: int | None) -> None:
        order: dict[str, Json] = {"do": "serve", "where": self._where, "set": changes, "batches": batches}
        self.seq = self._orders.send(order)

    def _wait(self) -> None:
        """Wait until every rank has answered, through evaluations of any length. Raises NotSteered, and Over."""
        training, where = self._training, self._where
        sent, before = time.monotonic(), training.timeline.batches(where)

        def answered() -> bool:
            living = training.timeline.living(where)
            if living and living <= self._answers().keys():
                return True
            came = training.timeline.batches(where) - before
            if came > UNHEARD + 2 * self.script.queue and time.monotonic() - sent > ANSWER_S:
                raise NotSteered("nobody has answered")
            return any(answer.get("state") == "refused" for answer in self._answers().values())

        training.until(answered)

    def _answers(self) -> dict[int, dict[str, Json]]:
        """Return the last answer of each living rank to the last order."""
        living = self._training.timeline.living(self._where)
        found = answers(self._training.timeline.notes, self.seq)
        return {process: dict(note) for process, note in found.items() if process in living}

    def _over(self) -> bool:
        """Return whether the last order was obeyed for its batches, and is not any more."""
        return any(answer.get("state") in {BACK, "refused"} for answer in self._answers().values())
