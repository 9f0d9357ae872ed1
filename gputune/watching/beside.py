"""A training that runs in somebody else's process, joined there and recorded beside.

arrive   in a process that is joined: the guest, and where it writes
Host     an actor on each node with trials of Ray Tune: it starts their recorders, and tells what they have found
main     the recorder of a trial, a process of its own; it leaves when it is asked to, or with the trial's process
join     the recorder of a process that asked for one itself (`gputune/inside/`)

What a recorder needs is imported by these last two: the others run in processes of the user's.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gputune.core.isolation import own_python
from gputune.launch import family, folders
from gputune.launch.descriptors import say
from gputune.launch.link import Started
from gputune.launch.run import WatchedRun, WatchOptions, restored

CODE = "from gputune.watching.beside import main; main()"


def arrive(host: int = 0) -> tuple[int, str]:
    """Let the guest into this process; return its pid, and the folder of its rings ("": nobody can write there).

    Raises nothing: it runs in a process of the user's.
    """
    try:
        rings = folders.rings()
        if late().begin(rings, host):
            return os.getpid(), rings
        folders.remove_rings(rings)
    except Exception:  # noqa: BLE001 - the trial goes on without us
        return os.getpid(), ""
    return os.getpid(), ""


def late() -> Any:
    """Return the guest's way into a process that runs already. Raises ImportError where its file cannot be read."""
    spec = spec_from_file_location("gputune_late", str(Path(folders.guest(), "late.py")))
    if spec is None or spec.loader is None:
        raise ImportError("gputune_late")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RecorderActor:
    """The actor. A recording is a number, that `begin` gives."""

    def __init__(self) -> None:
        self._base = tempfile.TemporaryDirectory(prefix="gputune-tune-")
        self._recorders: dict[int, subprocess.Popen[bytes]] = {}

    def pid(self) -> int:
        """Return our own pid: recorders are below it."""
        return os.getpid()

    def begin(self, pid: int, rings: str, *, stacks: bool) -> int:
        """Start a recorder for a process that has let the guest in."""
        number = len(self._recorders)
        folder = Path(self._base.name, str(number))
        folder.mkdir(mode=0o700)
        asked = json.dumps({"pid": pid, "rings": rings, "folder": str(folder), "stacks": stacks})
        self._recorders[number] = subprocess.Popen(
            [*own_python(CODE), asked],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return number

    def live(self, number: int) -> bytes:
        """Return the verdict so far, as `live.json` has it; nothing where there is none yet."""
        from gputune.recording.folder import LIVE  # noqa: PLC0415 - as above

        return _read(Path(self._base.name, str(number), LIVE))

    def leave(self, number: int) -> None:
        """Ask a recorder to leave."""
        if self._recorders[number].poll() is None:
            self._recorders[number].send_signal(signal.SIGTERM)

    def found(self, number: int) -> dict[str, bytes] | None:
        """Return the files of a recording by name, None as long as it goes on. They are removed here."""
        from gputune.recording.folder import FINDINGS  # noqa: PLC0415 - as above

        if self._recorders[number].poll() is None:
            return None
        folder = Path(self._base.name, str(number))
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
        if sum(file.stat().st_size for file in files) > 256 << 20:  # B of a recording that are handed over
            files = [folder / FINDINGS]
        return {str(file.relative_to(folder)): _read(file) for file in files}

    def close(self) -> None:
        """End what still records."""
        running = [recorder for recorder in self._recorders.values() if recorder.poll() is None]
        for recorder in running:
            recorder.terminate()
        until = time.monotonic() + 20.0  # s that a recorder gets to say what it has found
        while any(recorder.poll() is None for recorder in running) and time.monotonic() < until:
            time.sleep(0.05)
        for recorder in running:
            recorder.kill()
            recorder.wait()
        self._base.cleanup()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def main() -> None:
    """Record one process until it ends, or until we are asked to leave."""
    from gputune.core.sample import now  # noqa: PLC0415 - as above
    from gputune.watching.attaching import PROC, command_of  # noqa: PLC0415 - see above

    asked = json.loads(sys.argv[1])
    pid, rings = int(asked["pid"]), str(asked["rings"])
    family.die_with_parent(signal.SIGTERM)
    wishes = WatchOptions(command_of(PROC, pid), pid=pid, quiet=True, stacks=bool(asked["stacks"]))
    _record(WatchedRun(wishes, folder=str(asked["folder"]), rings=rings, troubles=[]), now())


def join() -> None:
    """Record the process that asked for it, from when it did, until it ends or asks us to leave."""
    from gputune.watching.attaching import PROC, command_of  # noqa: PLC0415 - see above

    asked = json.loads(sys.argv[1])
    run = restored(asked["run"])
    run.command = run.command or command_of(PROC, run.pid)  # of a notebook the caller knows better
    try:
        _record(run, int(asked["started"]))
    except Exception as error:  # noqa: BLE001 - a traceback of ours is nothing for their terminal
        say(f"gputune: the recorder failed ({type(error).__name__}: {error})\n")


def _record(run: WatchedRun, started: int) -> None:
    from gputune.watching.attaching import Leave  # noqa: PLC0415 - as above
    from gputune.watching.recorder.life import Life  # noqa: PLC0415 - as above

    lock = folders.hold(run.rings) if run.rings else -1
    try:
        # 30 * 86400.0 s that a trial is recorded at the most
        Life(run, Started(run.pid, started), Leave(run.pid, 30 * 86400.0), resumed=False).live()
    finally:
        if run.rings:
            folders.remove_rings(run.rings)
        if lock >= 0:
            os.close(lock)
