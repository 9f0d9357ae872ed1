"""The file that a guest writes and the recorder reads: docs/ring.md has its layout.

Writing a record (here.py) is taking a number, atomic under the GIL, and packing into a shared mapping: no lock, no
system call, and what was written survives a kill. Everything here swallows its own errors, counts them in the
header, and turns the guest off after too many.
"""

import _thread
import contextlib
import json
import os
import struct
import sys
import time

from gputune_guest import spare, wrapping
from gputune_guest.here import Here

now = time.monotonic_ns

MAGIC = b"GPUTUNE1"
VERSION = 1
NOTES_AT = 4096
# Capacity in records and size of the notes. A training of thousands of steps a second writes a record in 0.1 ms, and
# where others use the CPUs its reader may get none for a second; a worker writes one a batch, and there may be many.
SIZES = {"main": (16384, 61440), "worker": (1024, 4096)}
IS_WORKER, HAS_TORCH = 1, 2
TOO_MANY = 100  # swallowed errors after which staying would be rude
SHORT = 5_000  # ns; spans of calls that may come by the thousand are not worth a record below this

_pack_long = struct.Struct("<q").pack_into
_HEADER = struct.Struct("<8sIIIIIIiiqII")

here = Here()
_notes = 0  # bytes of notes written
_room = 0
_dead = False  # no ring could be made, or the guest stepped back
at_rest = False  # the run is over, and the process goes on
_errors = 0
_role = "main"
untrained = True  # no optimizer has made a step since the ring was begun
_lock = _thread.allocate_lock()
_first = []  # notes that each new ring begins with: functions that return one
_farewells = []  # called when the guest steps back
_rests = []  # called when the run is over, and the process goes on


def record(kind, code, t0, t1, a=0, b=0, d=0, e=0, c=0):  # noqa: PLR0913, PLR0917 - the fields of a record
    """Append one record. Never raises."""
    if here.burst is not None:
        end_burst()
    try:
        here.put(kind, code, t0, t1, a, b, d, e, c)
    except Exception as error:
        again(error, kind, code, t0, t1, a, b, d, e, c)


here.writer = record


def end_burst():
    """Write the burst that is open, if it was long enough: whatever is written next came after it."""
    burst, here.burst = here.burst, None
    if burst is not None and burst.took >= SHORT:
        record(*burst.fields())


def again(error, *fields):
    """Write a record that could not be written: the ring has yet to be made, or `error` is one of ours."""
    try:
        if not isinstance(error, StopIteration):
            failed(error)
        elif _opened() is not None:
            here.put(*fields)
    except Exception as another:
        failed(another)


def mark(kind, code, t0):
    """Say what this process is about to do, so that a process that never returns from it is seen to be in it."""
    try:
        if here.buffer is not None or _opened() is not None:
            here.mark(kind, code, t0)
    except Exception as error:
        failed(error)


def since(t0):
    """Say that an evaluation phase is open since `t0`, or that none is (0)."""
    _put(104, t0)


def end():
    """Say that this process ends by itself."""
    try:
        end_burst()
        here.flush()
    except Exception as error:
        failed(error)
    _put(96, now())


def _put_flags(flags):
    struct.pack_into("<I", here.buffer, 52, flags)


def _put(at, value):
    if here.buffer is not None:
        try:
            _pack_long(here.buffer, at, value)
        except Exception as error:
            failed(error)


def note(**fields):
    """Append a line of JSON: what is said once. Dropped when the notes are full."""
    global _notes
    try:
        if here.buffer is None and _opened() is None:
            return
        line = (json.dumps(fields, default=str) + "\n").encode("utf-8", "replace")
        with _lock:
            if _notes + len(line) <= _room:
                at = NOTES_AT + _notes
                here.buffer[at : at + len(line)] = line
                _notes += len(line)
                _pack_long(here.buffer, 56, _notes)
    except Exception as error:
        failed(error)


def begin(make):
    """Make the ring now. `make()`, the fields of a note, is said first in it, and in the ring of every forked child."""
    _first.append(make)
    _opened()


def become_worker():
    """Turn this process into a DataLoader worker: from here on, before its first record."""
    global _role
    _role = "worker"
    if here.buffer is not None:  # a spawned worker made one when it imported torch
        _put_flags(HAS_TORCH | IS_WORKER)


def is_worker():
    """Return whether this process is a DataLoader worker."""
    return _role == "worker"


def at_farewell(restore):
    """Call `restore()` when the guest steps back."""
    _farewells.append(restore)


def at_rest_too(stop):
    """Call `stop()` when the run is over and this process goes on."""
    _rests.append(stop)


def failed(error):
    """Count an error of ours; after too many of them take everything back."""
    global _errors
    _errors += 1
    _put(80, _errors)
    if _errors <= 3:  # errors that are told in words
        note(n="error", what="%s: %s" % (type(error).__name__, str(error)[:300]), where=_where(error))
    if _errors == TOO_MANY:
        step_back("%d errors, the last one %s: %s" % (_errors, type(error).__name__, error))


def _where(error):
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else "%s:%d" % (os.path.basename(trace.tb_frame.f_code.co_filename), trace.tb_lineno)


def step_back(why):
    """Take all patches back and say so; the process goes on as if we had never been here."""
    global _dead
    for restore in _farewells:
        with contextlib.suppress(Exception):
            restore()
    note(n="off", why=why[:500])
    _dead = True
    here.close()


def _opened():
    """Return the mapping, making the ring if it is the first time here; None when there can be none."""
    global _dead
    if _dead:
        return None
    with _lock:
        if here.buffer is not None:
            return here.buffer
        try:
            made, base, capacity = _make()
            here.begin(made, base, capacity)
        except Exception as error:  # read-only folder, full disk, no such folder any more: no ring then
            _dead = True
            with contextlib.suppress(Exception):
                spare.give_up(os.environ["GPUTUNE_RINGS"], _role, error)
            return None
    for make in _first:
        fields = make()
        if fields:
            note(**fields)
    return made


def _make():
    """Make the file, map it, and return (mapping, offset of the ring, its capacity)."""
    global _notes, _room
    capacity, room = SIZES[_role]
    if _role == "main" and os.environ.get("GPUTUNE_STEER"):
        room *= 8  # times the notes of a training that may be told many things, and answers each
    base = NOTES_AT + room
    size = base + capacity * 64
    created = now()
    pid = os.getpid()
    made = spare.place(lambda path: _mapped(path, size), os.environ["GPUTUNE_RINGS"], "%d-%d.ring" % (pid, created))
    flags = HAS_TORCH | (IS_WORKER if _role == "worker" else 0)
    header = (VERSION, capacity, NOTES_AT, room, base, 64, pid, os.getppid(), created, sys.hexversion, flags)
    _HEADER.pack_into(made, 0, b"", *header)
    made[0:8] = MAGIC  # last: a reader takes a file without it for one that is being made
    _notes, _room = 0, room
    return made, base, capacity


def _mapped(path, size):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)  # a full disk is an error here, and never a SIGBUS later
        return here.map(fd, size)
    except Exception:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def _forked():
    """In a forked child: the parent's ring is the parent's."""
    global _lock, _role, _dead, untrained, at_rest
    _dead, at_rest = _errors >= TOO_MANY, False
    here.__init__()
    here.writer = record
    _role = "main"
    untrained = True
    _lock = _thread.allocate_lock()


def anew():
    """End this ring and go on in another one, in the folder that `GPUTUNE_RINGS` names now: another run begins here."""
    end()
    wrapping.anew()  # `_forked` is the first of these
    _opened()


def rest():
    """Write nothing more until `anew`: the run is over, and this process goes on."""
    global _dead, at_rest
    for stop in _rests:
        with contextlib.suppress(Exception):
            stop()
    end()
    here.close()
    _dead = at_rest = True


wrapping.fail_with(failed)
wrapping.after_fork(_forked)
