"""The loop of the supervisor: one command, one recorder, and every signal in between.

What it promises is docs/contracts.md, "Process". It holds no thread, no handler and no timer: all signals are blocked
and taken one by one with sigwaitinfo, which also says who sent them.
"""

import os
import resource  # noqa: F401 - os.wait4 imports it after it has taken the status: short of memory that would be lost
import signal
import sys
import time
from collections.abc import Callable

from gputune.launch import family, lost, signals
from gputune.launch.descriptors import close_others, is_open, null, say
from gputune.launch.folders import hold, remove_rings
from gputune.launch.link import Ended, Message, PipeEnd, Plan, Spoken, Started, StartFailed, pair
from gputune.launch.program import OURS, NotStarted, start

LIVES = 4  # a recorder that dies is started again, three times: a fourth death has a cause that will not go away
PATIENCE = 20.0  # s that a recorder gets after the command's end: closing a week's recording takes a second or two
DEAFNESS = 1.0  # s after the command's end in which a further Ctrl-C was still meant for the command
STOP_WINDOW = 5.0  # s in which a stop of the command belongs to the stop signal that we saw

Mask = set[int | signal.Signals]
Record = Callable[[PipeEnd, "dict[str, object]"], int]
Load = Callable[[], Callable[[], None]]  # imports a command of our own; what it returns runs it


class Supervisor:
    """Starts `first` as the recorder's first life, and `again` as its next ones (with the plan's `run`).

    `ahead` loads the command where that is a part of gputune. `hand` writes what is known where every life was lost;
    without it nobody is told of that.
    """

    def __init__(
        self, first: Record, again: Record, ahead: Load | None = None, hand: "lost.Hand | None" = None
    ) -> None:
        self._first = first
        self._again = again
        self._load = ahead
        self._hand = hand
        self._over = False  # the command has ended
        self._writes = False  # a recorder that nobody waits for writes what was asked for
        self._lost = ""  # what became of the recorder, if it gave no verdict
        self._lives = 0
        self._recorder = 0
        self._recorder_status = 0
        self._link: PipeEnd | None = None
        self._command = 0
        self._told: list[Message] = []
        self._heard: Spoken | None = None
        self._stop_asked = -STOP_WINDOW
        self._stop_signal: int = signal.SIGTSTP

    def run(self) -> int:
        """Run the command to its end; return its exit code, negative if it died of a signal."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignored it would cost us the exit status
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)
        ahead = None
        if self._load is not None:
            from gputune.launch.ahead import Ahead  # noqa: PLC0415 - for a command of our own only

            ahead = Ahead(self._load)
        self._begin_recorder(self._first, {}, mask)
        plan = self._plan(mask)
        if plan is None:
            if ahead is not None:
                ahead.drop()
            return self._recorder_status
        lock = hold(plan.rings) if plan.rings else -1
        try:
            if ahead is not None:
                self._command = ahead.go(_environment(plan))
            else:
                held: Mask = {*signals.WATCHED} if plan.family else mask
                self._command = start(plan.argv, _environment(plan), held)
        except NotStarted as refused:
            say(str(refused))
            self._tell(StartFailed(refused.status))
            self._wait_for_recorder(plan, mask)
            return refused.status
        self._tell(Started(self._command, time.monotonic_ns()))
        if plan.family:
            family.adopt()  # now there is time: the command adopts for itself, and nobody is orphaned before it does
        self._let_go(plan, lock)
        ended = self._watch(plan, mask)
        if plan.family:
            family.end({self._recorder})
        self._tell(ended)
        self._wait_for_recorder(plan, mask)
        if plan.rings and not self._recorder:  # else it still reads them, and removes them itself
            remove_rings(plan.rings)
        if self._hand is not None and self._lost and not self._spoken():
            lost.tell(plan.run, ended, self._lost, None if self._writes else self._hand)
        return self._status(plan, ended.code or 0)

    def _status(self, plan: Plan, own: int) -> int:
        """Return what to leave with: the command's own status, unless the recorder has judged otherwise."""
        if self._spoken() and self._heard is not None:
            return own if self._heard.status is None else self._heard.status
        return own or lost.unjudged(plan.run)

    def _begin_recorder(self, record: Record, run: "dict[str, object]", mask: Mask) -> None:
        ours, theirs = pair()
        self._lives += 1
        self._recorder = os.fork()
        if not self._recorder:
            _be_recorder(record, run, theirs, mask, first=self._lives == 1)
        theirs.close()
        if self._link is not None:
            self._link.close()
        self._link = ours
        for message in self._told:
            ours.send(message)

    def _plan(self, mask: Mask) -> "Plan | None":
        """Wait for the plan as any program waits: nothing runs yet, so a Ctrl-C simply ends us."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        plan = self._link.receive() if self._link is not None else None
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)
        if isinstance(plan, Plan):
            return plan
        code = os.waitstatus_to_exitcode(os.waitpid(self._recorder, 0)[1])
        if code < 0:
            say("error: the recorder of gputune was killed before it could start the command\n\nhint: try again\n")
        self._recorder_status = code if code >= 0 else OURS
        return None

    def _tell(self, message: Message) -> None:
        self._told.append(message)
        if self._link is not None:
            self._link.send(message)

    def _let_go(self, plan: Plan, lock: int) -> None:
        """Give back what belongs to the command alone: its stdin, its stdout, and whatever else was handed to it."""
        null(0)
        if not plan.keeps_stdout:
            null(1)
        close_others({lock, *((self._link.reads, self._link.writes) if self._link else ())})

    def _watch(self, plan: Plan, mask: Mask) -> Ended:
        ended = self._reap(plan, mask) if plan.family else None  # loaded ahead, it may have ended before we listened
        while ended is None:
            info = signal.sigwaitinfo(signals.WATCHED)
            if info.si_signo == signal.SIGCHLD:
                ended = self._reap(plan, mask)
            else:
                self._forward(info)
        return ended

    def _forward(self, info: signal.struct_siginfo) -> None:
        number = info.si_signo
        if not signals.from_group(info, self._command):
            signals.send(self._command, number)
        if number in signals.STOPS:
            self._stop_asked = time.monotonic()
            self._stop_signal = number
            if signals.is_stopped(self._command):
                self._stop(number)

    def _reap(self, plan: Plan, mask: Mask) -> "Ended | None":
        ended = None
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return ended
            if not pid:
                return ended
            if os.WIFSTOPPED(status):
                if pid == self._command:
                    self._stopped(os.WSTOPSIG(status))
                elif self._over:
                    signals.send(pid, signal.SIGCONT)  # everybody waits for it by now
            elif pid == self._command:
                cpu = usage.ru_utime + usage.ru_stime
                code = os.waitstatus_to_exitcode(status)
                ended = Ended(code, time.monotonic_ns(), cpu, usage.ru_maxrss * 1024)
            elif pid == self._recorder:
                self._buried(os.waitstatus_to_exitcode(status), plan, mask)

    def _buried(self, code: int, plan: Plan, mask: Mask) -> None:
        """Start the recorder's next life where it has left without a verdict."""
        self._recorder = 0
        if not code or self._spoken():
            return
        self._lost = lost.death(code)
        # one more life once the command has ended: it has nothing left to do but to judge what the others have kept
        if self._lives < LIVES + self._over:
            self._begin_again(plan, mask)

    def _begin_again(self, plan: Plan, mask: Mask) -> None:
        """Begin another life of the recorder. Where no process can be started, the command goes on without one."""
        try:
            self._begin_recorder(self._again, plan.run, mask)
        except OSError as error:
            self._recorder, self._lost = 0, f"no recorder could be started ({error.strerror})"

    def _spoken(self) -> bool:
        """Return whether the recorder, now dead, had given its verdict."""
        if self._link is not None and self._heard is None:
            os.set_blocking(self._link.reads, False)
            message = self._link.receive()
            self._heard = message if isinstance(message, Spoken) else None
        return self._heard is not None

    def _stopped(self, number: int) -> None:
        asked = signal.sigtimedwait(signals.STOPS, 0)  # the one that has stopped it may wait here for us, too
        if asked is not None:
            self._forward(asked)
        elif time.monotonic() - self._stop_asked < STOP_WINDOW:
            self._stop(self._stop_signal)
        elif signals.has_terminal():  # a shell waits there: it should see that its job has stopped, and can continue it
            self._stop(number)

    def _stop(self, number: int) -> None:
        """Stop as the command did, so that the shell sees it; once continued, continue the command."""
        self._stop_asked = -STOP_WINDOW
        signal.sigtimedwait({signal.SIGCONT}, 0)
        os.kill(os.getpid(), number)
        if number != signal.SIGSTOP:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        signal.sigtimedwait({signal.SIGCONT}, 0)  # the one that woke us
        if signals.is_stopped(self._command):  # it was sent to us alone
            signals.send(self._command, signal.SIGCONT)

    def _wait_for_recorder(self, plan: Plan, mask: Mask) -> None:
        """Wait until the recorder has spoken and closed its files; a signal that asks us to leave is obeyed."""
        ended = time.monotonic()
        self._over = True
        if self._lost and not self._recorder:
            self._begin_again(plan, mask)
        if self._recorder and signals.is_stopped(self._recorder):
            signals.send(self._recorder, signal.SIGCONT)
        while True:
            self._reap(plan, mask)
            past = time.monotonic() - ended
            if not self._recorder:
                return
            if past >= PATIENCE:
                self._give_up(plan, mask)
                return
            info = signals.awaited(signals.LEAVES | {signal.SIGCHLD}, PATIENCE - past)
            if info is not None and info.si_signo != signal.SIGCHLD and past > DEAFNESS:
                self._lost = "it was not waited for"  # the recorder finishes, and writes all that was asked for
                self._writes = True
                return

    def _give_up(self, plan: Plan, mask: Mask) -> None:
        """End a recorder that takes too long, once and for all."""
        self._lives = LIVES + 1
        signals.send(self._recorder, signal.SIGKILL)
        deadline = time.monotonic() + DEAFNESS
        while self._recorder and time.monotonic() < deadline:
            signals.awaited({signal.SIGCHLD}, DEAFNESS)
            self._reap(plan, mask)
        self._recorder = 0  # dead, or about to be: it reads no ring any more
        self._lost = f"the recorder gave none within {PATIENCE:.0f} s of the command's end"


def supervise(first: Record, again: Record, ahead: Load | None = None, hand: "lost.Hand | None" = None) -> None:
    """Run a command under a recorder and leave as the command left. Does not return."""
    try:
        code = Supervisor(first, again, ahead, hand).run()
    except BaseException as error:  # noqa: BLE001 - the last line of defence: one sentence, never a traceback
        say(f"error: gputune could not supervise the command: {type(error).__name__}: {error}\n\nhint: try again\n")
        code = OURS
    if code < 0:
        signals.die_of(-code)
        code = 128 - code  # only where the kernel refuses: process 1 of a container
    os._exit(code)


def _be_recorder(record: Record, run: "dict[str, object]", link: PipeEnd, mask: Mask, *, first: bool) -> None:
    """Live the recorder's life in the forked process. Does not return."""
    status = OURS
    try:
        signals.deaf()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        close_others({link.reads, link.writes})
        null(0)
        if first:
            for standard in (1, 2):
                if not is_open(standard):
                    null(standard)
        status = record(link, run)
        _flush()
    except BaseException as error:  # noqa: BLE001 - as in `supervise`; once the command runs, the next life goes on
        if not link.said:
            _flush()
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
            say(f"error: gputune could not begin: {why}\n\nhint: `gputune doctor` says whether it is whole\n")
    finally:
        os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # nobody reads it, or it was closed
            continue


def _environment(plan: Plan) -> "dict[str, str]":
    env = dict(os.environ)
    for name, value in plan.env.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env
