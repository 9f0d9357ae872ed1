"""One start of the script on a node of a cluster: `trial` is the task that runs there, `main` the process it starts.

A process of its own: a worker of Ray has threads, handlers and children that a measurement has no use for. It dies with
the worker. What the script writes goes to a folder that is gone with the trial; its log comes back with the numbers.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.errors import GputuneError
from gputune.core.isolation import own_python
from gputune.experiment.living import end_with_us
from gputune.experiment.script import Script
from gputune.experiment.starting import Start, State
from gputune.features import Features
from gputune.features.joined_ranks import Part, decode, encode
from gputune.host import clusters
from gputune.launch import family
from gputune.launch.output import tail
from gputune.sweep.journal import Remembered, remembered
from gputune.sweep.settings import Setting
from gputune.sweep.starter import Starter

CODE = "from gputune.sweep.faraway import main; main()"
LOOK_S = 0.2  # s between looks whether the task was cancelled
END_S = 20.0  # s that the process gets to end its script and itself
LOG = 1 << 20  # B of the end of a log that come back
PIECE = 1 << 16  # B read at a time
GOES_ON, GIVES_UP = b"1\n", b"0\n"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, and for how long. Times in s."""

    command: tuple[str, ...]
    cwd: str
    name: str
    key: str = ""  # its own among all that are under way
    seconds: float
    batches: int
    seed: int
    within: float
    where: str
    duplicates: bool
    origin: Setting | None = None
    wanted: Setting | None = None
    replay: bool = False
    judged: bool = False
    may_write: tuple[str, ...] = ()
    parent: int = 0  # the worker of Ray: when that is gone, so are we


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: a start with its features (as a part of a job) and its log, or why there was none."""

    start: Remembered | None = None
    features: str = ""
    log: str = ""
    error: str = ""
    hint: str = ""
    missed: str = ""  # what a script that failed did not find, or was refused, in words
    open: str = ""  # why the system does not refuse there what is not kept apart

    def run(self) -> Features:
        """Return the features. Raises msgspec.DecodeError."""
        return decode(self.features.encode()).features


def trial(order: bytes, judge: Any = None, bell: Any = None) -> bytes:
    """Run one start on this node, and return its report as JSON: the task. `judge` and `bell` are actors (`rungs.py`).

    Raises RuntimeError where the process left no report.
    """
    asked = msgspec.structs.replace(msgspec.json.decode(order, type=Order), parent=os.getpid())
    if bell is not None:
        bell.ring.remote(asked.key)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            own_python(CODE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            report = _served(process, msgspec.json.encode(asked), judge)
        finally:
            _end(process)
        if report is not None:
            return report
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        raise RuntimeError(f"a trial ended without a word{f': {said[0]}' if said else ''}")


def _served(process: "subprocess.Popen[bytes]", order: bytes, judge: Any) -> bytes | None:
    """Talk with the process until its last line, the report; None where it ends before."""
    if process.stdin is None or process.stdout is None:
        return None
    process.stdin.write(order + b"\n")
    process.stdin.flush()
    rest = b""
    while True:
        if not select.select([process.stdout], [], [], LOOK_S)[0]:
            continue  # a cancelled task is interrupted here
        data = os.read(process.stdout.fileno(), PIECE)
        if not data:
            return None
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(b"["):
                return line
            process.stdin.write(_judged(judge, line))
            process.stdin.flush()


def _judged(judge: Any, line: bytes) -> bytes:
    """Return what the judge says of a rung, a rate and its error; without a word of his a trial goes on."""
    try:
        rung, rate, error = json.loads(line)
        ray = importlib.import_module("ray")
        return GOES_ON if ray.get(judge.goes_on.remote(rung, rate, error), timeout=END_S) else GIVES_UP
    except Exception:  # noqa: BLE001 - Ray's errors are many; a trial that nobody judges is measured to its end
        return GOES_ON


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process, and with it the script, if it did not do so by itself."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# in the process


def main() -> None:
    """Read the order, run it, and write the report. Does not return."""
    end_with_us()
    family.die_with_parent(signal.SIGTERM)
    output = os.dup(1)
    os.dup2(2, 1)  # nothing else is to be said there
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    if os.getppid() != order.parent:
        os._exit(1)
    with tempfile.TemporaryDirectory(prefix="gputune-trial-") as folder:
        report = msgspec.json.encode(_report(order, Path(folder), output)) + b"\n"
    with os.fdopen(output, "wb") as file:
        file.write(report)


def _report(order: Order, folder: Path, output: int) -> Report:
    if not Path(order.cwd).is_dir():
        return Report(
            error=f"there is no folder `{order.cwd}`",
            hint="the script has to lie on every node under the same path: a folder that they share",
        )
    starter = _starter(order, folder)
    try:
        found = _started(order, starter, output)
    except GputuneError as error:
        return Report(error=str(error.args[0]), hint=error.hint)
    except OSError as error:
        return Report(error=f"`{order.command[0]}` cannot be started: {error.strerror}", hint="see `--python`")
    finally:
        starter.close()
    run = found.run
    text = encode(Part(host=os.uname().nodename, features=run)).decode() if run is not None else ""
    log = tail(found.log, LOG).decode("utf-8", "replace")
    missed = starter.missed(found.log) if found.state is State.FAILED else ""
    return Report(start=remembered(found), features=text, log=log, missed=missed, open=starter.writable.why)


def _starter(order: Order, folder: Path) -> Starter:
    return Starter(
        script=Script(command=clusters.here(order.command), cwd=order.cwd),
        folder=folder,
        within=order.within,
        seed=order.seed,
        where=order.where,
        origin=order.origin,
        duplicates=order.duplicates,
        may_write=order.may_write,
    )


def _started(order: Order, starter: Starter, output: int) -> Start:
    def judge(rung: float, rate: float, error: float) -> bool:
        os.write(output, json.dumps([rung, rate, error]).encode() + b"\n")
        return sys.stdin.buffer.readline() != GIVES_UP

    plan = starter.plan(seconds=order.seconds, batches=order.batches)
    special = {"replay": True} if order.replay else {}
    return starter.start(plan, order.name, order.wanted, judge=judge if order.judged else None, **special)
