"""A file that the user has named, written in one move: who reads it meanwhile has the old one whole, or the new one."""

import os
import stat
from collections.abc import Callable
from pathlib import Path


def put(file: str, data: bytes) -> str:
    """Write the file; return why not, nothing where that went well.

    A device or a pipe is written into, and so is a file in a folder where no other can be made. Behind a link of
    this user's or root's the link stays; anybody else's is replaced.
    """
    named = Path(file)
    about, itself = _about(named.stat), _about(named.lstat)
    if about is not None and not stat.S_ISREG(about.st_mode):
        return write(file, data, os.O_TRUNC, 0o666)
    if itself is not None and itself.st_uid in {0, os.geteuid()}:
        named = named.resolve()
    draft = named.with_name(f".{named.name}.{os.getpid()}")
    why = write(str(draft), data, os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        if not why and about is not None:
            draft.chmod(stat.S_IMODE(about.st_mode))
        if not why:
            draft.replace(named)
            return ""
        draft.unlink(missing_ok=True)
    except OSError as error:
        why = f"`{file}` was not written ({error.strerror or error})"
    if about is not None and not os.access(named.parent, os.W_OK):
        return write(str(named), data, os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    return why.replace(str(draft), file)


def _about(look: Callable[[], os.stat_result]) -> os.stat_result | None:
    try:
        return look()
    except OSError:  # it is not there
        return None


def write(file: str, data: bytes, flags: int, mode: int) -> str:
    """Write bytes into a file, which is made where it is not there; return why that was not possible."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flags, mode)
        try:
            whole(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"`{file}` was not written ({error.strerror or error})"
    return ""


def whole(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the system takes at a time."""
    while data:
        data = data[os.write(descriptor, data) :]


def unfit(file: str) -> str:
    """Return why a name cannot be that of a file to be written; nothing where it can."""
    parent = os.path.dirname(file) or "."  # noqa: PTH120 - `Path("a/")` is `Path("a")`
    if Path(file).is_dir():
        return "is a folder"
    return "" if Path(parent).is_dir() else f"lies in `{parent}`, which does not exist"
