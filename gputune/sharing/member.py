"""One task as a process: started into a session of its own, signalled, ended, and what became of it."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gputune.launch import family, program, signals
from gputune.launch.output import tail
from gputune.sharing.tasks import Task

State = Literal["waiting", "running", "ended"]
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
LOG_END_B = 4096  # bytes at the end of a log that its last words are taken from
OOM = b"out of memory"

Mask = set[int | signal.Signals]


class Member:
    """A task, and the process that it is at present."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.state: State = "waiting"
        self.pid = 0
        self.code: int | None = None  # of its last process: negative, the signal that it died of
        self.attempts = 0
        self.trial = False  # only to be measured: how it ends is not the run's
        self.paused = False  # by us, while others run
        self.why = ""  # it ended as it did, where we know more than its status
        self.began = self.started = self.ended = 0.0  # s of the monotonic clock; `started` of the last attempt
        self.resumed = 0.0  # s, when it last started or went on
        self.peak = 0  # B, largest resident size of its processes (getrusage)
        self.cpu = 0.0  # s of CPU that its last process and the children that this waited for have used, once it ended
        self.due = 0.0  # when it may start again
        self.kill_at = 0.0  # when it is killed if it has not ended by then, 0: never

    @property
    def wall(self) -> float | None:
        """Return the s from its first start to its end, or to now; None if it never ran."""
        return (self.ended or time.monotonic()) - self.began if self.began else None

    @property
    def failed(self) -> bool:
        """Return whether it has ended, and not well."""
        return self.state == "ended" and self.code != 0

    def start(self, env: Mapping[str, str], mask: Mask) -> None:
        """Start it. Raises program.NotStarted or OSError where that is not possible."""
        flags = FLAGS | (os.O_TRUNC if not self.attempts else 0)
        if self.task.cwd:
            Path(self.task.cwd).mkdir(mode=0o700, exist_ok=True)
        log = os.open(self.task.log, flags, 0o600)
        try:
            whole = {**env, **self.task.env}
            launcher = os.getpid()
            self.pid = program.start_prepared(self.task.argv, whole, mask, lambda: _prepare(self.task, log, launcher))
        finally:
            os.close(log)
        self.state, self.code, self.why, self.kill_at = "running", None, "", 0.0
        self.paused = False
        self.attempts += 1
        self.started = self.resumed = time.monotonic()
        self.began = self.began or self.started
        self.ended = 0.0

    def over(self, code: int, peak: int, cpu: float) -> None:
        """Learn that its process has ended."""
        self.state, self.code, self.ended = "ended", code, time.monotonic()
        self.cpu = cpu
        self.peak = max(self.peak, peak)
        self.paused = False
        if code != 0 and not self.why and OOM in tail(self.task.log, LOG_END_B).lower():
            self.why = "out of memory"

    def send(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it, or to all processes of its session's first group, as a terminal would."""
        if self.state != "running":
            return
        if not group:
            signals.send(self.pid, number)
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def pause(self) -> None:
        """Stop it where it is: it keeps its memory and gives up its share of everything else."""
        self.paused = True
        self._each(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.paused = False
        self.resumed = time.monotonic()
        self._each(signal.SIGCONT)

    def sleep(self) -> None:
        """Stop it with all of us."""
        self._each(signal.SIGSTOP)

    def wake(self, slept: float) -> None:
        """Go on with all of us after `slept` seconds, which are not its own: no deadline of it has come nearer."""
        self.started += slept
        self.resumed = time.monotonic()
        self.kill_at += slept if self.kill_at else 0.0
        if not self.paused:
            self._each(signal.SIGCONT)

    def _each(self, number: int) -> None:
        """Send this to each of its processes once, whatever group they have made themselves."""
        if self.state != "running":
            return
        below = family.descendants(self.pid)
        self.send(number, group=True)
        for pid in below:
            if not _in_group(pid, self.pid):
                signals.send(pid, number)

    def end(self, why: str, grace: float) -> None:
        """Ask it to end, and see to it that it does within `grace` seconds."""
        if self.state != "running" or self.kill_at:
            return
        self.why = why
        self.kill_at = time.monotonic() + grace
        self.send(signal.SIGTERM)
        self.resume()  # a stopped one would not notice

    def kill(self) -> None:
        """End it at once, with all that is below it."""
        below = family.descendants(self.pid) if self.state == "running" else []
        self.send(signal.SIGKILL, group=True)
        for pid in below:
            signals.send(pid, signal.SIGKILL)


def _in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return True


def _prepare(task: Task, log: int, launcher: int) -> None:
    """Make this new process the task's: a session of its own, its log, its folder, its CPUs. Dies with the launcher."""
    os.setsid()  # no terminal: a question would stop it for ever
    family.die_with_parent(signal.SIGKILL)
    if os.getppid() != launcher:  # it died before we asked
        os._exit(program.OURS)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if task.cwd:
        os.chdir(task.cwd)
    if task.cpus:
        os.sched_setaffinity(0, task.cpus)
