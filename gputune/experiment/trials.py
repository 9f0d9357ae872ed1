"""One run of the user's script for a few dozen batches: started as `gputune watch` starts it, and ended by its guest.

Its output goes to a log beside its recording. It has a session of its own, so that a Ctrl-C reaches only us, and we
end it then; it ends by itself in any case.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.core.isolation import own_python
from gputune.core.sample import Json
from gputune.experiment.pace import Counter, Pace, counted
from gputune.recording.about import read

LONGEST_S = 120.0  # s of training in one trial, however slow its batches are
GRACE_S = 10.0  # s between asking a trial to end and ending it
LAST_WORDS = 300  # characters of a log that an error shows
MINOR = 0.02  # of the run: what lies in other loops need neither be waited for nor said


class TrialFailed(GputuneError):  # noqa: N818 - named for what happened
    """The script did not get far enough to be timed."""

    def __init__(self, why: str, log: Path) -> None:
        said = _last_words(log)
        super().__init__(
            f"a trial of the script failed: {why}{f': {said}' if said else ''}",
            hint=f"its output is in `{log}`",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all trials of one proof have in common."""

    command: tuple[str, ...]
    cwd: str
    folder: Path  # where their recordings and logs go
    batches: int  # of training, in each
    skip: int  # of these, warm-up
    where: str = ""  # the loader whose batches count; "" for all
    elsewhere: float = 0.0  # share of the run that lies in rounds of other loaders, before or after its own
    deadline: float = 600.0  # s for one trial, its start-up included
    seconds: float = LONGEST_S
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one."""

    variant: str
    pace: Pace
    exit_code: int | None
    folder: str
    log: str
    notes: tuple[Mapping[str, Json], ...] = field(default=())


def run(plan: Plan, variant: str, *, rules: Sequence[Mapping[str, Json]] = (), **special: Json) -> Trial:
    """Run the script once. `special` goes to the guest (`trial.py`). Raises TrialFailed."""
    folder = plan.folder / f"{_next_number(plan.folder)}-{variant.replace(' ', '-')}"
    log = folder.with_suffix(".log")
    asked = {"batches": plan.batches, "seconds": plan.seconds, "seed": plan.seed, **special}
    if plan.elsewhere >= MINOR:
        asked["where"] = plan.where
    status = _run(plan, folder, log, _environment(asked, rules))
    try:
        story = read(folder)
        counter = counted(folder, plan.where)
    except (GputuneError, OSError) as error:
        raise TrialFailed(_status(status), log) from error
    exit_code = story.get("exit_code")
    pace = counter.pace(plan.skip)
    if exit_code:
        raise TrialFailed(_status(exit_code), log)
    if pace is None:
        raise TrialFailed(f"fewer than {plan.skip} batches to warm up and some to time", log)
    return Trial(
        variant=variant,
        pace=pace,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        folder=str(folder),
        log=str(log),
        notes=_notes(counter),
    )


def end_with_us() -> None:
    """Have a trial that goes on ended on our way out when we are asked to leave, as it is at a Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def _notes(counter: Counter) -> tuple[Mapping[str, Json], ...]:
    return tuple(counter.notes)


def _next_number(folder: Path) -> int:
    return 1 + sum(1 for entry in folder.iterdir() if entry.is_dir())


def _environment(asked: Mapping[str, Json], rules: Sequence[Mapping[str, Json]]) -> dict[str, str]:
    """Return the environment of a trial: ours, without what was meant for another gputune."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    plain["GPUTUNE_TRIAL"] = json.dumps(asked)
    if rules:
        plain["GPUTUNE_OVERRIDE"] = json.dumps(list(rules))
    return plain


def _run(plan: Plan, folder: Path, log: Path, environment: Mapping[str, str]) -> int:
    """Run the script under a quiet watch to its end or to the deadline, and return the status."""
    watch = (
        *own_python("from gputune.__main__ import main; main()"),
        *("watch", "--quiet", "--no-stacks", "--hz", "10"),
        *("--out", str(folder), "--json", str(folder.with_suffix(".json")), "--"),
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "wb") as output:
        process = subprocess.Popen(
            [*watch, *plan.command],
            cwd=plan.cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(plan.deadline)
    except subprocess.TimeoutExpired:
        raise TrialFailed(f"it went on for more than {plan.deadline:.0f} s", log) from None
    finally:
        if process.poll() is None:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the watch to end, which hands it on to the script; then end all that is left of its session."""
    process.send_signal(signal.SIGTERM)
    until = time.monotonic() + GRACE_S
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _status(code: Json) -> str:
    if isinstance(code, int) and code < 0:
        return f"it died of signal {-code}"
    return f"it left with status {code}" if code else "it left no recording"


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return clean(lines[-1], LAST_WORDS) if lines else ""
