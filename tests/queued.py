"""A loop whose host runs ahead of its device, as the guest tells it: made up, by the rules of a launch queue."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gputune.core.events import Event, Kind, Record
from gputune.core.units import NS

HOST = 0.002  # s in which the host queues the work of a batch


@dataclass
class Loop:
    """`depth`: batches whose work the queue holds. Batch n is made in `make(n)` s, and worked on in `work(n)` s."""

    make: Callable[[int], float]
    work: Callable[[int], float]
    depth: int = 45
    loader_queue: int = 4
    process: int = 0
    began: float = 1.0
    every: int = 1  # so many batches have one that is timed
    there: list[float] = field(default_factory=list)  # when batches were there, by the host
    done: list[float] = field(default_factory=list)  # when the device was through with them

    def events(self, batches: int) -> list[Event]:
        """Return what the guest tells of so many batches, in the order in which it does."""
        made: list[float] = []
        asked = self.began
        told: list[tuple[float, int, Event]] = []
        for n in range(batches):
            room = self.there[n - self.loader_queue] if n >= self.loader_queue else self.began
            made.append(max(made[-1] if made else self.began, room) + self.make(n))
            got = max(asked + 1e-6, made[n])
            told.append((got, 0, self._event(Kind.BATCH, asked, got, n)))
            if n and n % self.every == 0:
                behind = max(0.0, self.done[-1] - asked)
                told.append(
                    (max(got, self.done[-1]), 1, self._event(Kind.GAP, asked, got, n - 1, 1 + int(behind * 1e6)))
                )
            self.there.append(got)
            self.done.append(max(self.done[-1] if n else 0.0, got) + self.work(n))
            asked = max(got + HOST, self.done[n - self.depth] if n >= self.depth else 0.0)
        end = self.there[-1]
        return [event for at, _, event in sorted(told, key=lambda one: one[:2]) if at <= end]

    def _event(self, kind: Kind, t0: float, t1: float, n: int, c: int = 8) -> Event:
        b, d, e = (n, -1, 0) if kind is Kind.BATCH else (0, n, 1)
        return Event(self.process, Record(kind, 0, round(t0 * NS), round(t1 * NS), 1, b, d, e, c))

    def rate(self, first: int, last: int) -> float:
        """Return the samples/s of the device from the end of one batch to that of another."""
        return 8 * (last - first) / (self.done[last] - self.done[first])


def steady(make: float, work: float, **more: int) -> Loop:
    """All batches are alike."""
    return Loop(lambda _: make, lambda _: work, **more)  # type: ignore[arg-type] # the other fields are numbers
