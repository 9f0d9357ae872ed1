"""How many loaders of one line live at once: what is set there they all get, each with workers and queues of its own.

Told by what one training process does. An iterator lives from its first record to its last batch, as far as is known:
one inside the other is an evaluation in the middle of an epoch, two that take turns are drawn from side by side.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Company(NamedTuple):
    """Loaders that one line has built, in one process; the one that is timed is among them.

    `built`: there at once; workers that persist stay for all of them. `iterated`: of these at once, and one more where
    some were not iterated yet: an evaluation may come in the middle of an epoch. `training`: of these, side by side.
    """

    built: int = 1
    iterated: int = 1
    training: int = 1

    def merged(self, other: "Company") -> "Company":
        """Return what holds both."""
        return Company(*(max(pair) for pair in zip(self, other, strict=True)))

    @property
    def switched(self) -> "Company":
        """Return those that are reached by a switch while it trains: evaluations keep the script's own settings."""
        return Company(self.training, self.training, self.training)


ALONE = Company()


class _Life:
    """One iterator: from when to when it is known to live (in records of its line), and what it does meanwhile."""

    __slots__ = ("began", "last", "number", "returned", "trains")

    def __init__(self, number: int, now: int, *, trains: bool) -> None:
        self.number = number
        self.began = self.last = now
        self.trains = trains
        self.returned = False  # it went on after another one had given a batch

    def at(self, when: int) -> bool:
        return self.began <= when <= self.last


class Companions:
    """The iterators of one line in one process, as they come."""

    def __init__(self) -> None:
        self._lives: dict[int, _Life] = {}
        self._now = 0
        self._newest = 0  # when the last one came to life
        self._latest: int | None = None  # the one that gave the last batch
        self._beside = self._idle = 0
        self._iterated = self._training = 1

    @property
    def company(self) -> Company:
        """Return what is known by now."""
        built = max(1 + self._beside, self._iterated)
        return Company(built, min(built, self._iterated + bool(self._idle)), self._training)

    def told(self, beside: int, idle: int) -> None:
        """Take how many other loaders the line has built by now, and how many of them were not iterated yet."""
        self._beside, self._idle = max(self._beside, beside), idle

    def begin(self, number: int, *, trains: bool) -> None:
        """Take an iterator that comes to life, or begins again."""
        self._now += 1
        self._newest = self._now
        self._lives.pop(number, None)
        self._lives[number] = _Life(number, self._now, trains=trains)
        # 64 iterators that are remembered: older ones were long over, or are one that goes on
        while len(self._lives) > 64:
            del self._lives[min(self._lives.values(), key=lambda life: life.last).number]

    def batch(self, number: int) -> None:
        """Take a batch of an iterator."""
        self._now += 1
        life = self._lives.get(number)
        if life is None:
            return
        returns = not life.returned and self._latest not in {None, number} and life.last > life.began
        anew = life.last < self._newest  # another one has come to life since its last batch
        self._latest, life.last, life.returned = number, self._now, life.returned or returns
        if anew or returns:
            self._iterated = max(self._iterated, _most(self._lives.values()))
            side_by_side = [each for each in self._lives.values() if each.trains and each.returned]
            self._training = max(self._training, _most(side_by_side))


def _most(lives: Iterable[_Life]) -> int:
    """Return how many of them lived at once."""
    known = list(lives)
    return max((sum(each.at(life.began) for each in known) for life in known), default=1)
