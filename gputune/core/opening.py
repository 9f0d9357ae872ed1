"""Files of a folder that somebody else may have written, read so that they can neither hold up nor fill their reader.

A run folder is handed on: by a colleague, in an archive, with an issue. So nothing in it is reached through a link
(which may lead to a device without end), nothing is waited for (a FIFO), and nothing is read beyond a bound. Whatever
is read of a run folder comes through here; what is wrong with it is an OSError, which its reader puts in its own words.
"""

import errno
import os
import pwd
import stat
from pathlib import Path
from typing import TypeVar

FILE_B = 64 << 20  # B of a file: a segment has 8 MiB of frames, and run.json at its worst 20
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
T = TypeVar("T")


def opened(file: "str | Path", folder: int | None = None) -> int:
    """Return a descriptor of a regular file, by its path, or by its name in the `folder` of that descriptor."""
    descriptor = os.open(file, FLAGS, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no file", str(file))


def content(descriptor: int, start: int = 0, most: int = FILE_B) -> bytes:
    """Return what a file holds from byte `start` on, and close it. OSError where that is more than `most` bytes."""
    with open(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size - start > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
        file.seek(start)
        return file.read(most)


def read(file: Path, most: int = FILE_B) -> bytes:
    """Return a file whole. Raises OSError, also where it is a link, no file, or larger than `most` bytes."""
    return content(opened(file), most=most)


def document(file: Path, kind: type[T]) -> T:
    """Return what a file of JSON says. Raises OSError, and msgspec.DecodeError where it says something else."""
    import msgspec  # noqa: PLC0415 - a recorder that only writes has no need of it

    try:
        return msgspec.json.decode(read(file), type=kind)
    except RecursionError:
        raise msgspec.DecodeError("it is nested without end") from None


def given(folder: Path) -> Path:
    """Return the run folder that somebody has named: a link to one is one, while links inside of it lead nowhere."""
    try:
        return folder.resolve() if folder.is_symlink() else folder
    except OSError:  # somebody else's, who hides it: whoever reads it says so
        return folder


def is_there(file: Path) -> bool:
    """Return whether a file is there that can be seen: what somebody else hides is not."""
    try:
        return file.is_file()
    except OSError:
        return False


def is_mine(path: "str | Path") -> bool:
    """Return whether something is there, and this user's: a link is whoever's made it."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def whose(path: Path) -> str:
    """Return the owner of what lies there, or of what hides it; nothing where that is this user."""
    for each in (path, *path.absolute().parents):
        try:
            uid = each.stat().st_uid
        except OSError:
            continue
        return "" if uid == os.geteuid() else name_of(uid)
    return ""


def name_of(uid: int) -> str:
    """Return what a user is called."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
