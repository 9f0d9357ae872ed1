"""The tasks while all of them run: how fast they go together, whether that pays, who hangs, whether memory lasts."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from gputune.core.hygiene import clean
from gputune.core.pace import Pace
from gputune.launch.output import tail
from gputune.sharing.member import LOG_END_B, Member
from gputune.sharing.mps import Mps, seen
from gputune.sharing.pressure import MemoryPressure, Relief
from gputune.sharing.spec import Spec
from gputune.sharing.supervising import TaskSupervisor
from gputune.sharing.window import Eyes, Window, WindowMeans

NO_LOSS = 0.98  # of a pace: what is within it counts as no loss
CLIENTS_S = 3.0  # s between looks for the tasks among the clients of MPS
WORDS = 120  # characters of a log's last line
HANGS = "hangs"  # why one was ended


class Pack:
    """Watches a crew, and pauses who should wait. `note` is called with sentences for people."""

    def __init__(self, spec: Spec, crew: TaskSupervisor, eyes: Eyes, note: Callable[[str], None]) -> None:
        self.through_mps = False
        self._kept: list[WindowMeans] = []
        self._spec = spec
        self._crew = crew
        self._eyes = eyes
        self._note = note
        self._pressure = MemoryPressure(spec.guard)
        self._window: Window | None = None
        self._rates: dict[int, float] = {}
        self._settled = False
        self._most = 0  # how many run at once on a card since more did not pay; 0: nobody waits for that
        self._held: set[int] = set()  # slots that the guard has paused
        self._clients_at = self._clients_until = 0.0

    @property
    def most(self) -> int:
        """Return how many may run at once on a card since more did not pay; 0 for no such limit."""
        return self._most

    @property
    def kept(self) -> list[WindowMeans]:
        """Return what was measured so far, the present stretch included."""
        present = self._window.kept if self._window is not None else None
        return self._kept if present is None else [*self._kept, present]

    def _active(self) -> list[Member]:
        return [member for member in self._crew.running if not member.paused]

    def _paused(self) -> list[Member]:
        return [member for member in self._crew.running if member.paused]

    def watch(self) -> None:
        """Look for those that hang, and for memory that ends."""
        active = self._active()
        if not active:
            return
        self._find_hangs(active)
        for step in self._pressure.look(self._eyes.cards(active)):
            self._guard(step)

    def tick(self, alone: Pace | None, mps: Mps | None) -> None:
        """Look at how all of them go together."""
        self._follow(self._active(), alone)
        if mps is not None and mps.active:
            self._find_clients(mps)

    def _follow(self, active: Sequence[Member], alone: Pace | None) -> None:
        """Measure those that run; begin anew where one has come or gone."""
        slots = frozenset(member.task.slot for member in active)
        if self._window is not None and self._window.slots != slots:
            self.keep()
        if self._go_on() or not active:
            return
        if self._window is None:
            self._window = Window(active, self._eyes)
        self._window.look()
        # 2.0 s in which it is measured whether it pays
        if not self._settled and self._window.enough(max(2.0, self._spec.trial)):
            self._settle(self._window, alone)

    def _go_on(self) -> bool:
        """Let paused ones go on whose turn has come: where fewer than may are at work on their card."""
        found, idle = False, not self._active()
        for here in on_cards(self._crew.running).values():
            paused = [m for m in here if m.paused and (idle or m.task.slot not in self._held)]
            for member in paused[: max(0, (self._most or 1) - sum(not m.paused for m in here))]:
                self._held.discard(member.task.slot)
                member.resume()
                found = True
        return found

    def keep(self) -> None:
        """Keep what the present window has shown, and close it."""
        self._kept = self.kept
        self._window = None

    def _settle(self, window: Window, alone: Pace | None) -> None:
        """Hold what they do together against one alone; go on with fewer at once on each card where it does not pay."""
        if self._crew.waiting and not self._spec.queue:
            return
        pace, on = window.together(), on_cards(window.members)
        copies = max(len(here) for here in on.values())
        if pace is None or alone is None or pace.unit != alone.unit:
            self._settled = True
            return
        self._rates[copies] = pace.rate
        gain = pace.rate / alone.rate / len(on)
        if pace.rate < NO_LOSS * self._rates.get(copies + 1, 0.0):
            for here in on_cards(self._paused()).values():
                here[-1].resume()
            self._most, self._settled = copies + 1, True
            self._note(f"{copies} at once do less than {copies + 1}: these go on")
        elif copies > 1 and gain < NO_LOSS * self._spec.min_gain:
            self._back_out([here for here in on.values() if len(here) == copies], copies, gain)
        else:
            self._settled = True

    def _back_out(self, on: Sequence[Sequence[Member]], copies: int, gain: float) -> None:
        """Pause the newest on each of these cards."""
        newest = [_newest(here) for here in on]
        for member in newest:
            member.pause()
        self._most = copies - 1
        names = " and ".join(member.task.name for member in newest)
        turn = "is paused until its turn" if len(newest) == 1 else "are paused until their turn"
        self._note(f"{copies} at once do x{gain:.2f} of what one does alone: {names} {turn}")

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
                member.end(HANGS, self._spec.grace)

    def _guard(self, step: Relief) -> None:
        """Do what the guard says."""
        if step.action == "resume":
            for member in [m for m in self._paused() if m.task.slot in self._held][:1]:
                self._held.discard(member.task.slot)
                member.resume()
            return
        active = self._active()
        here = [m for m in active if step.card is None or self._eyes.places.card_of(m.task) is step.card]
        if len(here) < 2:  # nobody would be the better for it
            return
        newest = _newest(here)
        self._note(f"{step.says}: {newest.task.name}, the newest, is {'paused' if step.action == 'pause' else 'ended'}")
        if step.action == "pause":
            newest.pause()
            self._held.add(newest.task.slot)
        else:
            newest.end(f"ended by the guard: {step.says}", self._spec.grace)

    def _find_clients(self, mps: Mps) -> None:
        """Ask the daemon, once all run, whether they really go through it."""
        at, running = time.monotonic(), self._crew.running
        if self._clients_at == float("inf") or not running or self._crew.waiting:
            return
        if not self._clients_at:
            # 60.0 s after which those that are not among them will not come, batches or none
            self._clients_at, self._clients_until = at + CLIENTS_S, at + 60.0
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
    lines = tail(member.task.log, LOG_END_B).decode("utf-8", "replace").strip().splitlines()
    return clean(lines[-1], WORDS) if lines else ""


def on_cards(members: Iterable[Member]) -> dict[str, list[Member]]:
    """Return members by the card that was chosen for them; all are together where none was."""
    on: dict[str, list[Member]] = {}
    for member in members:
        on.setdefault(member.task.card, []).append(member)
    return on
