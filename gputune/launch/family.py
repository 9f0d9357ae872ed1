"""Processes below us that nobody else waits for: they become our children, and all of them can be ended.

For undertakings that own what they start (`gputune share`); a watched command's background processes are its own.
"""

import os
import signal
import time
from collections.abc import Collection

from gputune.core.prctl import Option, prctl
from gputune.launch import signals


def adopt() -> bool:
    """Become the parent of every orphan below us; False where the kernel does not do that."""
    return prctl(Option.CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> bool:
    """Have the kernel send us this signal when our parent's thread ends; False where it does not do that."""
    return prctl(Option.PDEATHSIG, number)


def children(pid: "int | str" = "self") -> "list[int]":
    """Return the children of a process, none where it has ended or the kernel does not list them."""
    from gputune.host.procfs import children_of  # noqa: PLC0415 - the supervisor carries it for a family only

    return children_of(f"/proc/{pid}")


def descendants(pid: "int | str" = "self") -> "list[int]":
    """Return all processes below one, parents before their children."""
    found = children(pid)
    for member in found:
        found += [child for child in children(member) if child not in found]
    return found


def end_marked(variable: str) -> None:
    """Kill every process that was started with `NAME=VALUE` in its environment: what outlived all who knew of it."""
    mark = os.fsencode(variable)
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = mark in file.read().split(b"\0")
            except OSError:  # it has ended, or is somebody else's
                continue
            if marked:
                signals.send(int(name), signal.SIGKILL)


def end(spared: "Collection[int]" = ()) -> None:
    """Kill all that is below us but `spared` and what is below those, and wait until it is gone."""
    until = time.monotonic() + 5.0  # s that the kernel gets to end a killed process; one that hangs in a driver is left
    while time.monotonic() < until:
        own = [pid for pid in children() if pid not in spared]
        if not own:
            return
        for pid in own:
            for member in (*descendants(pid), pid):
                signals.send(member, signal.SIGKILL)
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
        time.sleep(0.01)  # s between looks
