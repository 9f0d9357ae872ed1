"""A trial writes nothing of the user's: what it would write lies in the trial's own folder instead.

`GPUTUNE_TRIAL` holds `"writes": "/…/folder"`. Files that Python opens for writing, folders that it makes, and what it
removes and renames are the business of `overlay.py`; files that torch and safetensors write and read in C++ are that of
`natives.py`. What other libraries write in C or Rust, and what other programs write, is not kept apart: the system
refuses it where the host could ask it to, in all but `"places"` (docs/trials.md). What of it is seen (`escapes.py`) is
left in a file beside the trial's folder, for the host to say.

It begins with the interpreter, for a script may open its log before it imports torch. The first change of each file is
told in a note `hushed` once there is a ring: a process without torch has none.

Over 300 lines because each way to a file that Python has must lead to the same place.
"""

import _io
import builtins
import errno
import importlib
import io
import json
import os
import stat

from gputune_guest import escapes, hook, natives, ring, spare, wrapping
from gputune_guest.overlay import SYSTEM, Overlay, TooLarge, copy, made

WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LEFT_ALONE = os.O_DIRECTORY  # O_TMPFILE as well: what has no name is no result
OPENED = io.open
# services that would be told of a training that is none
SILENT = {"WANDB_MODE": "disabled", "NEPTUNE_MODE": "debug", "CLEARML_OFFLINE_MODE": "1"}

_over = None  # the Overlay, from the beginning on
_told = set()
_waiting = []  # notes of the time before there is a ring
_ready = False


def begin(finder):
    """Stand between this process and the user's files, if it is a trial that asks for it; sitecustomize calls this."""
    global _over
    asked = json.loads(os.environ["GPUTUNE_TRIAL"])
    folder = asked.get("writes")
    if not folder or _over is not None:
        return
    rings = os.environ["GPUTUNE_RINGS"]
    free = [one for one in (rings, asked.get("files"), *spare.folders(rings)) if one]
    _over = Overlay(folder, os.path.basename(os.path.abspath(rings)), free, asked.get("places"))
    os.environ.update(SILENT, MLFLOW_TRACKING_URI="file://" + os.path.join(_over.root, "mlruns"))
    builtins.open = io.open = _Stand("io", "open", OPENED, _open)
    for name, ours in _FUNCTIONS.items():
        if name in SYSTEM:
            setattr(os, name, _Stand("os", name, SYSTEM[name], ours))
    io.FileIO = FileIO
    hook.when_there(finder, "shutil", _shutil)
    natives.begin(finder, _placed)
    escapes.begin(_over)
    made(_over.root)  # there even where nothing is written: the host sees that we are here


class _Stand(wrapping.Stand):
    """Stands for a function of the system, which is pickled by its name."""

    def __init__(self, module, name, original, ours):
        super().__init__(original, wrapping.instead(original, ours, to_the_end=True))
        self._place = (module, name)

    def __reduce__(self):
        return _found, self._place


def _found(module, name):
    """Return what stands there in the process that unpickles it."""
    return getattr(importlib.import_module(module), name)


def say(what, path):
    """Tell once that a file of the user's was left as it is."""
    if path in _told or len(_told) >= 40:  # files that one process tells of
        return
    _told.add(path)
    note = {"n": "hushed", "what": what, "path": path}
    if _ready:
        ring.note(**note)
    else:
        _waiting.append(note)


def _flush(_module):
    global _ready
    _ready = True
    if "writes" in json.loads(os.environ["GPUTUNE_TRIAL"]):
        ring.note(n="hush", on=_over is not None)
    while _waiting:
        ring.note(**_waiting.pop(0))


# files


def _open(original, file, mode="r", *args, **kwargs):
    odd = not isinstance(mode, str) or len(set(mode) & set("rwxa")) != 1
    if isinstance(file, int) or odd or kwargs.get("opener") or len(args) > 5:
        return original(file, mode, *args, **kwargs)
    if not set(mode) & set("wax+"):
        return _read(original, file, None, mode, *args, **kwargs, _opens=True)
    at = _theirs(file, opens=True)
    if at is None:
        return original(file, mode, *args, **kwargs)
    place = _writable(at, "open", new="x" in mode, keep="w" not in mode, must="r" in mode, least="a" in mode)
    return original(file if place is None else place, mode, *args, **kwargs)


class _Kind(type):
    """What is an instance of the class that ours stands for is one of ours."""

    def __instancecheck__(cls, one):
        return isinstance(one, _io.FileIO) if cls is FileIO else type.__instancecheck__(cls, one)

    def __subclasscheck__(cls, one):
        return issubclass(one, _io.FileIO) if cls is FileIO else type.__subclasscheck__(cls, one)


class FileIO(_io.FileIO, metaclass=_Kind):
    """`io.FileIO` as a script finds it; what `open` returns is made of the one below."""

    __module__ = "io"

    def __init__(self, file, mode="r", closefd=True, opener=None):
        wrapping.instead(super().__init__, _open, to_the_end=True)(file, mode, closefd=closefd, opener=opener)


def _os_open(original, path, flags, mode=0o777, *, dir_fd=None):
    if not flags & WRITE or flags & LEFT_ALONE:
        return _read(original, path, dir_fd, flags, mode, _opens=not flags & os.O_NOFOLLOW)
    at = _theirs(path, dir_fd, opens=True)
    place = None
    if at is not None:
        new = bool(flags & os.O_CREAT and flags & os.O_EXCL)
        keep, must = not flags & os.O_TRUNC, not flags & os.O_CREAT
        place = _writable(at, "os.open", new=new, keep=keep, must=must, least=bool(flags & os.O_APPEND))
    if place is None:
        return original(path, flags, mode, dir_fd=dir_fd)
    if not flags & os.O_CREAT:  # the user's is there; where nothing of it is kept, nothing is over it yet
        flags, mode = (flags | os.O_CREAT) & ~os.O_EXCL, 0o600
    return original(place, flags, mode)


def _theirs(path, dir_fd=None, opens=False):
    """Return an absolute path that is the user's to write, or None; `opens`: not the link there, but what it names."""
    try:
        at = _over.absolute(path, dir_fd)
    except TypeError:  # theirs to be told of
        return None
    if opens:
        at = _over.followed_to_its_end(at)
    if at in _over.made or _over.theirs(at):
        return _over.straight(at)
    beyond = _over.beyond(at, opens)
    return None if beyond is None else _over.straight(beyond)


def _writable(at, what, new, keep, must, least):  # noqa: PLR0913, PLR0917 - what there is to know of an opening
    """Return where to write what is to be written at `at`; None: there, for it is too large to be copied."""
    there = _over.exists(at) or _over.found(at) is not None
    if there and new:
        raise _error(errno.EEXIST, at)
    if not there and must:
        raise _error(errno.ENOENT, at)
    if there and stat.S_ISDIR(SYSTEM["stat"](_over.real(at)).st_mode):
        raise _error(errno.EISDIR, at)
    try:
        place = _over.raised(at, keep, least)
    except TooLarge:
        escapes.leave(escapes.LARGE, at)
        say(what + ", which could not be kept out of a file so large", at)
        return None
    say(what, at)
    return place


def _error(number, path):
    return OSError(number, os.strerror(number), path)


def _read(original, path, dir_fd, *args, _opens=False, **kwargs):
    """Call a function that reads what is at `path`, wherever that lies now; `_opens`: of what a link there names."""
    if isinstance(path, int) or path is None:
        return original(path, *args, **kwargs)
    place = path
    if not _over.untouched:
        named = _over.named(path, dir_fd)
        at = _over.followed(_over.theirs_of(named))
        real = _over.real(_over.followed_to_its_end(at) if _opens else at)
        if real != named:  # it lies over the user's; or it is theirs, and the folder that it is named from does
            place, dir_fd = real, None
    if dir_fd is not None:
        kwargs["dir_fd"] = dir_fd
    try:
        return original(place, *args, **kwargs)
    except FileNotFoundError:
        found = _over.found(_over.absolute(place, dir_fd))
        if found is None:
            raise
    kwargs.pop("dir_fd", None)
    return original(found, *args, **kwargs)


def _looked(original, path=None, *args, dir_fd=None, **kwargs):
    return _read(original, path, dir_fd, *args, **kwargs)


def _stat(original, path, *, dir_fd=None, follow_symlinks=True):
    if not follow_symlinks:
        return _lstat(SYSTEM["lstat"], path, dir_fd=dir_fd)
    return _read(original, path, dir_fd, _opens=True)


def _lstat(original, path, *, dir_fd=None):
    renamed = bool(_over.renamed) and not isinstance(path, int) and _over.is_renamed(_over.absolute(path, dir_fd))
    return _read(SYSTEM["stat"] if renamed else original, path, dir_fd)


def _readlink(original, path, *, dir_fd=None):
    told = _over.named_by(_over.absolute(path, dir_fd)) if _over.links else None
    if told is None:
        return _looked(original, path, dir_fd=dir_fd)
    return os.fsencode(told) if isinstance(path, bytes) else told


def _chdir(original, path):
    _read(original, path, None)
    try:
        here = _over.named(".")
        at = _over.theirs_of(here)
        if at != here:
            escapes.leave(escapes.INSIDE, at)
    except OSError:  # they are there by now, and that nobody is told is no fault of theirs
        return


def _access(original, path, mode, *, dir_fd=None, **kwargs):
    try:
        _read(SYSTEM["stat"], path, dir_fd, _opens=True)
    except OSError:
        return False
    return _read(original, path, dir_fd, mode, _opens=True, **kwargs)


def _changed(what):
    """Return what stands for a function that changes what is known of a file, and not what is in it."""

    def ours(original, path, *args, dir_fd=None, **kwargs):
        at = None if isinstance(path, int) else _theirs(path, dir_fd)
        if at is not None and (at in _over.made or (not _over.exists(at) and _over.found(at))):
            return original(_over.over(at), *args, **kwargs)
        if at is not None and _over.exists(at):
            say(what, at)
            return None
        if dir_fd is not None:
            kwargs["dir_fd"] = dir_fd
        return original(path, *args, **kwargs)

    return ours


def _truncate(original, path, length):
    at = None if isinstance(path, int) else _theirs(path, opens=True)
    place = None if at is None else _writable(at, "os.truncate", new=False, keep=True, must=True, least=False)
    return original(path if place is None else place, length)


# names


def _known(path, dir_fd):
    """Return (absolute path of the user's or None, where it lies). Raises FileNotFoundError."""
    at = _theirs(path, dir_fd)
    if at is None:
        return None, path
    real = _over.real(at)
    if not _over.exists(at):
        real = _over.found(at)
        if real is None:
            raise _error(errno.ENOENT, at)
    return at, real


def _remove(original, path, *, dir_fd=None):
    at, real = _known(path, dir_fd)
    if at is None:
        return original(path, dir_fd=dir_fd)
    if stat.S_ISDIR(SYSTEM["lstat"](real).st_mode):
        raise _error(errno.EISDIR, at)
    say("os.remove", at)
    return _over.remove(at)


def _rmdir(original, path, *, dir_fd=None):
    at, real = _known(path, dir_fd)
    if at is None:
        return original(path, dir_fd=dir_fd)
    if not stat.S_ISDIR(SYSTEM["lstat"](real).st_mode):
        raise _error(errno.ENOTDIR, at)
    if any(_over.names(at)):
        raise _error(errno.ENOTEMPTY, at)
    say("os.rmdir", at)
    return _over.remove(at)


def _mkdir(original, path, mode=0o777, *, dir_fd=None):
    at = _theirs(path, dir_fd)
    if at is None:
        return original(path, mode, dir_fd=dir_fd)
    if _over.exists(at) or _over.found(at) is not None:
        raise _error(errno.EEXIST, at)
    original(_over.made_over(at), 0o700)
    say("os.mkdir", at)
    return None


def _mkfifo(original, path, *args, dir_fd=None, **kwargs):
    at = _theirs(path, dir_fd)
    if at is None:
        return original(path, *args, dir_fd=dir_fd, **kwargs)
    if _over.exists(at) or _over.found(at) is not None:
        raise _error(errno.EEXIST, at)
    say("os.mkfifo", at)
    return original(_over.made_over(at), *args, **kwargs)


def _rename(original, src, dst, *, src_dir_fd=None, dst_dir_fd=None):
    old, real = _known(src, src_dir_fd)
    new = _theirs(dst, dst_dir_fd)
    if old is None and new is None:
        return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
    if old is not None and new is not None:
        if old != new:
            say("os.rename", new)
            _over.rename(old, new)
        return None
    if new is not None:  # made where nobody's results lie
        source = _over.absolute(src, src_dir_fd)
        SYSTEM["lstat"](source)
        say("os.rename", new)
        return _moved(source, _over.replaced(new))
    say("os.rename", old)
    target = _over.absolute(dst, dst_dir_fd)
    if old in _over.made:
        _moved(real, target)
    else:
        copy(real, target)
    return _over.remove(old)


def _moved(source, target):
    try:
        SYSTEM["rename"](source, target)
    except OSError as error:
        if error.errno != errno.EXDEV or os.path.isdir(source):
            raise
        copy(source, target)
        SYSTEM["unlink"](source)


def _link(original, src, dst, *, src_dir_fd=None, dst_dir_fd=None, **kwargs):
    new = _theirs(dst, dst_dir_fd)
    at, real = _known(src, src_dir_fd)
    if new is None:
        if at is not None and at not in _over.made:  # under its second name it would be written as ever
            raise _error(errno.EXDEV, at)
        more = {} if at is not None else {"src_dir_fd": src_dir_fd}
        return original(real, dst, dst_dir_fd=dst_dir_fd, **more, **kwargs)
    if _over.exists(new):
        raise _error(errno.EEXIST, new)
    if stat.S_ISDIR(SYSTEM["stat"](real).st_mode):
        raise _error(errno.EPERM, new)
    say("os.link", new)
    return SYSTEM["symlink"](os.path.abspath(real), _over.made_over(new))


def _symlink(original, src, dst, target_is_directory=False, *, dir_fd=None):
    new = _theirs(dst, dir_fd)
    if new is None:
        return original(src, dst, target_is_directory, dir_fd=dir_fd)
    if _over.exists(new):
        raise _error(errno.EEXIST, new)
    say("os.symlink", new)
    target = _over.absolute(os.path.join(os.path.dirname(new), os.fsdecode(src)))
    there = _over.real(target) if _over.exists(target) else _over.over(target)  # not relative: it lies elsewhere
    over = _over.made_over(new)
    _over.links[new] = os.fsdecode(src)
    return original(there, over, target_is_directory)


# folders


def _as_it_seems(path):
    """Return whether a folder holds what the user has in it: no process of the trial has put anything over it."""
    return _over.untouched and not _over.put_by_others(_over.listed(_over.absolute(path)))


def _listdir(original, path="."):
    if isinstance(path, int) or path is None or _as_it_seems(path):
        return _read(original, "." if path is None else path, None)
    at = _over.listed(_over.absolute(path))
    theirs, over = _over.names(at)
    names = [*theirs, *over]
    return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names


def _scandir(original, path="."):
    if isinstance(path, int) or path is None or _as_it_seems(path):
        return _read(original, "." if path is None else path, None)
    named = _over.named(path)
    at = _over.listed(_over.theirs_of(named))
    theirs, over = _over.names(at)
    kind = os.fsencode if isinstance(path, bytes) else os.fsdecode
    if named != at:
        path = kind(at)
    entries = _entries(original, path, set(theirs)) if theirs else []
    return _Entries(entries + (_entries(original, kind(_over.over(at)), set(over)) if over else []))


def _entries(original, path, names):
    with original(path) as found:
        return [entry for entry in found if os.fsdecode(entry.name) in names]


class _Entries:
    """What `os.scandir` returns, of entries that are there already."""

    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        """Return no more."""
        self._entries = iter(())


def _rmtree(original, path, ignore_errors=False, *args, **kwargs):
    at = _theirs(path)
    if at is None:
        return original(path, ignore_errors, *args, **kwargs)
    if not _over.exists(at) and _over.found(at) is None:
        if ignore_errors:
            return None
        raise _error(errno.ENOENT, at)
    say("shutil.rmtree", at)
    return _over.remove(at)


def _shutil(module):
    module.rmtree = _Stand("shutil", "rmtree", module.rmtree, _rmtree)


# files of C++


def _placed(path, does, what):
    """Return where a path lies for one that opens it by itself; `does`: what it does there (`natives.py`)."""
    at = _theirs(path, opens=True)
    if at is None:
        return path
    if does == natives.READS:
        return _over.real(at) if _over.exists(at) else _over.found(at) or path
    if does == natives.FOLDER:
        say(what, at)
        return _over.folder(at)
    place = _writable(at, what, new=False, keep=does == natives.KEEPS, must=False, least=False)
    return path if place is None else place


_FUNCTIONS = {
    "open": _os_open,
    "stat": _stat,
    "lstat": _lstat,
    "readlink": _readlink,
    "chdir": _chdir,
    "statvfs": _looked,
    "pathconf": _looked,
    "listxattr": _looked,
    "getxattr": _looked,
    "access": _access,
    "listdir": _listdir,
    "scandir": _scandir,
    "mkdir": _mkdir,
    "mkfifo": _mkfifo,
    "mknod": _mkfifo,
    "rmdir": _rmdir,
    "remove": _remove,
    "unlink": _remove,
    "rename": _rename,
    "replace": _rename,
    "link": _link,
    "symlink": _symlink,
    "truncate": _truncate,
    **{name: _changed("os." + name) for name in ("chmod", "chown", "lchown", "utime", "setxattr", "removexattr")},
}
HOOKS = {"torch.utils.data.dataloader": _flush}
