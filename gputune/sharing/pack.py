"""The tasks while all of them run: how fast they go together, whether that pays, who hangs, whether memory lasts."""

import time
from collections.abc import Callable, Mapping, Sequence

from gputune.hygiene import clean
from gputune.sharing.crew import Crew
from gputune.sharing.member import Member, tail
from gputune.sharing.mps import Mps, seen
from gputune.sharing.pressure import Pressure
from gputune.sharing.progress import Pace
from gputune.sharing.spec import Spec
from gputune.sharing.window import Eyes, Kept, Window

SHORTEST = 2.0  # s in which it is measured whether it pays
AGAIN = 0.98  # of a pace: what is within it counts as no loss
CLIENTS_S = 3.0  # s between looks for the tasks among the clients of MPS
CLIENTS_MOST = 60.0  # s after which those that are not among them will not come, batches or none
WORDS = 120  # characters of a log's last line


class Pack:
    """Watches a crew, and pauses who should wait. `note` is called with sentences for people."""

    def __init__(self, spec: Spec, crew: Crew, eyes: Eyes, note: Callable[[str], None]) -> None:
        self.kept: list[Kept] = []
        self.through_mps = False
        self._spec = spec
        self._crew = crew
        self._eyes = eyes
        self._note = note
        self._pressure = Pressure(spec.guard)
        self._window: Window | None = None
        self._rates: dict[int, float] = {}
        self._settled = False
        self._most = 0  # how many run at once since more did not pay; 0: nobody waits for that
        self._clients_at = self._clients_until = 0.0

    @property
    def most(self) -> int:
        """Return how many may run at once since more did not pay; 0 for no such limit."""
        return self._most

    def _active(self) -> list[Member]:
        return [member for member in self._crew.running if not member.paused]

    def _paused(self) -> list[Member]:
        return [member for member in self._crew.running if member.paused]

    def tick(self, alone: Pace | None, mps: Mps | None) -> None:
        """Look at everything once."""
        active = self._active()
        self._follow(active, alone)
        self._find_hangs(active)
        self._guard(active)
        if mps is not None and mps.active:
            self._find_clients(mps)

    def _follow(self, active: Sequence[Member], alone: Pace | None) -> None:
        """Measure those that run; begin anew where one has come or gone."""
        slots = frozenset(member.task.slot for member in active)
        if self._window is not None and self._window.slots != slots:
            self.keep()
        free = self._paused()[: max(0, (self._most or 1) - len(active))]
        for member in free:
            member.resume()
        if free or not active:
            return
        if self._window is None:
            self._window = Window(active, self._eyes)
        self._window.look()
        if not self._settled and self._window.enough(max(SHORTEST, self._spec.trial)):
            self._settle(self._window, alone)

    def keep(self) -> None:
        """Keep what the present window has shown, and close it."""
        if self._window is not None and self._window.kept is not None:
            self.kept.append(self._window.kept)
        self._window = None

    def _settle(self, window: Window, alone: Pace | None) -> None:
        """Hold what they do together against one alone; where it does not pay, go on with fewer at once."""
        pace, copies = window.together(), len(window.members)
        if self._crew.waiting and not self._spec.queue:
            return
        if pace is None or alone is None or pace.unit != alone.unit:
            self._settled = True
            return
        self._rates[copies] = pace.rate
        gain = pace.rate / alone.rate
        if pace.rate < AGAIN * self._rates.get(copies + 1, 0.0):
            for member in self._paused()[-1:]:
                member.resume()
            self._most, self._settled = copies + 1, True
            self._note(f"{copies} at once do less than {copies + 1}: these go on")
        elif copies > 1 and gain < AGAIN * self._spec.min_gain:
            newest = _newest(window.members)
            newest.pause()
            self._most = copies - 1
            self._note(
                f"{copies} at once do x{gain:.2f} of what one does alone: {newest.task.name} is paused until its turn"
            )
        else:
            self._settled = True

    def _find_hangs(self, active: Sequence[Member]) -> None:
        if not self._spec.stall:
            return
        at = time.monotonic()
        for member in active:
            slot = member.task.slot
            heard = self._eyes.progress.moved.get(slot, 0.0), self._eyes.logs.moved.get(slot, 0.0)
            silent = at - max(member.resumed, *heard)
            if silent > self._spec.stall and not member.kill_at:
                said = last_line(member)
                words = f"; its last words: {said}" if said else ""
                self._note(f"{member.task.name} hangs: no batch and no output for {silent:.0f} s{words}. It is ended")
                member.end("hangs", self._spec.grace)

    def _guard(self, active: Sequence[Member]) -> None:
        says, action = self._pressure.look(self._eyes.card)
        if action == "resume" and self._paused() and not self._most:
            self._paused()[0].resume()
        if action in {"pause", "end"} and len(active) > 1:
            newest = _newest(active)
            self._note(f"{says}: {newest.task.name}, the newest, is {'paused' if action == 'pause' else 'ended'}")
            if action == "pause":
                newest.pause()
            else:
                newest.end(f"ended by the guard: {says}", self._spec.grace)

    def _find_clients(self, mps: Mps) -> None:
        """Ask the daemon, once all run, whether they really go through it."""
        at, running = time.monotonic(), self._crew.running
        if self._clients_at == float("inf") or not running or self._crew.waiting:
            return
        if not self._clients_at:
            self._clients_at, self._clients_until = at + CLIENTS_S, at + CLIENTS_MOST
        if at < self._clients_at:
            return
        self._clients_at = at + CLIENTS_S
        tasks: Mapping[str, set[int]] = {m.task.name: self._eyes.gauge.use(m.task.slot).pids for m in running}
        good, says = seen(tasks, mps.clients())
        computing = self._window is not None and self._window.seconds > CLIENTS_S
        if good or computing or at >= self._clients_until:
            self._clients_at = float("inf")
            self.through_mps = good
            self._note(says)


def _newest(members: Sequence[Member]) -> Member:
    return max(members, key=lambda member: (member.started, member.task.slot))


def last_line(member: Member) -> str:
    """Return the last words in a task's log."""
    lines = tail(member.task.log).decode("utf-8", "replace").strip().splitlines()
    return clean(lines[-1], WORDS) if lines else ""
