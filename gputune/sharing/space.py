"""What there is for the tasks: a card's memory without what others take of it, the host's memory, the CPUs."""

from gputune.sharing import host
from gputune.sharing.cards import SharedDevice
from gputune.sharing.fitting import Room
from gputune.sharing.gauge import Gauge
from gputune.sharing.placing import Places
from gputune.sharing.supervising import TaskSupervisor


class Space:
    """Sums over what is seen of one card and of the host; `None` as a card is one that nobody knows."""

    def __init__(self, crew: TaskSupervisor, gauge: Gauge, places: Places) -> None:
        self._crew = crew
        self._gauge = gauge
        self._places = places

    def _own(self) -> set[int]:
        return {pid for member in self._crew.running for pid in self._gauge.use(member.task.slot).pids}

    def _mixed(self, card: SharedDevice) -> bool:
        """Return whether others are seen on the card beside ours. Of pids that are all strange, ours may be some."""
        people, mine = set(card.people), self._own()
        return bool(people - mine) and bool(people & mine)

    def grown(self, card: SharedDevice | None, peak: float | None) -> float | None:
        """Return the device memory of the only task that runs: the driver's word, or what more is in use since."""
        if card is None or card.used is None or self._mixed(card):
            return peak
        before = self._places.baseline(card)
        return peak if before is None else max(peak or 0.0, card.most_used - before) or None

    def room(self, card: SharedDevice | None, *, host_own: float = 0.0) -> Room:
        """Return what there is when none of ours runs; `host_own` B of the host's memory are ours now."""
        total, left = host.memory()
        return Room(
            name=card.name if card is not None else "the device",
            device=card.total if card is not None else None,
            device_free=self._free(card),
            host_free=min(total, left + host_own),
            cores=host.cores(),
        )

    def _free(self, card: SharedDevice | None) -> float | None:
        if card is None or card.room is None or card.used is None:
            return None
        mine, before = self._own(), self._places.baseline(card)
        others = card.used - sum(taken or 0.0 for pid, (taken, _) in card.people.items() if pid in mine)
        if before is not None and not self._mixed(card):
            others = min(others, before)
        return card.room - max(0.0, others)
