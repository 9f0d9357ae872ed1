"""All tasks together: who may start, who has ended and what follows from that, signals, and whoever is left behind."""

import os
import signal
import time
from collections.abc import Callable, Mapping

from gputune.host.procfs import read_bytes
from gputune.launch import family, signals
from gputune.launch.program import OURS, NotStarted
from gputune.sharing.member import Mask, Member
from gputune.sharing.spec import SLOT, Spec

LEAVES = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
OURS_ALONE = frozenset({signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGPIPE, signal.SIGALRM})

Tell = Callable[[str], None]


class TaskSupervisor:
    """The members, and the policy for those that fail. `tell` is called with sentences for people."""

    def __init__(self, spec: Spec, env: Mapping[str, str], mask: Mask, tell: Tell) -> None:
        self.members: list[Member] = []
        self.closing = False  # nobody starts any more
        self.may_start: Callable[[Member], bool] = lambda _member: True
        self.seat: Callable[[Member], None] = lambda _member: None  # called right before a start
        self.ended: Callable[[Member], None] = lambda _member: None  # called with who has ended, before the policy is
        self.stops = 0  # how often all of us were stopped: what was measured across a stop is worth nothing
        self.first_failure: int | None = None
        self._spec = spec
        self.env = env
        self._mask = mask
        self._tell = tell
        self._interrupts = 0
        self._left_by = 0  # the signal that first asked us to leave
        self._left: dict[int, float] = {}  # pid to when it is killed
        self._look_at = 0.0
        self._said: set[str] = set()

    @property
    def running(self) -> list[Member]:
        """Return those that run, paused ones included."""
        return [member for member in self.members if member.state == "running"]

    @property
    def waiting(self) -> list[Member]:
        """Return those that are still to start, unless nobody starts any more."""
        return [] if self.closing else [member for member in self.members if member.state == "waiting"]

    @property
    def over(self) -> bool:
        """Return whether nothing runs, nothing will, and nothing was left behind."""
        return not self.running and not self.waiting and not self._orphans()

    @property
    def status(self) -> int:
        """Return what to leave with: the first failure's exit code, negative for a signal.

        If nothing failed and not all have run, the signal that we were asked to leave with, or 1.
        """
        if self.first_failure is not None:
            return self.first_failure
        whole = all(member.state == "ended" and not member.trial for member in self.members)
        return 0 if whole else -self._left_by if self._left_by else 1

    def start(self) -> None:
        """Start those whose turn it is."""
        for member in self.waiting:
            if time.monotonic() >= member.due and self.may_start(member):
                self._start(member)

    def _start(self, member: Member) -> None:
        try:
            self.seat(member)
            member.start(self.env, self._mask)
        except NotStarted as refused:
            self._say(str(refused).rstrip())
            self._refused(member, refused.status)
        except OSError as error:
            self._say(f"error: {member.task.name} cannot be started: `{error.filename}`: {error.strerror}")
            self._refused(member, OURS)

    def _refused(self, member: Member, status: int) -> None:
        """Bury a member whose process could not be started; another start would be refused like this one."""
        member.attempts += 1
        member.started = time.monotonic()
        member.began = member.began or member.started
        member.over(status, 0, 0.0)
        self._follow(member, again=False)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._tell(text)

    def reap(self) -> None:
        """Bury who has ended, and do what the policy says. Raises what `ended` raises."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            member = next((m for m in self.running if m.pid == found.si_pid), None)
            if member is not None:
                member.send(signal.SIGTERM, group=True)  # what it leaves behind; its number is still its own
                member.send(signal.SIGCONT, group=True)
            _, status, usage = os.wait4(found.si_pid, 0)
            if member is not None:
                member.over(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)
                self.ended(member)
                self._follow(member)

    def _follow(self, member: Member, *, again: bool = True) -> None:
        """Do what the policy says of a member that has ended."""
        code = member.code or 0
        if code == 0 or member.trial:
            return
        left = member.attempts <= self._spec.restarts and not self.closing
        if again and left and self._spec.on_failure == "restart":
            # 1.0 s before the first new start, doubled for each further one
            # 60.0 s before any new start at the most
            pause = min(60.0, 1.0 * 2 ** (member.attempts - 1))
            member.state, member.due = "waiting", time.monotonic() + pause
            self._tell(f"{member.task.name} {_ended(member)}; it starts again in {pause:g} s")
            return
        if self.first_failure is None:
            self.first_failure = code
        if self._spec.on_failure == "stop" and not self.closing:
            self._tell(f"{member.task.name} {_ended(member)}: the others are ended, too")
            self.close(f"ended because {member.task.name} failed")

    def close(self, why: str) -> None:
        """End all that runs, and start nothing more."""
        self.closing = True
        for member in self.running:
            member.end(why, self._spec.grace)

    def kill(self) -> None:
        """End all that is below us at once."""
        self.closing = True
        for member in self.running:
            member.kill()
        for pid in self._orphans():
            signals.send(pid, signal.SIGKILL)

    def take(self, info: signal.struct_siginfo) -> None:
        """Hand a signal on to every task, once; a second Ctrl-C kills them."""
        number = info.si_signo
        if number in OURS_ALONE:
            return
        if number in LEAVES:
            self.closing = True
            self._left_by = self._left_by or number
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts >= 2:  # which Ctrl-C is one
                self.kill()
                return
        if number in signals.STOPS:
            self._stop()
            return
        terminal = info.si_code > 0  # the kernel's: then a shell's job would have had it as a group
        for member in self.running:
            if number == signal.SIGCONT and member.paused:
                continue
            member.send(number, group=terminal or number == signal.SIGCONT)
            if number in LEAVES and member.paused:
                member.resume()  # a stopped one would not notice

    def _stop(self) -> None:
        """Stop with all of them, as the shell has asked; go on with those that were not paused by us."""
        began = time.monotonic()
        for member in self.running:
            member.sleep()
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.sigtimedwait({signal.SIGCONT}, 0)  # the one that woke us: each of them gets one by itself
        slept = time.monotonic() - began
        self.stops += 1
        self._left = {pid: when + slept for pid, when in self._left.items()}
        for member in self.running:
            member.wake(slept)

    def look(self) -> None:
        """Kill who was asked to end and did not, and see to what ended tasks have left behind."""
        at = time.monotonic()
        for member in self.running:
            if member.kill_at and at >= member.kill_at:
                member.kill()
        if at >= self._look_at:
            self._look_at = at + 0.5  # s between looks for them
            self._sweep(at)

    def _sweep(self, at: float) -> None:
        """Ask processes to end whose task has ended, and end those that stay."""
        left = self._orphans()
        self._left = {pid: when for pid, when in self._left.items() if pid in left}
        running = {member.task.slot for member in self.running}
        for pid in left:
            if self.slot_of(pid) in running:
                continue
            if pid not in self._left:
                # 5.0 s that processes get which a task has left behind, between being asked to end and being ended
                self._left[pid] = at + 5.0
                signals.send(pid, signal.SIGTERM)
                signals.send(pid, signal.SIGCONT)
            elif at >= self._left[pid]:
                for below in (*family.descendants(pid), pid):
                    signals.send(below, signal.SIGKILL)

    def _orphans(self) -> list[int]:
        """Return children of ours that a task has left behind: their parents have ended."""
        own = {member.pid for member in self.running}
        return [pid for pid in family.children() if pid not in own and self.slot_of(pid) >= 0]

    def slot_of(self, pid: int) -> int:
        """Return the slot of the task that a process belongs to, -1 where it is none of theirs, or has ended."""
        member = next((m for m in self.members if m.pid == pid), None)
        if member is not None:
            return member.task.slot
        for entry in read_bytes(f"/proc/{pid}/environ").split(b"\0"):
            if entry.startswith(SLOT.encode() + b"="):
                value = entry.partition(b"=")[2]
                return int(value) if value.isdigit() else -1
        try:
            session = os.getsid(pid)
        except (ProcessLookupError, PermissionError):
            return -1
        return next((m.task.slot for m in self.members if m.pid == session), -1)


def _ended(member: Member) -> str:
    """Return how a member ended, in words."""
    code = member.code or 0
    if member.why:
        return f"has failed ({member.why})"
    return f"died of signal {-code} ({_name(-code)})" if code < 0 else f"left with status {code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
