"""What could not be measured, as far as it matters to what the verdict says; the document holds all of it."""

from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

from gputune.core.hygiene import clean
from gputune.host.native import HOOKS
from gputune.verdict.document import RECORDER, RECORDING, RINGS, ExperimentsRow, Overhead, UnavailableRow, Verdict

NAME, TEXT = 60, 300  # characters of any one name, and text, from outside
AFTER_LAST = "   "
OF_THE_RUN = frozenset({RECORDING, RECORDER, RINGS})  # what failed in that run alone: no look at the machine says why
NAMED = 3  # things of a device whose reasons are told: more of them, as a rule, lack for one reason
# What is read of a device to the findings that it would make surer, or that are silent without it only where nothing
# else speaks for them. Of a field that is not here (how busy a device is, its memory, NVML itself) every verdict lives.
SERVES: dict[str, frozenset[str]] = {
    "clocks": frozenset({"device-throttled", "straggling-rank"}),
    "highest clock": frozenset({"device-throttled"}),
    "throttle reasons": frozenset({"device-throttled"}),
    "power": frozenset({"device-throttled"}),
    "power limit": frozenset({"device-throttled"}),
    "default power limit": frozenset({"device-throttled"}),
    "temperature": frozenset({"device-throttled"}),
    "processes": frozenset({"shared-device", "room-to-share"}),
    "SM share of processes": frozenset({"shared-device", "room-to-share"}),
    "SM and tensor activity": frozenset({"no-mixed-precision"}),
    "compute capability": frozenset({"no-mixed-precision"}),
    "PCIe link": frozenset({"slow-link", "unpinned-memory"}),
    "PCIe traffic": frozenset({"slow-link", "unpinned-memory"}),
    "memory errors": frozenset({"device-errors"}),
    "memory clock": frozenset(),
    "compute mode": frozenset(),
    "energy": frozenset(),
    "NVML's latency": frozenset(),
}


def lines(verdict: Verdict, width: int) -> list[str]:
    """Return what could not be measured: with the reasons where one line holds them, else where to read them.

    The doctor knows nothing of what failed in that run, as a device that was lost meanwhile: its reason is always told.
    """
    spoken = {finding.id for finding in (*verdict.findings, *verdict.perhaps)}
    rows = [told for row in verdict.unavailable for told in _told(row, spoken) if told.why not in verdict.device.why]
    if not rows:
        return []
    line = f"not measured: {'; '.join(f'{row.what} ({row.why})' for row in rows)}"
    if len(line) > width:
        failed = [row for row in rows if row.in_run]
        told = [f"{row.what} ({row.why})" for row in failed[:NAMED]]
        told += [f"{len(failed) - NAMED} more of a device"] if len(failed) > NAMED else []
        if names := ", ".join(row.what for row in rows if not row.in_run):
            told.append(f"{names} (`gputune doctor` says why)")
        line = f"not measured: {'; '.join(told)}"
    return wrap(line, width, subsequent_indent=AFTER_LAST)


def held_back(experiments: ExperimentsRow | None) -> str:
    """Return how often something was held up to see who sets the pace, and what that may have cost; "" where never.

    Of what it was, docs/experiments.md and the document tell.
    """
    if experiments is None:
        return ""
    held = experiments
    count = held.holds + held.delays + held.fills + held.lone + held.slopes
    moments = f"{count} moments were" if count > 1 else "one moment was"
    share = "" if held.share is None else f": {_at_most(held.share)} of the loop"
    return f"to see what sets the pace, {moments} held up{share}"


def _at_most(share: float) -> str:
    """Return a share in tenths of a percent; one that is smaller is not called nothing."""
    return "under 0.1 %" if share < 0.001 else f"at most {100 * share:.1f} %"


def took(verdict: Verdict) -> str:
    """Return what watching took where that may be a part of the loop's time that counts; "" where it is none.

    That is at the most: what the recorder uses costs the loop nothing as long as a CPU stands idle beside it.
    """
    share, each = verdict.overhead.sampler_cpu_share, verdict.overhead.guest_us_per_batch or 0.0
    if share is None or not verdict.loop_s or not verdict.processes:
        return ""
    inside = each / 1e6 * verdict.batches / len(verdict.processes) / verdict.loop_s
    # Watching is not worth a word below 0.01 of the loop's time (twice the budget at steps of 8 ms, benchmarks/),
    # with 0.5 s of CPU that the recorder takes once, for its imports, first looks and first verdict
    if share + inside < 0.01 + 0.5 / verdict.loop_s:
        return ""
    of_each = f" and {each:.0f} µs of each batch" if each else ""
    most = f"up to {100 * (share + inside):.1f} % of the loop's time where no CPU was free"
    return f"watching took {100 * share:.1f} % of a CPU{of_each}: {most}"


def in_python(overhead: Overhead) -> str:
    """Return that what runs inside the training costs it more than it need, as it is not in C; "" where it is."""
    if HOOKS not in overhead.in_python:
        return ""
    cost = overhead.guest_us_per_batch
    took = "" if cost is None else f", {cost:.0f} µs a batch"
    return f"gputune's hooks ran in Python{took}, and would cost less in C (`gputune doctor` says how)"


class _Told(NamedTuple):
    what: str
    why: str
    in_run: bool  # it was there, and failed while the run went on


def _told(row: UnavailableRow, spoken: set[str]) -> Iterator[_Told]:
    """Yield what of an instrument is worth a word, and why it lacks: all, or the fields that something rests on."""
    if not row.fields:
        yield _Told(clean(row.probe, NAME), clean(row.why, TEXT), row.probe in OF_THE_RUN)
    for lacking in row.fields:
        serves = SERVES.get(lacking.field)
        if serves is None or serves & spoken:
            yield _Told(clean(lacking.what, NAME), clean(lacking.why, TEXT), in_run=True)
