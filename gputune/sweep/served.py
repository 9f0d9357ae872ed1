"""A loader that is served under a setting for a while, and timed, by orders: in a trial, or in a real training.

The guest obeys orders (docs/steering.md) and answers each in a note, in every rank. Who lets the training go on, and
notices its end, says how one waits for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from gputune.core.sample import Json
from gputune.experiment.timeline import Timeline
from gputune.launch.steering import OrderChannel
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.visiting import ANSWER_S, NOISE, NotSteered, TimedBatches, VisitFailed, answers, check, ready

BACK = "back"  # the state in which an order of so many batches is over
OVER = frozenset({BACK, "refused"})


class Served(ABC):
    """A bench (`gputune.sweep.search.Bench`) on which every visit is an order. `seq` is the number of the last one."""

    noise = NOISE
    kept = 0  # to go back to a setting costs no trial

    def __init__(self) -> None:
        self.seq = 0
        self._orders: OrderChannel | None = None
        self._visited: set[LoaderSetting] = set()
        self._ranks = 1  # that answer at the least

    # what lets it go on

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """Return its batches."""

    @abstractmethod
    def known(self) -> Profile:
        """Return what its profile has said."""

    @property
    def where(self) -> str:
        """Return where its loader is built."""
        return self.known().loader.where

    @property
    @abstractmethod
    def now(self) -> float:
        """Return its time, s."""

    @abstractmethod
    def until(self, done: Callable[[], bool], most: float | None = None) -> None:
        """Let it go on until something is so; `most`: s without a batch after which it hangs. Raises where it ends."""

    # a visit

    def price(self, wanted: LoaderSetting) -> int:
        """Return 1 for a setting that was not visited yet: to go back to one costs no trial."""
        return int(wanted not in self._visited)

    def met(self, wanted: LoaderSetting) -> None:
        """Learn that a setting was visited before."""
        self._visited.add(wanted)

    def visit(self, changes: Mapping[str, Json], timed: TimedBatches, batches: int | None = None) -> tuple[float, ...]:
        """Have it served under changes of its settings, and return samples/s of parts of what was timed.

        `batches`: after so many its own settings serve again; for good without. Raises NotSteered or VisitFailed.
        """
        begin = self.caught_up(self.serve(changes, batches))
        self.until(lambda: self._is_over() or timed.enough(self.timeline, self.where, begin))
        check(self.answers())
        if self._is_over():
            raise VisitFailed("it was over before it was measured")
        return timed.rates(self.timeline, self.where, begin)

    def serve(self, changes: Mapping[str, Json], batches: int | None = None) -> int:
        """Have it served; return when the last rank had its first batch so (ns). Raises NotSteered or VisitFailed."""
        return self.obeyed({"do": "serve", "where": self.where, "set": dict(changes), "batches": batches})

    def send(self, order: dict[str, Json]) -> None:
        """Give an order, for which nobody waits."""
        self.seq = self._orders.send(order) if self._orders is not None else 0

    def obeyed(self, order: dict[str, Json]) -> int:
        """Give an order; return when the last rank had its first batch under it (ns), through pauses of any length.

        Raises NotSteered or VisitFailed.
        """
        self.send(order)
        sent, before = self.now, self.timeline.batches(self.where)

        def answered() -> bool:
            living = self.timeline.living(self.where)
            if len(living) >= self._ranks and living <= self.answers().keys():
                return True
            came = self.timeline.batches(self.where) - before
            # 100 batches beyond the queue that came without an answer: nobody will give one
            if came > 100 + 2 * self.known().script.queue and self.now - sent > ANSWER_S:
                raise NotSteered("nobody has answered")
            return any(answer.get("state") == "refused" for answer in self.answers().values())

        self.until(answered, ANSWER_S)
        check(self.answers())
        return ready(self.answers())

    def caught_up(self, served: int) -> int:
        """Wait until devices are through with what was queued under other settings; return when that was (ns)."""
        self.until(lambda: self.timeline.caught_up(self.where, served) is not None)
        return self.timeline.caught_up(self.where, served) or served

    def answers(self) -> dict[int, Mapping[str, Json]]:
        """Return the last answer of each living rank to the last order."""
        living = self.timeline.living(self.where)
        found = answers(self.timeline.notes, self.seq)
        return {process: note for process, note in found.items() if process in living}

    def _is_over(self) -> bool:
        """Return whether the last order was obeyed for its batches, and is not any more."""
        return any(answer.get("state") in OVER for answer in self.answers().values())
