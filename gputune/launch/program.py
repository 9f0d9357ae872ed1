"""Starting the command as a shell starts it: found in PATH, with its own signals, and with a shell's two refusals."""

import errno
import os
import signal
from collections.abc import Callable

NOT_FOUND = 127  # POSIX shell, "Exit Status for Commands"
NOT_EXECUTABLE = 126
OURS = 125  # neither the command's nor a shell's: gputune itself could not start it (as env, nice and timeout say)

# Python ignores these for itself at its start; a command expects them as they are by default.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class NotStarted(Exception):  # noqa: N818 - it is the shell's word for it
    """The command was not started. `status` is what a shell would leave with."""

    def __init__(self, status: int, says: str, hint: str) -> None:
        super().__init__(f"error: {says}\n\nhint: {hint}\n")
        self.status = status


def start(argv: "tuple[str, ...]", env: "dict[str, str]", mask: "set[int | signal.Signals]") -> int:
    """Start the command with signal mask `mask` and return its pid; raise NotStarted when that is not possible."""
    path = find(argv[0], env.get("PATH", os.defpath))
    try:
        return _spawn(path, argv, env, mask)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _refusal(argv[0], path, error) from None
    try:  # a script without a first line that names its interpreter: a shell's to run
        return _spawn("/bin/sh", ("sh", path, *argv[1:]), env, mask)
    except OSError as error:
        raise _refusal(argv[0], path, error) from None


def start_prepared(
    argv: "tuple[str, ...]", env: "dict[str, str]", mask: "set[int | signal.Signals]", prepare: "Callable[[], None]"
) -> int:
    """As `start`, and the new process calls `prepare` before it becomes the command: a fork, of one without threads."""
    path = os.path.abspath(find(argv[0], env.get("PATH", os.defpath)))
    reads, writes = os.pipe()  # closed by the kernel when the command has begun
    pid = os.fork()
    if not pid:
        _become(path, argv, env, mask, prepare, writes)
    os.close(writes)
    failed = os.read(reads, 16)
    os.close(reads)
    if not failed:
        return pid
    os.waitpid(pid, 0)
    raise _refusal(argv[0], path, OSError(int(failed), ""))


def _become(  # noqa: PLR0913, PLR0917 - handed through
    path: str,
    argv: "tuple[str, ...]",
    env: "dict[str, str]",
    mask: "set[int | signal.Signals]",
    prepare: "Callable[[], None]",
    writes: int,
) -> None:
    """Become the command, or write into the pipe why not. Does not return."""
    try:
        prepare()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _execute(path, argv, env)
    except OSError as error:
        os.write(writes, str(error.errno or 0).encode())
    finally:
        os._exit(OURS)


def become(argv: "tuple[str, ...]", env: "dict[str, str]") -> None:
    """Become the command, in this process; raise NotStarted when that is not possible."""
    path = find(argv[0], env.get("PATH", os.defpath))
    try:
        _execute(path, argv, env)
    except OSError as error:
        raise _refusal(argv[0], path, error) from None


def _execute(path: str, argv: "tuple[str, ...]", env: "dict[str, str]") -> None:
    """Put the command in the place of this process, its signals as it expects them. Raises OSError."""
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, argv, env)  # noqa: S606 - it is what was asked for
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    os.execve("/bin/sh", ("sh", path, *argv[1:]), env)  # noqa: S606 - as above


def _spawn(path: str, argv: "tuple[str, ...]", env: "dict[str, str]", mask: "set[int | signal.Signals]") -> int:
    return os.posix_spawn(path, argv, env, setsigmask=mask, setsigdef=IGNORED_BY_PYTHON)


def find(name: str, path: str) -> str:
    """Return the file to execute: `name` itself if it has a slash, else the first executable in `path`.

    Raises NotStarted.
    """
    places = [name] if "/" in name else [os.path.join(folder or ".", name) for folder in path.split(":")]
    if not name:
        places = []
    met = [place for place in places if os.path.exists(place)]
    for place in met:
        if not os.path.isdir(place) and os.access(place, os.X_OK):
            return place
    if "/" not in name:
        met = [place for place in met if not os.path.isdir(place)]
    if met and os.path.isdir(met[0]):
        raise NotStarted(NOT_EXECUTABLE, f"{_quoted(name)} is a folder", "name the program in it that is to be run")
    if met:
        hint = f"call it as `python {_plain(name)}`" if name.endswith(".py") else f"try `chmod +x {_plain(met[0])}`"
        raise NotStarted(NOT_EXECUTABLE, f"{_quoted(name)} is not executable", hint)
    if name.endswith(".py") and os.path.exists(name):
        raise NotStarted(NOT_FOUND, f"{_quoted(name)} is no command", f"call it as `python {_plain(name)}`")
    where = "does not exist" if "/" in name else "was not found in PATH"
    raise NotStarted(NOT_FOUND, f"{_quoted(name)} {where}", "check the spelling, or give the path of the program")


def _refusal(name: str, path: str, error: OSError) -> NotStarted:
    why = os.strerror(error.errno or 0)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:  # the file is there: what its first line names is not
        hint = f"look at the first line of `{_plain(path)}`"
        return NotStarted(NOT_EXECUTABLE, f"the interpreter of {_quoted(name)} does not exist", hint)
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ETXTBSY, errno.ELOOP}:
        return NotStarted(NOT_EXECUTABLE, f"{_quoted(name)} cannot be executed: {why}", "check the file and its rights")
    return NotStarted(OURS, f"{_quoted(name)} could not be started: {why}", "try again without gputune to compare")


def _quoted(text: str) -> str:
    return f"`{_plain(text)}`"


def _plain(text: str) -> str:
    from gputune.core.hygiene import clean  # noqa: PLC0415 - the supervisor carries it only when it has something to say

    return clean(text, 200)
