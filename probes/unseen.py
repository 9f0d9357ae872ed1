"""Which processes of the tree have torch inside and no guest of ours: nothing is known of their time from within.

They are named, with the reason as far as it shows, so that nobody is told "0 % wait" of a process that was not seen.
"""

import os
import re
import time
from dataclasses import dataclass

from gputune.core.sample import ATTACHED, Guest, Metric, Reading, Role, Target, Ticks, now
from gputune.host.procfs import is_python, maps, monotonic_of, read_bytes, stat_of

METRICS: tuple[Metric, ...] = ()
PERIOD = 2.0  # s; importing torch takes about as long

TORCH = b"libtorch"  # in the name of a mapped file; every build of torch has it
PAGE = os.sysconf("SC_PAGE_SIZE")
GUEST = b"probes/guest"  # where PYTHONPATH leads when it is as we set it
VALUED = re.compile(rb"[WXcm]")  # options of Python whose value follows in the same word, or ends the options
WORKERS = (b"multiprocessing.spawn", b"multiprocessing.forkserver")  # in the command of a worker not made by fork


@dataclass(slots=True)
class _Suspect:
    """A process without a guest: whether torch is in it, and when to look again."""

    due: float
    pause: float = PERIOD / 2
    guest: Guest | None = None


def attach(target: Target) -> Ticks:
    """Look through `/proc/PID/maps` of processes that have made no `.hello` file among the rings."""
    suspects: dict[int, _Suspect] = {}
    while True:
        yield _tick(target, suspects, time.monotonic())


def _tick(target: Target, suspects: dict[int, _Suspect], at: float) -> list[Reading]:
    pids = target.pids()
    found: list[Reading] = []
    for pid in suspects.keys() - pids.keys():
        guest = suspects.pop(pid).guest
        if guest is not None:
            found.append(guest._replace(ended=now()))
    for pid in pids:
        suspect = suspects.setdefault(pid, _Suspect(at))
        if suspect.guest is None and at >= suspect.due - PERIOD / 2:
            suspect.pause = min(2 * suspect.pause, 64.0)  # s; a process without torch is looked at ever more rarely
            suspect.due = at + suspect.pause
            suspect.guest = _look(target, pid)
            if suspect.guest is not None:
                found.append(suspect.guest)
    return found + _launchers(suspects) + _elsewhere(target, suspects)


def _launchers(suspects: dict[int, _Suspect]) -> list[Reading]:
    """Take back that a process trains which started one that does: torchrun has torch inside, too."""
    guests = {pid: suspect.guest for pid, suspect in suspects.items() if suspect.guest and suspect.guest.role == "main"}
    found: list[Reading] = []
    for parent in {guest.ppid for guest in guests.values()} & guests.keys():
        launcher = suspects[parent].guest = guests[parent]._replace(role="other")
        found.append(launcher)
    return found


def _elsewhere(target: Target, suspects: dict[int, _Suspect]) -> list[Reading]:
    """Take back what another watch hears: a rank that a first one has started may record itself (docs/api.md)."""
    found: list[Reading] = []
    for pid, suspect in suspects.items():
        if suspect.guest is None or suspect.guest.role != "main":
            continue
        if target.heard and any(target.rings.parent.glob(f"*/{pid}.hello")):
            suspect.guest = suspect.guest._replace(role="other")
            found.append(suspect.guest)
    return found


def _look(target: Target, pid: int) -> Guest | None:
    """Return what is to be said of a process: nothing where a guest is, or no torch (one that was named counts)."""
    named = not target.heard and pid == target.root_pid and is_python(target.proc, pid)
    if (target.rings / f"{pid}.hello").exists() or not (named or _has_torch(target, pid)):
        return None
    stat = stat_of(read_bytes(f"{target.proc}/{pid}/stat"))
    if stat is None:
        return None
    role, started = _role(target, pid, stat.parent), monotonic_of(stat.started)
    return Guest(-pid, pid, stat.parent, started, 0, role, "none", _why(target, pid))


def _has_torch(target: Target, pid: int) -> bool:
    statm = read_bytes(f"{target.proc}/{pid}/statm").split()
    # 64 << 20 B resident; nothing below it has torch inside, and its maps need not be read
    if len(statm) < 2 or int(statm[1]) * PAGE < 64 << 20:
        return False
    return maps(target.proc, pid, TORCH)


def _role(target: Target, pid: int, parent: int) -> Role:
    """Tell a worker by its command: a forked one has its parent's, the others name multiprocessing in theirs.

    A training with a guest names its workers: another process that it forked is a server of its own (a
    `multiprocessing.Manager`), or makes batches for a queue.
    """
    command = read_bytes(f"{target.proc}/{pid}/cmdline")
    if any(mark in command for mark in WORKERS):
        return "worker"
    roles = target.pids()
    forked = parent in roles and command == read_bytes(f"{target.proc}/{parent}/cmdline")
    if not forked or not _has_torch(target, parent):
        return "main"
    named = (target.rings / f"{parent}.hello").exists()
    return "worker" if not named or roles.get(pid) == "worker" else "other"


def _why(target: Target, pid: int) -> str:
    """Return why no guest may be there. Of the environment only the two names that matter are looked at."""
    if not target.heard:
        return ATTACHED
    for word in read_bytes(f"{target.proc}/{pid}/cmdline").split(b"\0")[1:]:
        if not word.startswith(b"-"):
            break
        letters = VALUED.split(word[1:])[0] if not word.startswith(b"--") else b""
        for flag in "IES":
            if flag.encode() in letters:
                return f"Python was started with -{flag}, which leaves PYTHONPATH or sitecustomize out"
    variables = read_bytes(f"{target.proc}/{pid}/environ").split(b"\0")
    if not any(variable.startswith(b"GPUTUNE_RINGS=") for variable in variables):
        return "it was started with an environment of its own"
    if not any(variable.startswith(b"PYTHONPATH=") and GUEST in variable for variable in variables):
        return "PYTHONPATH was replaced on the way to it"
    if b"GPUTUNE_RINGS=" + os.fsencode(target.rings) not in variables:
        return "another `gputune watch` inside this one listens to it"
    return "no guest spoke from inside it"
