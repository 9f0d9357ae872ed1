"""Landlock: a process, and all that it starts, may change files in some places and nowhere else. Linux 5.19 or later.

Three system calls, for which libc has no names (landlock(7)). What may be read and executed stays as it is; who is
restricted cannot mount, nor gain privileges by a set-uid program, nor be released again. Permissions, owners and times
of files (`chmod`, `utime`) are not restricted by the kernel, nor is what was opened before.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gputune.core.prctl import Option, prctl

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on all that Linux runs on, but for Alpha
VERSION = 1  # flag of the first: it returns the ABI's version
PATH_BENEATH = 1
LEAST_ABI = 2  # before it, whoever is restricted cannot move a file from one folder to another anywhere
TRUNCATE_ABI = 3
WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
CHANGES = WRITE_FILE | REFER | sum(1 << bit for bit in range(4, 13))  # these nine: remove and make names of any kind
OF_FILES = WRITE_FILE | TRUNCATE
WHY = {
    errno.ENOSYS: "this kernel has no Landlock (Linux 5.19 has)",
    errno.EOPNOTSUPP: "Landlock is off in this kernel (`lsm=` of its command line)",
    errno.EPERM: "Landlock is forbidden here, as by a container's filter of system calls",
}

T = TypeVar("T")


class _Attributes(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def missing() -> str:
    """Return in words why nothing can be restricted here, "" where it can: a thread that ends at once has tried it."""
    try:
        within(["/"], lambda: None)
    except OSError as error:
        return WHY.get(error.errno or 0, f"Landlock fails here ({error.strerror})")
    return ""


def within(places: Iterable[str], start: Callable[[], T]) -> T:
    """Call `start` in a thread of its own that changes files in these places only, as does all that it starts.

    A place is a file or a folder with all in it; one that is not there is left out. Raises OSError where Landlock is
    missing, and what `start` raises.
    """

    def restricted() -> T:
        _restrict(places)
        return start()

    with ThreadPoolExecutor(1, thread_name_prefix="gputune-landlock") as thread:
        return thread.submit(restricted).result()


def _restrict(places: Iterable[str]) -> None:
    """Restrict the thread that calls this, for good. Raises OSError."""
    abi = _call(CREATE_RULESET, None, 0, VERSION)
    if abi < LEAST_ABI:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    changes = CHANGES | (TRUNCATE if abi >= TRUNCATE_ABI else 0)
    attributes = _Attributes(changes)
    rules = _call(CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        for place in places:
            _allow(rules, place, changes)
        if not prctl(Option.NO_NEW_PRIVS, 1):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        _call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, place: str, changes: int) -> None:
    try:
        parent = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it is gone by now, or was never there
        return
    try:
        allowed = changes if stat.S_ISDIR(os.fstat(parent).st_mode) else changes & OF_FILES
        _call(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(_Beneath(allowed, parent)), 0)
    finally:
        os.close(parent)


def _call(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    found = libc.syscall(ctypes.c_long(number), *words)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)
