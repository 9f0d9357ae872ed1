"""The end of a packed run: a row for each process, what they did together, and whether that paid."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gputune.core.figures import number
from gputune.core.pace import Pace
from gputune.sharing import host
from gputune.sharing.member import Member
from gputune.sharing.progress import TaskCounts, between
from gputune.sharing.state_machine import Course
from gputune.sharing.supervising import TaskSupervisor
from gputune.sharing.window import Eyes, WindowMeans
from gputune.verdict.packed import Packed, ProcRow

FULL = 0.95  # of the device's time, or of the CPUs: then it is what keeps all together from doing more


def document(  # noqa: PLR0913 - all that there is to tell of
    crew: TaskSupervisor,
    course: Course,
    eyes: Eyes,
    notes: Sequence[str],
    recent: Mapping[int, Pace],
    *,
    seconds: float,
    running: bool,
) -> Packed:
    """Return what came of a run that took `seconds`, or so far. `recent`: the pace of late, by slot."""
    several = len(crew.members) > 1  # one of several by itself says nothing of all together
    best = longest([kept for kept in course.pack.kept if kept.copies > 1 or not several])
    alone = course.alone
    comparable = best is not None and alone is not None and best.pace.unit == alone.unit and alone.rate > 0
    gain = best.pace.rate / alone.rate if comparable and best is not None and alone is not None else None
    gain = gain if several else None  # of one alone it would say how two stretches of it differ
    card = eyes.places.card
    cores = best.cores / host.cores() if best is not None and best.cores is not None else None
    limit = _limit(best.busy if best is not None else None, cores)
    told = verdict(alone, best, gain, limit, has_card=not eyes.places.is_without_card)
    return Packed(
        running=running,
        phase=course.phase if running else "",
        procs=[
            _row(member, eyes, recent.get(member.task.slot), over=not running)
            for member in sorted(crew.members, key=lambda member: member.task.slot)
        ],
        mps=course.pack.through_mps,
        alone=alone.rate if alone is not None else None,
        together=best.pace.rate if best is not None else None,
        gain=gain,
        unit=best.pace.unit if best is not None else alone.unit if alone is not None else "",
        at_once=best.copies if best is not None else 0,
        limit=limit,
        device=card.device.name if card is not None else "",
        compute_mode=card.mode_name if card is not None else "",
        device_busy=best.busy if best is not None else None,
        cpu_busy=cores,
        verdict="" if running else told,
        notes=list(notes),
        exit_code=None if running else crew.status,
        wall_s=seconds,
    )


def longest(kept: Sequence[WindowMeans]) -> WindowMeans | None:
    """Return the window in which most ran at once; of those the longest."""
    return max(kept, key=lambda one: (one.copies, one.seconds), default=None)


def _limit(busy: float | None, cores: float | None) -> str:
    if busy is not None and busy >= FULL:
        return "device"
    return "CPUs" if cores is not None and cores >= FULL else ""


def verdict(alone: Pace | None, best: WindowMeans | None, gain: float | None, limit: str, *, has_card: bool) -> str:
    """Return in words what all did together, and whether that paid; nothing where it was not measured."""
    if best is None:
        return "" if has_card else "there is no GPU here: they ran on the CPUs"
    both = f"{best.copies} at once did {number(best.pace.rate)} {best.pace.unit}"
    parts = [both if alone is None or gain is None else f"{both}, one alone {number(alone.rate)}: x{gain:.2f}"]
    if gain is not None and best.copies > 1:
        if gain < 0.98:  # gain below which one after the other is faster
            parts.append("that does not pay: one after the other is faster")
        elif gain < 1.05:  # gain from which it is worth the trouble
            parts.append("that hardly pays")
    if limit == "device":
        parts.append("the device is full")
    elif limit == "CPUs":
        what = "not the device, " if has_card else ""
        parts.append(
            f"the CPUs are the limit, {what}and the copies starve each other: fewer copies, or fewer workers each"
        )
    if not has_card:
        parts.append("there is no GPU here: they ran on the CPUs")
    return "; ".join(parts)


def _row(member: Member, eyes: Eyes, recent: Pace | None, *, over: bool) -> ProcRow:
    task = member.task
    use, count = eyes.gauge.use(task.slot), eyes.progress.count(task.slot)
    speed = eyes.logs.metrics[task.slot].mean() if eyes.logs.has_metric else _mean(eyes, task.slot, count)
    return ProcRow(
        index=task.slot,
        pid=member.pid,
        exit_code=member.code if over or member.state == "ended" else None,  # else that of an earlier start
        log=str(Path(task.log).absolute()),
        wall_s=member.wall,
        samples_per_s=speed.rate if speed is not None else None,
        name=task.name if task.job.name else "",
        state="paused" if member.paused else member.state,
        why=member.why,
        attempts=max(1, member.attempts),
        batches=eyes.progress.made(task.slot),
        unit=speed.unit if speed is not None else "",
        recent=recent.rate if recent is not None and speed is not None and recent.unit == speed.unit else None,
        device_memory=use.device_peak,
        host_memory=max(use.host_peak or 0.0, float(member.peak)) or None,
        device_share=use.share,
        card=task.card,
        trial=member.trial,
    )


def _mean(eyes: Eyes, slot: int, count: TaskCounts) -> Pace | None:
    first = eyes.progress.first(slot)
    return between(first, count) if first is not None else None
