"""One start of the script on a node of a cluster: the process that runs there (`experiment/remote.py`).

What the script writes goes to a folder that is gone with the trial; its log is read while it is written, and a report
comes back with the numbers.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from gputune.core.errors import GputuneError
from gputune.experiment import remote
from gputune.experiment.living import end_with_us
from gputune.experiment.remote import Errand
from gputune.experiment.script import Script
from gputune.experiment.starting import Start, State
from gputune.features import Features
from gputune.features.joined_ranks import WatchShare, decode, encode
from gputune.host import clusters
from gputune.sweep.journal import Remembered, remembered
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.starter import Starter

REPORT, RUNGS = "report.json", "rungs"  # the latter: a line of JSON for each rung, which is answered on stdin
GOES_ON, GIVES_UP = "1", "0"


class FarStart(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, and for how long. Times in s."""

    command: tuple[str, ...]
    cwd: str
    name: str
    seconds: float
    batches: int
    seed: int
    within: float
    where: str
    duplicates: bool
    origin: LoaderSetting | None = None
    wanted: LoaderSetting | None = None
    replay: bool = False
    judged: bool = False
    may_write: tuple[str, ...] = ()


class FarReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: a start with its features (as a part of a job), or why there was none."""

    start: Remembered | None = None
    features: str = ""
    error: str = ""
    hint: str = ""
    missed: str = ""  # what a script that failed did not find, or was refused, in words
    open: str = ""  # why the system does not refuse there what is not kept apart

    def run(self) -> Features:
        """Return the features. Raises msgspec.DecodeError."""
        return decode(self.features.encode()).features


def errand(order: FarStart) -> Errand:
    """Return the process that runs it."""
    code = "from gputune.sweep.faraway import main; main()"
    return Errand(code=code, cwd="/", given=msgspec.json.encode(order).decode(), files=(REPORT, RUNGS))


# in the process


def main() -> None:
    """Run the order that comes on stdin, and write the report."""
    end_with_us()
    own = remote.folder()
    report = _report(msgspec.json.decode(sys.stdin.readline(), type=FarStart), own)
    (own / REPORT).write_bytes(msgspec.json.encode(report))


def _report(order: FarStart, folder: Path) -> FarReport:
    if not Path(order.cwd).is_dir():
        return FarReport(
            error=f"there is no folder `{order.cwd}`",
            hint="the script has to lie on every node under the same path: a folder that they share",
        )
    starter = _starter(order, folder)
    try:
        found = _started(order, starter, folder / RUNGS)
    except GputuneError as error:
        return FarReport(error=str(error.args[0]), hint=error.hint)
    except OSError as error:
        return FarReport(error=f"`{order.command[0]}` cannot be started: {error.strerror}", hint="see `--python`")
    finally:
        starter.close()
    run = found.run
    text = encode(WatchShare(host=os.uname().nodename, features=run)).decode() if run is not None else ""
    missed = starter.missed(found.log) if found.state is State.FAILED else ""
    return FarReport(start=remembered(found), features=text, missed=missed, open=starter.writable.why)


def _starter(order: FarStart, folder: Path) -> Starter:
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


def _started(order: FarStart, starter: Starter, rungs: Path) -> Start:
    def judge(rung: float, rate: float, error: float) -> bool:
        with rungs.open("a", encoding="utf-8") as file:
            file.write(json.dumps([rung, rate, error]) + "\n")
        return sys.stdin.readline().strip() != GIVES_UP

    plan = starter.plan(seconds=order.seconds, batches=order.batches)
    special = {"replay": True} if order.replay else {}
    return starter.start(plan, order.name, order.wanted, judge=judge if order.judged else None, **special)
