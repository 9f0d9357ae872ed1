"""What ran, for how long, and how fast: the facts that stand above a verdict."""

import shlex
from pathlib import PurePath

from gputune.core.events import AROUND_LOOP
from gputune.core.figures import duration
from gputune.core.hygiene import clean
from gputune.core.pace import BATCHES, SAMPLES, STEPS
from gputune.features import COVERED
from gputune.launch.folders import KERNEL, is_kernel
from gputune.report import ending
from gputune.report.ranks import counted
from gputune.report.words import number, percent
from gputune.verdict.document import DeviceTotals, Verdict

NAME, TEXT = 60, 300  # characters of any one name, and text, from outside
SAID = {"startup": "start-up"}  # words of the ledger that are others in a sentence


def command(verdict: Verdict) -> str:
    """Return what was typed, programs without their folders; of a notebook its name, and the cell."""
    if is_kernel(verdict.command):
        program, *named = verdict.command
        return " ".join(named) if program == KERNEL and named else "a notebook"
    return shlex.join(PurePath(word).name if word.startswith("/") else word for word in verdict.command)


def facts(verdict: Verdict) -> list[str]:
    """Return for how long it ran, how fast it was, on what, and how it ended where that was not well."""
    told = [duration(verdict.wall_s) + _before_loop(verdict), _pace(verdict)]
    told.append(f"{verdict.batches:,} batches" if verdict.batches else "")
    told += [counted(verdict.processes), _device(verdict.device)]
    told.append(ending.status(verdict.exit_code) if verdict.exit_code else "")
    return [each for each in told if each]


def left_out(verdict: Verdict) -> dict[str, float]:
    """Return the s of start-up and teardown where a bar goes without: those of a short run say little of its loop."""
    # The bar of a run of less than 30.0 s is its loop's: start-up, which does not grow, is most of such a run
    if verdict.wall_s >= 30.0 or verdict.attached is not None or verdict.loop_s <= 0:
        return {}
    return {SAID.get(row.span, row.span): row.seconds for row in verdict.ledger if row.span in AROUND_LOOP}


def _pace(verdict: Verdict) -> str:
    if verdict.samples_per_s is not None:
        return f"{number(verdict.samples_per_s)} {SAMPLES}"
    if verdict.batches and verdict.loop_s > 0:  # the optimizer's steps may not be seen: those of a CUDA graph
        return f"{number(verdict.batches / verdict.loop_s)} {BATCHES}"
    return "" if verdict.steps_per_s is None else f"{number(verdict.steps_per_s)} {STEPS}"


def _device(device: DeviceTotals) -> str:
    if not device.name:
        return ""
    busy = "" if device.busy is None else f" {percent(device.busy)} busy{_partly(device)}"
    count = f"{device.count} × " if device.count > 1 else ""
    return f"{count}{clean(device.name, NAME)}{busy}"


def _partly(device: DeviceTotals) -> str:
    """Return of how much of the loop a device's figures are, where that is not nearly all of it, and why."""
    if device.coverage is None or device.coverage >= COVERED:
        return ""
    why = f": {clean(device.why, TEXT)}" if device.why else ""
    return f" in the {percent(device.coverage)} of the loop in which it was read{why}"


def _before_loop(verdict: Verdict) -> str:
    """Return the start-up of a short run as a figure: its bar is the loop's."""
    # Start-up and teardown are told from 0.01 of such a run on
    told = [f"{duration(s)} {name}" for name, s in left_out(verdict).items() if s >= 0.01 * verdict.wall_s]
    return f" ({', '.join(told)})" if told else ""
