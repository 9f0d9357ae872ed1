"""Features and findings put into the `findings.json` document (`gputune/verdict/document.py`)."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gputune import __version__
from gputune.core.figures import wilson
from gputune.core.finding import Finding
from gputune.core.hygiene import as_text
from gputune.core.sample import ATTACHED, Guest
from gputune.features import Features, Loader, Machine, Process
from gputune.features.waiting import waited
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_LOOKS, too_few
from gputune.model.offload import for_a_device, share_left_out
from gputune.model.rank_team import job
from gputune.model.round_spread import error_of_mean
from gputune.model.workload import theft
from gputune.verdict import erring
from gputune.verdict.device_ledger import PARTS, device_ledger
from gputune.verdict.document import (
    AsideRow,
    Attached,
    CpuRow,
    DeviceLedgerRow,
    DeviceTotals,
    ExperimentsRow,
    FindingRow,
    FrameRow,
    LackingRow,
    LedgerRow,
    LoaderRow,
    MakingRow,
    Overhead,
    ProcessRow,
    Sighted,
    SpeedupRow,
    Spent,
    StepRow,
    Tuned,
    UnavailableRow,
    Verdict,
    alike,
    to_json,
)
from gputune.verdict.exhaustion import ran_out
from gputune.verdict.failing import failed, unused
from gputune.verdict.spending import HOUR, DeviceSpending, spending

__all__ = ["Overhead", "Verdict", "build", "priced", "to_json"]

SEEN = "ring"  # Process.guest and Guest.state of a process that spoke from inside
FROM_OUTSIDE = "looked at from outside: where its time goes is known, what a change would bring is not"
FRAMES = 5  # places of the step named in the document; further ones are below a few percent each
SETTINGS = ("where", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size")
DIGITS = 6  # significant digits kept: more is noise, and makes the document unreadable


def build(  # noqa: PLR0913 - one parameter a part of the document
    features: Features,
    findings: Sequence[Finding],
    *,
    perhaps: Sequence[Finding] = (),
    overhead: Overhead,
    guests: Iterable[Guest] | None = None,
    price: float | None = None,
    tuned: Tuned | None = None,
    started: str = "",
    unjudged: Mapping[str, str] = {},
) -> Verdict:
    """Return the document for one run.

    `perhaps` are changes that are worth a try, `guests` the processes that were sighted, `price` what one device costs
    an hour, `tuned` what became of its loader, `started` when the run began (ISO 8601, UTC), if the caller knows them;
    `unjudged` are the advisors that failed, and why.
    """
    heard = [p for p in features.processes if p.guest == SEEN]
    attached = [p for p in features.processes if p.guest == ATTACHED]
    rate = _together(features) or _sum(_rate(p.samples, p.through) for p in heard)
    return Verdict(
        command=list(features.command),
        exit_code=features.exit_code,
        wall_s=_short(features.wall),
        samples_per_s=rate,
        batches=sum(p.batches for p in heard),
        device=_device(features),
        loaders=_loaders(heard),
        device_ledger=_device_ledger(heard),
        ledger=_ledger(heard or [p for p in attached if p.looks]),
        findings=_findings(findings),
        perhaps=_findings(perhaps),
        overhead=overhead,
        unavailable=_unavailable(features),
        steps_per_s=_mean([r for p in heard if (r := _rate(p.optimizer_steps, p.through)) is not None]),
        startup_s=_mean([p.ledger.get("startup", 0.0) for p in heard]) or 0.0,
        loop_s=_mean([p.loop for p in heard]) or 0.0,
        abstained=FROM_OUTSIDE if attached and not heard else abstained(heard),
        processes=[_process(p) for p in features.processes],
        frames=_frames(heard or features.processes),
        making=_making(heard),
        aside=_aside(features, heard),
        sighted=None if guests is None else _sighted(list(guests)),
        dropped=features.dropped,
        oom_kills=features.oom_kills[0],
        oom_kills_where=features.oom_kills[1],
        out_of_memory=ran_out(features),
        error=erring.error(features),
        host_growth=erring.growth(features),
        failures=failed(features),
        unused=unused(features),
        stopped_s=_short(features.stopped),
        stolen=_stolen(features.machine),
        attached=_attached(attached),
        spent=_spent(spending(features, price=price, samples_per_s=rate)),
        tuned=tuned,
        experiments=_experiments(heard),
        cpu=_cpu(features.machine) if heard else None,
        rate_error=_rate_error(heard),
        gputune=__version__,
        started=started,
        waited_s=_maybe(waited(features)),
        unjudged=dict(unjudged),
    )


def priced(verdict: Verdict, price: float) -> Verdict:
    """Return a verdict whose devices cost that much an hour each, whatever they cost before."""
    spent = verdict.spent
    if spent is None:  # no device could be read: the price is the machine's, as `spending` has it
        spent = Spent(
            by="training",
            devices=1,
            device_s=verdict.wall_s,
            waiting_s=verdict.waited_s,
            energy_j=None,
            waiting_j=None,
            samples_per_j=None,
            price=price,
            cost=None,
            waiting_cost=None,
        )
    waiting = None if spent.waiting_s is None else _short(price * spent.waiting_s / HOUR)
    cost = _short(price * spent.device_s / HOUR)
    spent = msgspec.structs.replace(spent, price=price, cost=cost, waiting_cost=waiting)
    return msgspec.structs.replace(verdict, spent=spent)


def abstained(heard: Sequence[Process]) -> str:
    """Return why nothing can be predicted of these processes, or an empty string where it can."""
    if not heard:
        return "no training was seen"
    count = too_few(heard)
    if count is None:
        return ""
    return f"too few batches: {count} after the warm-up, and a prediction needs {LEAST_BATCHES}"


def _experiments(heard: Sequence[Process]) -> ExperimentsRow | None:
    names = ("holds", "delays", "fills", "lone", "slopes")
    counts = {name: sum(getattr(p.held_back, name) for p in heard) for name in names}
    shares = [p.held_back.seconds / p.loop for p in heard if p.loop > 0]
    return ExperimentsRow(share=_mean(shares), **counts) if any(counts.values()) else None


def _unavailable(features: Features) -> list[UnavailableRow]:
    return [
        UnavailableRow(
            probe=probe, why=why, fields=[LackingRow(**each._asdict()) for each in features.lacking.get(probe, ())]
        )
        for probe, why in sorted(features.unavailable.items())
    ]


def _together(features: Features) -> float | None:
    """Return the samples/s of a job of ranks, whose first to be done wait for the last; None where there is none."""
    ranks = job(features)
    return _rate(sum(p.samples for p in ranks), max((p.through for p in ranks), default=0.0))


def _device(run: Features) -> DeviceTotals:
    devices = run.devices
    names = list(dict.fromkeys(d.name for d in devices))
    busy = _mean([d.busy for d in devices if d.busy is not None])
    coverage = min((d.coverage for d in devices), default=None)
    return DeviceTotals(
        name=", ".join(names) or None,
        busy=busy,
        count=len(devices),
        coverage=None if coverage is None else _short(coverage),
        why=_why_not_read(run),
    )


def _why_not_read(run: Features) -> str:
    """Return why a device was read in a part of the loop only, where that is known."""
    if all(device.throughout for device in run.devices):
        return ""
    gone = [f"device {device.index}" for device in run.devices if not device.throughout]
    rows = {row.what: row.why for row in run.lacking.get("nvml", ())}
    if lost := next((rows[device] for device in gone if device in rows), ""):
        return lost
    told = [f"{what} {rows[what]}" for what in (*map("utilisation of {}".format, gone), "NVML") if what in rows]
    return "; ".join(told) or run.unavailable.get("nvml", "")


def _loaders(processes: Sequence[Process]) -> list[LoaderRow]:
    """Ranks run the same script: their loaders with equal settings are one row."""
    groups: dict[tuple[object, ...], list[Loader]] = {}
    for loader in (loader for process in processes for loader in process.loaders):
        settings = (*(getattr(loader, name) for name in SETTINGS), loader.training, loader.apart is None)
        groups.setdefault(settings, []).append(loader)
    rows = [
        alike(
            LoaderRow,
            same[0],
            batches=sum(loader.batches for loader in same),
            wait_s=_short(sum(loader.wait_total for loader in same)),
            processes=len(same),
            apart=_most(loader.apart for loader in same),
        )
        for same in groups.values()
    ]
    return sorted(rows, key=lambda row: (not row.training, -row.batches))


def _most(shares: Iterable[float | None]) -> float | None:
    return _maybe(max((share for share in shares if share is not None), default=None))


def _ledger(processes: Sequence[Process]) -> list[LedgerRow]:
    """Largest share first. Processes weigh as long as they lived, so that the shares add up to one."""
    total = sum(sum(p.ledger.values()) for p in processes)
    if not total:
        return []
    spans: dict[str, float] = {}
    for process in processes:
        for span, seconds in process.ledger.items():
            spans[span] = spans.get(span, 0.0) + seconds
    margins = _margins(processes)
    rows = [
        LedgerRow(
            span=span,
            seconds=_short(seconds / len(processes)),
            share=_short(seconds / total),
            margin=_maybe(margins.get(span)),
        )
        for span, seconds in spans.items()
        if seconds > 0
    ]
    return sorted(rows, key=lambda row: -row.share)


def _device_ledger(processes: Sequence[Process]) -> list[DeviceLedgerRow]:
    """Largest share first. Processes weigh as long as their loops, so that the shares add up to one."""
    told = [(process.loop, device_ledger(process)) for process in processes]
    known = [(loop, shares) for loop, shares in told if shares and loop > 0]
    total = sum(loop for loop, _ in known)
    rows = [
        DeviceLedgerRow(part=part, seconds=_short(seconds / len(known)), share=_short(seconds / total))
        for part in PARTS
        if (seconds := sum(loop * shares.get(part, 0.0) for loop, shares in known)) > 0
    ]
    return sorted(rows, key=lambda row: -row.share)


def _margins(processes: Sequence[Process]) -> dict[str, float]:
    """Return the margin of each word; of several processes together it is as large as the largest at the most."""
    spans = {span for process in processes for span in process.margins}
    return {span: max(process.margins.get(span, 0.0) for process in processes) for span in spans}


def _attached(processes: Sequence[Process]) -> Attached | None:
    if not processes:
        return None
    stacks = sum(p.stack_samples for p in processes)
    found: dict[str, float] = {}
    for process in processes:
        for part, share in process.step_parts.items():
            found[part] = found.get(part, 0.0) + share * process.stack_samples / max(1, stacks)
    largest = sorted(found.items(), key=lambda item: -item[1])[:FRAMES]
    step = [StepRow(part=as_text(part), share=_short(share)) for part, share in largest]
    return Attached(stacks=stacks, looks=sum(p.looks for p in processes), step=step)


def _findings(findings: Iterable[Finding]) -> list[FindingRow]:
    return [_finding(f) for f in sorted(findings, key=lambda f: -f.speedup.likely)]


def _finding(finding: Finding) -> FindingRow:
    gain = finding.speedup
    gains = {name: _short(getattr(gain, name)) for name in ("low", "likely", "high")}
    return alike(
        FindingRow,
        finding,
        severity=finding.severity.value,
        share_lost=_short(finding.share_lost),
        speedup=SpeedupRow(**gains, at_least=gain.at_least),
        change=dict(finding.change),
        evidence={name: _short(value) for name, value in finding.evidence.items()},
        due_s=_maybe(finding.due),
        steady=_short(gain.sure),
    )


def _process(process: Process) -> ProcessRow:
    seen = process.guest == SEEN
    return alike(
        ProcessRow,
        process,
        seen=seen,
        why="" if seen else process.guest,
        wall_s=_short(process.wall),
        startup_s=_short(process.ledger.get("startup", 0.0)),
        loop_s=_short(process.loop),
        stood_s=_short(process.stood),
        samples_per_s=_rate(process.samples, process.through),
        own_s=_mean([m.own for m in process.meetings]),
        apart_s=_mean([m.apart for m in process.meetings]),
        rounds=len(process.meetings),
        pace=None if process.pace is None else _short(process.pace.value),
        pace_error=None if process.pace is None else _short(process.pace.error),
    )


def _frames(processes: Sequence[Process]) -> list[FrameRow]:
    """Let the process with the most stacks speak for all: ranks run the same script."""
    most = max(processes, key=lambda p: p.stack_samples, default=None)
    frames = sorted(most.frames if most else (), key=lambda f: -f.share)[:FRAMES]
    return [alike(FrameRow, frame, share=_short(frame.share)) for frame in frames]


def _aside(run: Features, processes: Sequence[Process]) -> AsideRow | None:
    """Let the process with the most stacks of its loop speak for all, likewise; a policy's work is none of these.

    Such a line may wait for the device: for as long as that works, it surely takes nothing by itself.
    """
    most = max((p for p in processes if p.steps and p.acting is None), key=lambda p: p.looked, default=None)
    if most is None or not most.aside or most.looked < LEAST_LOOKS:
        return None
    share = min(1.0, sum(line.share for line in most.aside))
    low, high = wilson(share, most.looked)
    low = max(0.0, low - for_a_device(run, most) * most.steps / most.loop) if most.loop > 0 else 0.0
    ceiling = share_left_out(run, most, high).likely
    first = most.aside[0]
    return AsideRow(
        where=first.where, function=first.function, share=_short(share), low=_short(low), ceiling=_short(ceiling)
    )


def _making(processes: Sequence[Process]) -> MakingRow | None:
    """Let the process with the most stacks of making batches speak for all, likewise."""
    most = max(processes, key=lambda p: p.making_stacks, default=None)
    if most is None or not most.making:
        return None
    doing = max(most.making, key=lambda doing: doing.share)
    low, _ = wilson(doing.share, most.making_stacks)
    return MakingRow(where=doing.where, what=doing.what, share=_short(doing.share), low=_short(low))


def _spent(what: DeviceSpending | None) -> Spent | None:
    if what is None:
        return None
    names = ("device_s", "waiting_s", "energy_j", "waiting_j", "samples_per_j", "cost", "waiting_cost")
    return alike(Spent, what, **{name: _maybe(getattr(what, name)) for name in names})


def _sighted(guests: Sequence[Guest]) -> Sighted:
    return Sighted(
        python=sum(g.role != "worker" for g in guests),
        torch=sum(g.state == SEEN and g.role != "worker" for g in guests),
        unheard=sum(g.state == "none" and g.role != "worker" for g in guests),
    )


def _rate(count: int, seconds: float) -> float | None:
    return _short(count / seconds) if count and seconds > 0 else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _short(sum(known)) if known else None


def _mean(values: Sequence[float]) -> float | None:
    return _short(sum(values) / len(values)) if values else None


def _maybe(value: float | None) -> float | None:
    return None if value is None else _short(value)


def _cpu(machine: Machine) -> CpuRow:
    return CpuRow(allowed=_short(machine.cpus), job=_maybe(machine.job), others=_maybe(machine.others))


def _rate_error(heard: Sequence[Process]) -> float | None:
    """Let the process with most batches speak for all: ranks keep step with each other."""
    loaders = [loader for process in heard for loader in process.loaders if loader.paces]
    rounds = [tuple(wait + step for wait, step in zip(each.waits, each.steps, strict=False)) for each in loaders]
    return _maybe(error_of_mean(max(rounds or [p.beats for p in heard], key=len, default=())))


def _stolen(machine: Machine) -> float | None:
    return None if machine.stolen is None else _short(theft(machine))


def _short(value: float) -> float:
    """Round to the digits that mean something."""
    return float(f"{value:.{DIGITS}g}")
