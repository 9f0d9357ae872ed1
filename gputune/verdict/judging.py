"""Every advisor, each alone, over one run: what they found, best gain first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

import msgspec

from gputune.core.finding import AROUND, WORTH_SAYING, Finding, Speedup
from gputune.core.plugins import identity, load, names
from gputune.features import Features
from gputune.verdict import arbitration
from gputune.verdict.building import abstained
from gputune.verdict.document import TRIED, Settings, SpeedupRow, Tuned
from gputune.verdict.paced import paced
from gputune.verdict.partly import as_read, unread

WORTH_TRYING = 1.15  # likely samples/s from which on a gain that is not sure is worth a try: three times what is noise
MEASURED = "measured in this run: the best settings that were tried, and the script's own, in turn"
Advise = Callable[[Features], Iterable[Finding]]


def judge(run: Features, failed: dict[str, str] | None = None, perhaps: list[Finding] | None = None) -> list[Finding]:
    """Return the findings of a run, highest likely speed-up first. A healthy run has none.

    An advisor that raises is left out and named in `failed` (id to reason): it takes no other with it. Where nothing is
    found in the run itself, changes that may help it, without being sure to, are added to `perhaps`.
    """
    seen = _within_reach(run)
    run = as_read(seen)
    found: list[Finding] = []
    for name in names("gputune.advisors"):
        found.extend(_ask(name, run, failed))
    founded = [unread(run, paced(run, arbitration.uncovered(run, f)), seen) for f in _founded(run, found)]
    worth = [f for f in founded if arbitration.is_told(f) or f.speedup.promised]
    spoken = _healthy_offers(arbitration.settle(run, _once(worth)))
    if perhaps is not None and not any(map(_is_gain, spoken)):
        perhaps += arbitration.settle(run, _once(filter(_worth_trying, founded)))
    return spoken


def _within_reach(run: Features) -> Features:
    """Return the run without devices that nothing of it computes on: what they do says nothing of it.

    Where it is known that all processes compute on the host, those count on which NVML has seen a process of the job.
    """
    if not run.processes or not all(process.on_host for process in run.processes):
        return run
    return replace(run, devices=tuple(each for each in run.devices if each.jobs_busy or each.jobs_memory))


def _is_gain(finding: Finding) -> bool:
    """Return whether a finding is about a gain that is in the run itself, and not in what is around it."""
    return not arbitration.is_told(finding) and finding.id not in AROUND


def _worth_trying(finding: Finding) -> bool:
    """Return whether a gain may be had that is not sure, where no loss is likely, and at which line to try it.

    If it is worth saying in steps of an even pace, and no promise for their unevenness alone, it needs no more.
    """
    gain = finding.speedup
    even = gain.sure >= WORTH_SAYING
    may_be = even or (gain.sure >= 1 and gain.likely >= WORTH_TRYING and bool(finding.where))
    return _is_gain(finding) and may_be and not gain.promised


def with_tried(
    found: Sequence[Finding], perhaps: Sequence[Finding], tuned: Tuned | None
) -> tuple[list[Finding], list[Finding]]:
    """Return findings, and those that may be, by what was tried while the run went on: the clock knows better.

    What did not bring what it promises is left out. Where better settings were measured and are not in force (`--try`),
    the best finding about them has their gain.
    """
    measured = tuned.speedup if tuned is not None and tuned.state in {"unchanged", "tried"} else None
    if tuned is None or measured is None:
        return list(found), list(perhaps)
    settings = frozenset(Settings.__struct_fields__)

    def about(finding: Finding) -> bool:
        return finding.where == tuned.where and bool(finding.change) and finding.change.keys() <= settings

    both = [finding for finding in (*found, *perhaps) if about(finding)]
    if tuned.state == "tried" and both:
        told = [_as_measured(both[0], tuned, measured)] if measured.low >= WORTH_SAYING else []
        others = [finding for finding in found if not about(finding)]
        ordered = sorted([*told, *others], key=lambda finding: -finding.speedup.likely)
        return ordered, [finding for finding in perhaps if not about(finding)]
    gone = [finding for finding in both if finding.speedup.low > measured.high]
    return [f for f in found if f not in gone], [f for f in perhaps if f not in gone]


def _as_measured(finding: Finding, tuned: Tuned, measured: SpeedupRow) -> Finding:
    """Return a finding with the settings that were best, and what these brought."""
    own = msgspec.structs.asdict(tuned.own) if tuned.own is not None else {}
    best = msgspec.structs.asdict(tuned.best) if tuned.best is not None else {}
    change = {name: value for name, value in best.items() if value is not None and value != own.get(name)}
    predicted = finding.speedup.likely
    return replace(
        finding,
        do=f"set {', '.join(f'{name}={value}' for name, value in change.items())}",
        share_lost=max(0.0, 1 - 1 / measured.likely),
        speedup=Speedup(low=measured.low, likely=measured.likely, high=measured.high, steady=measured.low),
        basis=MEASURED,
        change=change,
        part=None,
        evidence={**finding.evidence, "predicted": predicted, TRIED: measured.likely / predicted},
    )


def _ask(name: str, run: Features, failed: dict[str, str] | None) -> list[Finding]:
    try:
        advise = cast("Advise", load("gputune.advisors", name).advise)
        return list(advise(run))
    except Exception as error:  # noqa: BLE001 - a broken advisor must not silence the others
        if failed is not None:
            failed[identity(name)] = f"{type(error).__name__}: {error}"
        return []


def _founded(run: Features, found: Iterable[Finding]) -> list[Finding]:
    """Leave out what was concluded from too few steps; devices are measured by the clock, not by the step."""
    heard = [process for process in run.processes if process.guest == "ring"]
    few = bool(heard) and bool(abstained(heard))
    return [f for f in found if not few or arbitration.is_told(f) or f.id in arbitration.DEVICE.ids]


def _once(found: Iterable[Finding]) -> list[Finding]:
    """Leave out what was said before, with a better prediction, of another rank."""
    best: dict[tuple[str, str], Finding] = {}
    for finding in sorted(found, key=lambda f: -f.speedup.likely):
        best.setdefault((finding.id, finding.where or finding.says), finding)  # no place in the code: about a device
    return list(best.values())


def _healthy_offers(found: list[Finding]) -> list[Finding]:
    """Leave out offers where there is something to mend: what is free then will be used by the mended run."""
    ailing = any(not arbitration.is_told(f) for f in found)
    return [f for f in found if not (ailing and f.offer)]
