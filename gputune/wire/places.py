"""Where an agent has its things: a folder for what it records, a folder for its sockets, and the lock of both."""

import fcntl
import os
import socket as socket_module
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.wire.address import LONGEST_SOCKET

SOCKET, INSIDE, LOCK = "agent.sock", "door.sock", "lock"
LONGEST_BASE = LONGEST_SOCKET - len("/gputune/hosts-4194304/9999.sock")  # B, so that every socket of ours fits below it


class Runs(GputuneError):  # noqa: N818 - named for what happened
    """An agent has that folder already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"an agent of yours runs here already, with its folder `{folder}`",
            hint="another one needs a folder and a socket of its own: `--state DIR --socket FILE`",
        )


def host() -> str:
    """Return what this machine calls itself, fit for a file's name."""
    name = clean(os.uname().nodename, 64)
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name) or "here"


def state() -> Path:
    """Return the folder for what an agent records, by host: homes are shared by nodes."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        above = Path(base) if base.startswith("/") else Path("~/.local/state").expanduser()
    except RuntimeError:  # no home
        above = Path(tempfile.gettempdir()) / f"gputune-{os.getuid()}"
    return above / "gputune" / "agent" / host()


def sockets() -> Path:
    """Return the folder for sockets: of this user, of this machine, and gone at its next start."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and len(os.fsencode(base)) <= LONGEST_BASE and os.access(base, os.W_OK):
        return Path(base) / "gputune"
    return Path("/tmp") / f"gputune-{os.getuid()}"  # noqa: S108 - made private, and looked at, by `private`


def socket() -> Path:
    """Return where a screen on this machine looks for its agent."""
    return sockets() / SOCKET


def private(folder: Path) -> Path:
    """Make a folder that is this user's alone, if need be, and return it. Raises BadUsage where it is not so."""
    try:
        if not folder.parent.exists():
            private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError as error:
        raise BadUsage(f"`{folder}` cannot be made: {error.strerror}", hint="name another folder") from None
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise BadUsage(f"`{folder}` is not a folder of yours alone", hint=f"chmod 700 {folder}, or name another one")
    return folder


def checked(path: Path) -> Path:
    """Return the absolute path of a socket to be. Raises BadUsage where it is too long, or something else is there."""
    path = path.absolute()
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        says = f"`{clean(str(path))}` is too long for a Unix socket: at most {LONGEST_SOCKET} bytes"
        raise BadUsage(says, hint="`--socket /tmp/NAME/agent.sock`")
    if path.exists() and not path.is_socket():
        raise BadUsage(f"`{clean(str(path))}` is there, and is no socket", hint="name another file with `--socket`")
    return path


def free(path: Path) -> Path:
    """Return the path of a socket to be, its folder made. What an agent has left there is no hindrance, who runs is.

    Raises BadUsage or Runs.
    """
    path = checked(path)
    private(path.parent)
    with socket_module.socket(socket_module.AF_UNIX, socket_module.SOCK_STREAM) as ours:
        try:
            ours.connect(str(path))
        except OSError:
            return path
    raise Runs(path.parent)


def leave(path: Path) -> None:
    """Remove a socket, and the folder that was made for it, where nothing else lies in it."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def lock(folder: Path) -> int:
    """Lock an agent's folder for as long as the descriptor is open. Raises Runs."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Runs(folder) from None
    except OSError:  # a file system that knows no locks
        return descriptor
    return descriptor
