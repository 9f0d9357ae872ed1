"""The undertaking behind `gputune watch --pid`: a training that runs already is looked at for a while, from outside.

Nothing is put into its process and nothing is sent to it: device, host and processes are read as ever, and where its
time goes is told by stacks, which py-spy reads out of its memory without stopping it.
"""

import os
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.sample import now
from gputune.gathering.sampled import LEAST_LOOKS
from gputune.host import ptrace
from gputune.host.procfs import children_of, is_python, maps, read_bytes, stat_of
from gputune.host.tree import Tree
from gputune.launch import folders
from gputune.launch.descriptors import say
from gputune.launch.link import Started
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.nvml.devices import environment
from gputune.watching.recorder.end import End
from gputune.watching.recorder.life import Life
from gputune.watching.starting import check_html, check_json

PROC = Path("/proc")
PACE = 4.0  # s from one look to the next at first: py-spy's start, its burst of a second, and a pause
LISTS = "`pgrep -af python` lists those that may be meant"
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox"})
TORCH = b"libtorch"  # in the name of a mapped file; every build of torch has it
SPAWNED = ("multiprocessing.spawn", "multiprocessing.forkserver")  # in the command of a process not made by fork
# by every DataLoader worker from its first line on, to say what has killed it (`torch/csrc/DataLoader.cpp`)
CAUGHT = (signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGTERM)
LEAVES = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM})


class NoSuchProcess(BadUsage):
    """Nobody has that pid, or it has ended."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"there is no process {pid}", hint=LISTS)


class NotPython(BadUsage):
    """Neither the process nor any of its children is a Python."""

    def __init__(self, pid: int, name: str) -> None:
        super().__init__(
            f"process {pid} (`{name}`) is not Python, and started none",
            hint=LISTS,
        )


class IsShell(BadUsage):
    """It is a shell: whatever is typed in it next would be looked at as well, this gputune included."""

    def __init__(self, pid: int, name: str, pythons: Sequence[int]) -> None:
        below = " or ".join(f"`gputune watch --pid {python}`" for python in pythons[:3])  # processes in a hint
        super().__init__(
            f"process {pid} is a shell (`{name}`), and no training",
            hint=f"the Python that it started: {below}" if below else LISTS,
        )


class SomebodyElses(GputuneError):  # noqa: N818 - named for what happened
    """It runs as another user."""

    def __init__(self, pid: int, owner: str) -> None:
        super().__init__(
            f"process {pid} belongs to `{owner}`, and may not be looked into",
            hint=f"`sudo -u {owner} gputune watch --pid {pid}`",
        )


class Worker(BadUsage):
    """It is a DataLoader worker, which knows nothing of the training loop."""

    def __init__(self, pid: int, parent: int) -> None:
        super().__init__(
            f"process {pid} looks like a worker of process {parent}", hint=f"`gputune watch --pid {parent}`"
        )


class Ourselves(BadUsage):
    """It is a `gputune watch` and not what that watches."""

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"process {pid} is a `gputune watch` itself, whose verdict knows more than a look from outside",
            hint="`gputune report RUN` shows it, also while it goes on",
        )


def attach(wishes: WatchOptions, seconds: float | None, troubles: Sequence[str] = ()) -> int:
    """Look at a process for `seconds` (a minute), until it ends, or until we are asked to leave; say what was found.

    Returns 0: its status is not ours to give. Raises GputuneError where it cannot be looked at.
    """
    pid = wishes.pid
    check_json(wishes.json)
    check_html(asked=wishes.html)
    check(PROC, pid)
    wishes.command = command_of(PROC, pid)
    said = [*troubles, *watched_already(PROC, pid)]
    run = WatchedRun(wishes, folder=folders.kept_or_trouble(wishes.out, wishes.command, said), rings="", troubles=said)
    if wishes.all_devices:
        os.environ["GPUTUNE_ALL_DEVICES"] = "1"  # read by the NVML probe
    short = too_short(seconds) if seconds is not None and wishes.stacks else ""
    if short:
        say(f"gputune: {short}\n")  # now, while it can be mended
    started = Started(pid, now())
    # Where no time is given it is looked at for 60.0 s: some fifteen looks tell a share to about five points
    leave = Leave(pid, 60.0 if seconds is None else seconds)
    Life(run, started, leave, resumed=False).live()
    return 0


def check(proc: Path, pid: int) -> None:
    """Raise GputuneError where the process cannot be looked at."""
    try:
        owner = (proc / str(pid)).stat().st_uid if pid > 0 else -1
    except OSError:
        owner = -1
    if owner < 0 or not command_of(proc, pid):  # a zombie and the kernel's own threads have no command line
        raise NoSuchProcess(pid)
    if os.geteuid() not in {0, owner}:
        raise SomebodyElses(pid, opening.name_of(owner))
    if _is_watch(command_of(proc, pid)):
        raise Ourselves(pid)
    name = os.path.basename(command_of(proc, pid)[0]).removeprefix("-")  # noqa: PTH119 - a word, not a path of ours
    pythons = _pythons(proc, pid)
    if name in SHELLS:
        raise IsShell(pid, name, pythons)
    if not pythons:
        raise NotPython(pid, name)
    parent = _parent_of_worker(proc, pid)
    if parent:
        raise Worker(pid, parent)
    if not all(ptrace.allowed(proc, member) for member in pythons):
        why, hint = ptrace.refusal(proc)
        raise GputuneError(why, hint=hint)


def _pythons(proc: Path, pid: int) -> list[int]:
    """Return the processes of a tree that are Pythons, without this very one: a terminal has it below it, too."""
    tree = Tree(pid, proc)
    tree.refresh()
    family = sorted(tree.pids())
    tree.close()
    return [member for member in family if is_python(proc, member) and (member != os.getpid() or proc != PROC)]


def too_short(seconds: float) -> str:
    """Return in a sentence that so many s are too few for shares with a margin; nothing where they are enough."""
    if seconds >= LEAST_LOOKS * PACE:
        return ""
    enough = f"`--for {LEAST_LOOKS * PACE:.0f}s`"
    return f"{seconds:.3g} s are too short to tell how sure the shares of its time are: that takes about {enough}"


def command_of(proc: Path, pid: int) -> tuple[str, ...]:
    """Return the command line of a process; empty where it has none."""
    words = read_bytes(f"{proc}/{pid}/cmdline").rstrip(b"\0").split(b"\0")
    return tuple(os.fsdecode(word) for word in words) if words != [b""] else ()


def watched_already(proc: Path, pid: int) -> list[str]:
    """Return in a sentence that a watch listens to it from inside, which knows more; nothing where none does."""
    variables = environment(proc, pid)
    rings, host = variables.get("GPUTUNE_RINGS", ""), variables.get("GPUTUNE_HOST_PID", "?")
    if not rings or not Path(rings).is_dir():
        return []
    return [f"it was started under `gputune watch` (process {host}), whose verdict knows more: `gputune report RUN`"]


def _is_watch(command: tuple[str, ...]) -> bool:
    """Return whether a command line is `gputune watch …` or `python -m gputune watch …`."""
    names = [word.rpartition("/")[2] for word in command[:6]]
    return any(pair == ("gputune", "watch") for pair in pairwise(names))


def _parent_of_worker(proc: Path, pid: int) -> int:
    """Return the training that forked a process which looks like a worker of it, 0 where none did.

    A worker goes by its training's command line, and so does a rank that was forked (`start_processes(…, "fork")`). A
    rank catches all the signals that a worker does only where its script sees to that. Then workers of its own tell: no
    worker may start others (it is a daemon), so where one of those whom the parent forked has, all are ranks.
    """
    stat = stat_of(read_bytes(f"{proc}/{pid}/stat"))
    parent = stat.parent if stat is not None else 0
    command = command_of(proc, pid)
    if parent <= 0 or command_of(proc, parent) != command or not maps(proc, parent, TORCH):
        return 0
    if not _catches(proc, pid, CAUGHT):
        return 0
    alike = {pid, *(child for child in children_of(f"{proc}/{parent}") if command_of(proc, child) == command)}
    return 0 if any(_starts_workers(proc, each) for each in alike) else parent


def _catches(proc: Path, pid: int, signals: Iterable[int]) -> bool:
    """Return whether a process has handlers for all of these signals; also where that cannot be read."""
    _, _, rest = read_bytes(f"{proc}/{pid}/status").partition(b"\nSigCgt:")
    mask = rest.partition(b"\n")[0].strip()
    return not mask or all(int(mask, 16) >> (number - 1) & 1 for number in signals)


def _starts_workers(proc: Path, pid: int) -> bool:
    """Return whether a process has started others by `multiprocessing`: forked ones go by its own command line."""
    command = command_of(proc, pid)
    found = (command_of(proc, child) for child in children_of(f"{proc}/{pid}"))
    return any(child == command or any(mark in word for word in child for mark in SPAWNED) for child in found)


class Leave(End):
    """The end of a look: the process has ended, the time is up, or somebody wants us to go. It is never touched.

    Signals are taken by a thread and are blocked everywhere else, so that a Ctrl-C of the terminal does not reach our
    own children. A second one ends us at once.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(None, pid)
        self._until = time.monotonic() + seconds
        self._reads, self._writes = os.pipe()
        self._events.register(self._reads)
        signal.pthread_sigmask(signal.SIG_BLOCK, LEAVES)
        threading.Thread(target=self._listen, daemon=True).start()
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def __call__(self) -> bool:
        """Return whether it is over."""
        if self._events.poll(0) or time.monotonic() >= self._until or (self._process < 0 and not self.lives()):
            self._over()
        return self.ended is not None

    def spoken(self) -> None:
        """Tell nobody: there is no supervisor."""

    def terminate(self) -> None:
        """Do nothing: it is not ours to end."""

    def _listen(self) -> None:
        signal.sigwait(LEAVES)
        os.write(self._writes, b".")
        again = signal.sigwait(LEAVES - {signal.SIGALRM})
        os._exit(128 + again)
