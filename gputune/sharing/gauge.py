"""What each task takes of the machine while it runs: device memory and time, host memory, CPU."""

import time
from dataclasses import dataclass, field

from gputune.launch import family
from gputune.sharing import host
from gputune.sharing.cards import SharedDevice, SharedDevices, held
from gputune.sharing.member import Member
from gputune.sharing.supervising import TaskSupervisor

DEAREST = 0.001  # of a core, for each of the two: what was dear is done less often


@dataclass(slots=True)
class TaskUse:
    """One task's: peaks in B, and its mean share of the SMs' time. None: not known."""

    pids: set[int] = field(default_factory=set)
    device_peak: float | None = None
    host_peak: float | None = None
    card: SharedDevice | None = None  # on which it was seen
    _share: float = 0.0
    _shares: int = 0

    @property
    def share(self) -> float | None:
        """Return its mean share of the SMs' time since it was first seen there."""
        return self._share / self._shares if self._shares else None

    def take(self, card: SharedDevice) -> None:
        """Learn what a device tells of it."""
        memory, share = held(card, self.pids)
        if memory is not None:
            self.card = card
            self.device_peak = max(memory, self.device_peak or 0.0)
        if share is not None:
            self._share += share
            self._shares += 1


class Gauge:
    """All tasks' use, by slot."""

    def __init__(self, crew: TaskSupervisor, cards: SharedDevices) -> None:
        self._crew = crew
        self._cards = cards
        self._uses: dict[int, TaskUse] = {}
        self._heard: dict[int, float] = {}
        self._family_at = self._pss_at = 0.0
        self._turn = 0

    def use(self, slot: int) -> TaskUse:
        """Return what is known of a task."""
        return self._uses.setdefault(slot, TaskUse())

    def forget(self) -> None:
        """Begin anew: the tasks were trials."""
        self._uses.clear()

    def meet(self, member: Member) -> TaskUse:
        """Look who belongs to a task now; return what is known of it."""
        use = self.use(member.task.slot)
        use.pids = {member.pid, *family.descendants(member.pid)}
        return use

    def fresh(self, member: Member) -> TaskUse:
        """Return what a task uses: its peaks, and the latest readings of the devices."""
        use = self.meet(member)
        for card in self._cards.all.values():
            use.take(card)
        return use

    def look(self) -> None:
        """Read what is due."""
        at = time.monotonic()
        running = self._crew.running
        if at >= self._family_at:
            spent = time.thread_time()
            for member in running:
                self.meet(member)
            # 1.0 s between looks at who belongs to a task, at the least
            self._family_at = at + max(1.0, (time.thread_time() - spent) / DEAREST)
        for index, card in self._cards.all.items():
            if card.heard != self._heard.get(index):
                self._heard[index] = card.heard
                for member in running:
                    self.use(member.task.slot).take(card)
        if running and at >= self._pss_at:
            spent = time.thread_time()
            self._turn += 1
            self.weigh(running[self._turn % len(running)])
            # 2.0 s between sums over one task's memory, at the least: adding up pages costs milliseconds, so tasks
            # take turns
            self._pss_at = at + max(2.0, (time.thread_time() - spent) / DEAREST)

    def weigh(self, member: Member) -> float:
        """Return the B of host memory that a task holds now."""
        use = self.meet(member)
        size = host.memory_of(use.pids)
        use.host_peak = max(size, use.host_peak or 0.0)
        return size

    def cpu_time(self, member: Member) -> float:
        """Return the s of CPU that a task's processes have used so far, as far as they were met."""
        return host.cpu_time({member.pid, *self.use(member.task.slot).pids})
