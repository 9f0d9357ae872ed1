"""The recorder beside this process: it begins within some 20 ms, and leaves with a verdict when it is asked to.

It is no child of ours: it would be a part of what it measures, and a script that waits for its children would wait for
it. When this process ends without a word it finishes the recording by itself, and says nothing.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import time

from gputune.core.isolation import own_python
from gputune.inside.around import cell, launched
from gputune.launch import folders
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.watching import beside, starting

CODE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
pid = os.fork()
if pid:
    os.write(1, b"%d" % pid)
    os._exit(0)
os.dup2(0, 1)
from gputune.watching.beside import join
join()
"""
CHANGED = ("PYTHONPATH", "GPUTUNE_RINGS", "GPUTUNE_HOST_PID")  # variables that the guest sets for our children


class Joined:
    """A recording of this process that goes on. `folder` is "" where none could be made."""

    def __init__(self, wishes: WatchOptions) -> None:
        """Begin. Raises BadUsage where the wishes cannot be met, OSError where no recorder can be started."""
        started = time.monotonic_ns()
        self._environment = {name: os.environ.get(name) for name in CHANGED}
        troubles: list[str] = []
        wishes.pid = os.getpid()
        wishes.command = _named()  # as the folder is called
        folder, job = starting.seat(wishes, troubles, launched())
        # the recorder reads a command itself: in its own arguments it would be seen twice
        wishes.command = _cell(wishes.command) if folders.is_kernel(_command()) else ()
        self.folder = job or folder
        self.own = folder  # of this rank, where a job has several
        self._rings = folders.rings_or_trouble(troubles)
        run = WatchedRun(wishes, folder=folder, rings=self._rings, troubles=troubles, job=job)
        try:
            self._recorder, self._words = _begun(json.dumps({"run": run.plain(), "started": started}))
            self._process = _held(self._recorder)
        except OSError:
            self._forget()
            raise
        self._late = beside.late()
        if self._rings:
            self._late.begin(self._rings, self._recorder)
            self._late.tell_cells()

    def leave(self) -> str | None:
        """Have the recorder leave, and return what it says; None where it has no verdict in time, or was lost."""
        try:
            self._late.tell_cells()
            self._late.leave()
            _send(self._recorder, self._process)
            # 30.0 s that a recorder gets to say what it has found; other ranks of its job may keep it for 15
            said = _read(self._words, time.monotonic() + 30.0)
        finally:
            self._restore()
            self._close()
        if said is None or not (said or self._has_verdict()):
            return None
        return said.decode("utf-8", "replace")

    def _has_verdict(self) -> bool:
        """Return whether one was kept: of a job's ranks one alone has words for it."""
        return bool(self.own) and os.path.exists(f"{self.own}/findings.json")  # noqa: PTH110 - as in `_forget`

    def drop(self) -> None:
        """Let go of it in a forked child, where it is the parent's."""
        self._close()

    def _close(self) -> None:
        for descriptor in (self._words, self._process):
            if descriptor >= 0:
                os.close(descriptor)
        self._words = self._process = -1

    def _restore(self) -> None:
        """Give the variables back that were changed, unless somebody else has changed them since."""
        ours = {"GPUTUNE_RINGS": self._rings, "GPUTUNE_HOST_PID": str(self._recorder)}
        for name, before in self._environment.items():
            now = os.environ.get(name)
            if now is not None and now != ours.get(name) and not now.startswith(folders.guest()):
                continue
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before

    def _forget(self) -> None:
        """Remove what was made for a recorder that cannot be started."""
        if self._rings:
            folders.remove_rings(self._rings)
        with contextlib.suppress(OSError):
            os.rmdir(self.own)  # noqa: PTH106 - no pathlib in a process of the user's


def _named() -> tuple[str, ...]:
    """Return the words by which the run's folder is called: those of the command, or the notebook's name."""
    command = _command()
    if not folders.is_kernel(command):
        return command
    notebook = os.path.basename(os.environ.get("JPY_SESSION_NAME", ""))  # noqa: PTH119 - as above
    return (notebook.removesuffix(".ipynb") or "notebook",)


def _command() -> tuple[str, ...]:
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - no pathlib in a process of the user's
        return tuple(os.fsdecode(word) for word in file.read().rstrip(b"\0").split(b"\0"))


def _cell(named: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a verdict is headed with: a kernel's own command line says nothing to its reader."""
    number = cell()
    return (folders.KERNEL, *named, *([] if number is None else [f"In[{number}]"]))


def _begun(asked: str) -> tuple[int, int]:
    """Start a recorder; return its pid, and the descriptor from which its words can be read."""
    reading, writing = os.pipe()
    try:
        with subprocess.Popen(
            [*own_python(CODE, theirs=True), asked],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writing,
            start_new_session=True,
        ) as between:
            said = between.stdout.read() if between.stdout is not None else b""
        if not said.isdigit():
            raise ChildProcessError(0, "its Python ended at once")
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return int(said), reading


def _held(pid: int) -> int:
    """Return a descriptor of a process, -1 on a kernel before 5.3 or where it has ended."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def _send(pid: int, process: int) -> None:
    """Ask the recorder to leave; nothing where it has gone."""
    with contextlib.suppress(OSError):
        if process >= 0:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGTERM)


def _read(descriptor: int, until: float) -> bytes | None:
    """Return what is said until its writer ends; None where it does not in time."""
    said = b""
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 1 << 16)  # B at a time
        if not piece:
            return said
        said += piece
    return None
