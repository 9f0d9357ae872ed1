"""What the `frequent-…` advisors share: a pause every so many steps, and the interval that it deserves."""

import math
from dataclasses import dataclass, replace

from gputune.core.figures import MOSTLY, TINY, mean
from gputune.core.finding import Effect, Finding, Speedup
from gputune.features import Features, Place, Process
from gputune.model.concurrency import changed
from gputune.model.pause_overhead import Aftermath, aftermath
from gputune.model.prediction import ERROR, Outlook, interval, known, unsteady
from gputune.model.replay import Work
from gputune.model.workload import device_between

AFFORDABLE = 0.01  # of the loop: a pause that takes less is nobody's problem
ROUND = (1, 2, 5)  # intervals people type
OWN = "that of its DataLoader"  # a generator
EACH = 0.9  # of the steps: with pauses in so many, each step has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How an advisor names its pause."""

    id: str
    span: str
    one: str  # "a checkpoint"
    verb: str  # "save"
    change: str  # the setting's name in `change`
    least: float  # share of the loop from which on it is worth saying
    affordable: float = AFFORDABLE  # share of the loop that the advised interval leaves it


def advise_pause(run: Features, words: Words) -> Finding | None:
    """Return the finding for the process that loses most to this pause, or None."""
    worst = max(run.processes, key=lambda p: _share(p, words.span), default=None)
    if worst is None or _share(worst, words.span) < words.least:
        return None
    return _finding(run, worst, words)


def _share(process: Process, span: str) -> float:
    return process.in_loop.get(span, 0.0) / process.loop if process.loop else 0.0


def rarer(factor: float) -> int:
    """Return the smallest round factor that is at least `factor`: 2, 5, 10, 20, 50 and so on."""
    power = 1
    while True:
        for digit in ROUND:
            if digit * power >= max(2.0, factor):
                return digit * power
        power *= 10


def _finding(run: Features, process: Process, words: Words) -> Finding:
    share = _share(process, words.span)
    places = [p for p in process.places if p.span == words.span]
    place = places[0] if places else Place(span=words.span, where="", what="", count=0, seconds=0.0)
    steps = process.steps
    count = _pauses(process, place, steps)
    factor = rarer(share / words.affordable)
    gain = pause_gain(run, process, words.span, 1 / factor)
    each = place.seconds / count if count else 0.0
    every = place.every or (max(1, round(steps / count)) if count else 1)
    interval = math.ceil(every * factor)
    often = _often(count, steps, place.every)
    effect, because = effect_of_rarer(process, words)
    details = ", ".join([f"{each * 1e3:.3g} ms each", *filter(None, [place.what, _waiting(place)])])
    return Finding(
        id=words.id,
        says=(
            f"{words.one} {often} takes {share:.0%} of the loop{_whose(run, process, words.span)}"
            + (f" ({details})" if place.what else "")
        ),
        do=f"{words.verb} every {_steps(interval)} instead of every {_steps(every)}",
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis=(
            f"the measured pauses, all but one in {factor}, and what the rounds after them take longer, taken off the "
            "loop, down to what its loader can deliver"
        ),
        falsified_by=f"samples/s with an interval of {_steps(interval)} below x{gain.low:.2f} of this run's",
        effect=effect,
        because=because,
        evidence={"share": share, "count": count, "each_s": each, "steps": steps, "factor": factor},
        where=place.where,
        change={words.change: interval},
    )


def effect_of_rarer(process: Process, words: Words) -> tuple[Effect, str]:
    """Return what it does to the training's results that such pauses come more rarely, and why.

    Nothing, where the random generators were looked at and none was moved by one. Else what is drawn after it is other:
    the order of samples, what falls out, augmentations. Where nobody looked, that is not known.
    """
    drawn = process.draws.get(words.span)
    if drawn is None:
        return "unknown", f"whether {words.one} draws random numbers was not seen"
    if drawn.of:
        same = "the same generator as the training" if drawn.shared else "a generator that the training may use"
        return (
            "changes-order",
            f"{words.one} draws from {same} ({', '.join(map(_generator, sorted(drawn.shared or drawn.of)))})",
        )
    if drawn.unsure:
        return (
            "unknown",
            f"whether {words.one} draws random numbers was not seen apart from what the training draws after it",
        )
    return "identical", ""


def _generator(name: str) -> str:
    return OWN if name == "own" else name


def _pauses(process: Process, place: Place, steps: int) -> int:
    """Return how many pauses the costliest line makes: several calls of it between two batches are one.

    A model and its optimizer, or a file and its fsync, are saved at once, and a checkpoint may have a file a tensor.
    Where each step has them, they are as many as the calls.
    """
    loaders = [loader for loader in process.loaders if loader.training and loader.pauses.get(place.span)]
    series = max((loader.pauses[place.span] for loader in loaders), key=len, default=())
    share = sum(pause > 0 for pause in series) / len(series) if series else 1.0
    return min(place.count, max(1, round(share * steps))) if share < EACH else place.count


def _whose(run: Features, process: Process, span: str) -> str:
    """Return whose loop it is, where other ranks lose little to such pauses: a bar of all of them shows it small."""
    others = [_share(p, span) for p in run.processes if p is not process and p.rank is not None and p.loop > 0]
    # most of a pause, or of what a rank loses to it: from here on the sentence says so
    alone = others and max(others) < MOSTLY * _share(process, span)
    return f" of rank {process.rank}" if alone and process.rank is not None else ""


def _waiting(place: Place) -> str:
    """Return how much of a pause the ledger calls a wait for batches, where that is most of it."""
    share = place.waits_inside / place.seconds if place.seconds else 0.0
    return f"{min(1.0, share):.0%} of it loader.wait" if share > MOSTLY else ""


def _often(count: int, steps: int, every: int | None = None) -> str:
    """Return how often a pause comes: `every 10 steps`, `8 times a step`; `every` is what was counted."""
    if every is not None and every > 1:
        return f"every {_steps(every)}"
    if count >= 2 * steps > 0:
        return f"{round(count / steps)} times a step"
    return f"every {_steps(max(1, round(steps / count)) if count else 1)}"


def _steps(number: int) -> str:
    return "step" if number == 1 else f"{number} steps"


def pause_gain(run: Features, process: Process, span: str, keep: float) -> Speedup:
    """Return what it buys to keep only the share `keep` of all pauses of a span kind in a process's loop.

    A pause may cost more than itself (`pause_overhead.py`). But workers fill their queues in a pause, so a loop cannot
    get faster than its loader by losing its pauses (nor than a thread of the script's that takes its batches), nor than
    the device, which may go on as well; an evaluation's work on the device goes with it. Where it is not known
    whether the device goes on, it does so at the low end.

    By how much the rounds in between may differ from those of a run without pauses widens the interval, for two runs
    are compared. The pauses themselves were measured, in this one: whether they are told is decided without it, and
    what may be wrong is a share of them and not of the loop.
    """
    total = process.in_loop.get(span, 0.0)
    if total <= 0 or process.loop <= 0:
        return interval(1.0, ERROR)
    found = known(run, process)
    beyond = _beyond(found[0], span) if found else Aftermath(0.0, 0.0, 0)
    apart = max((x.apart or 0.0 for x in process.loaders if x.training), default=0.0) * process.loop
    idle, busy = (max(apart, floor) for floor in _on_device(run, process, span))

    def gain(more: float, floor: float) -> float:
        limit = max([floor, *(_fastest_without(outlook, span, more) for outlook in found)])
        most = min(max(0.0, process.loop - limit), 0.99 * process.loop)
        return process.loop / (process.loop - min(most, max(0.0, total + beyond.seconds + more) * (1 - keep)))

    low, likely, high = gain(-beyond.unsure, busy), gain(0.0, idle), gain(beyond.unsure, idle)
    wide = ERROR + unsteady(run)
    return Speedup(low=low * (1 - wide), likely=likely, high=high * (1 + wide), steady=1 + (low - 1) * (1 - ERROR))


def _beyond(outlook: Outlook, span: str) -> Aftermath:
    """Return what the loop loses to a kind of pause beyond the pauses themselves, all of them together."""
    pauses = outlook.loader.pauses.get(span, ())
    found = aftermath(outlook.loader, span)
    count = sum(pause > 0 for pause in pauses) / max(1, len(pauses)) * outlook.loader.batches
    return Aftermath(found.seconds * count, found.unsure * count, found.apart)


def _fastest_without(outlook: Outlook, span: str, more: float) -> float:
    """Return the s that the loader needs for this loop's batches when it has no pauses in which to catch up.

    `more` is what they cost all steps of the loop together beyond what is likely. Nothing where rounds were seen so far
    from any pause that they tell it themselves.
    """
    loader, now = outlook.loader, outlook.now
    pauses, found = loader.pauses.get(span, ()), aftermath(loader, span)
    if not now.workers or found.apart > now.workers * now.prefetch or not pauses:
        return 0.0
    often = sum(pause > 0 for pause in pauses) / len(pauses)
    step = max(0.0, outlook.stepping - mean(pauses) - found.seconds * often - more / max(1, loader.batches))
    cpu = min(step, outlook.step_cpu)
    width = max((step.width for step in outlook.job.steps), default=1.0)
    job = changed(outlook.job, replace(outlook.job, steps=(Work(cpu, step - cpu, width),), floor=0.0))
    jobs = (job, replace(outlook.job, floor=0.0))
    paced, usual = (each.seconds(now.workers, now.prefetch, in_order=loader.in_order) for each in jobs)
    return paced * min(1.0, outlook.per_batch / max(TINY, usual)) * loader.batches


def _on_device(run: Features, process: Process, span: str) -> tuple[float, float]:
    """Return the s of the loop that the device works, if it idles in such pauses and if it goes on in them.

    Only pauses between two batches of a loader count: there the device's clock runs on.
    """
    if span == "evaluation":
        return 0.0, 0.0
    steps = max(1, process.steps)
    loaders = [loader for loader in process.loaders if loader.training]
    paused = max((mean(loader.pauses.get(span, ())) * loader.batches for loader in loaders), default=0.0)
    least, most = device_between(run, process, process.loop / steps, paused / steps)
    return least * steps, most * steps
