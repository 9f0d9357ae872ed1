"""What a trial could not keep apart, as far as Python tells of it: programs that it started, databases, large files.

A line of JSON for each, `{"kind": …, "name": …}`, in `FOLDER/RUN.astray`: the host says it (`gputune/sweep/apart.py`).
Of a program only its name is told, for its arguments may hold secrets. Python's audit events tell of what is opened by
ways that `write_sandbox.py` does not stand in; a library that opens a file in C tells nobody.
"""

import contextlib
import json
import os

from gputune_guest import wrapping
from gputune_guest.overlay import SYSTEM

PROGRAM = "program"
DATABASE = "database"
LARGE = "large"
OPENED = "opened"
INSIDE = "inside"  # a folder of the trial's that was gone into: only Python finds the user's files from there
WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ALONE = {"-I", "-E", "-S"}  # options of a Python that does not let the guest in

_over = None
_left = set()


def begin(over):
    """Listen to Python's audit events, from here on to the end of the process: they cannot be let go of again."""
    global _over
    if _over is None:
        _over = over
        wrapping.listen(_heard)


def leave(kind, name):
    """Leave word of one thing, once."""
    if (kind, name) in _left or len(_left) >= 40:  # things that one process tells of
        return
    _left.add((kind, name))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = SYSTEM["open"](_over.root + ".astray", flags, 0o600)
    try:
        os.write(file, json.dumps({"kind": kind, "name": name}).encode() + b"\n")
    finally:
        os.close(file)


def _heard(event, args):
    hear = _HEARD.get(event)
    if hear is not None:
        with contextlib.suppress(Exception):  # names of files that are none
            hear(*args)


def _opened(path, mode, flags):
    if not flags & WRITE or flags & os.O_DIRECTORY or isinstance(path, int):
        return
    path = os.fsdecode(path)
    if mode is None and not os.path.isabs(path):  # of `os.open`: it may lie in a folder that is not told here
        return
    path = os.path.abspath(path)
    if (LARGE, path) not in _left and _over.theirs(path):
        leave(OPENED, path)


def _database(name):
    name = os.fsdecode(name)
    at = os.path.abspath(name)
    if name and not name.startswith((":memory:", "file:")) and _over.theirs(at):
        leave(DATABASE, at)


def _started(executable, args, _cwd=None, env=None):
    name = os.path.basename(os.fsdecode(executable))
    words = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
    lone = any(os.fsdecode(word) in ALONE for word in words)
    if name.startswith("python") and not lone and (env is None or "GPUTUNE_TRIAL" in env):
        return  # the guest is in there as well
    leave(PROGRAM, name)


def _ran(path, args, env=None):
    _started(path, args, None, env)


_HEARD = {
    "open": _opened,
    "sqlite3.connect": _database,
    "subprocess.Popen": _started,
    "os.exec": _ran,
    "os.posix_spawn": _ran,
    "os.system": lambda _command: leave(PROGRAM, "sh"),
}
