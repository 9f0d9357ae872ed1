"""A run in one sentence, where no finding says it: that it is well, that it cannot be told, or why there is nothing."""

from gputune.core.events import AROUND_LOOP
from gputune.core.figures import MOSTLY
from gputune.core.finding import AROUND
from gputune.core.hygiene import clean
from gputune.features import SURE
from gputune.report import attached, ending
from gputune.report.words import likely, percent
from gputune.verdict.arbitration import PAUSES
from gputune.verdict.device_ledger import UNKNOWN
from gputune.verdict.document import RECORDER, RECORDING, RINGS, LoaderRow, Sighted, Verdict, why_of
from gputune.verdict.paced import SETS

NAME, TEXT = 60, 300  # characters of any one name, and text, from outside
HOT = 0.5  # share of the stacks outside of next() that makes a place worth naming
QUIET_LOADER = 0.05  # share of the time after start-up in loader.wait, below which the loader is not the matter
INNER_WATCH = "another `gputune watch` inside this one"  # as probes/unseen.py says it
FULL_QUEUE = "launch.wait"  # a part of the step that is no work of the host's
FOR_DEVICE = ("sync", "copy.h2d", FULL_QUEUE)  # in which the training thread waits for it
TOLD_PAUSE = 0.05  # share of the time after start-up: from here on the step is not all that there is to the loop
MUCH_WAITING = 0.2  # share of the time after start-up, or of the loop in lines that train nothing: no run is well then
THREAD, UNSEEN = "the training thread", "unseen"
NOTHING = "nothing found that is worth changing"
STACKS = "stacks"  # the probe that sees it
UNSURE = "no change was found that is sure to help"


def sentence(verdict: Verdict) -> str:
    """Return it; nothing where findings speak for the run."""
    if not any(row.share > 0 for row in verdict.ledger):
        return _nothing(verdict)
    if verdict.attached is not None:
        return attached.sentence(verdict)
    if verdict.abstained:
        return _abstained(verdict)
    if all(finding.offer for finding in verdict.findings):
        return _healthy(verdict)
    around_it = all(finding.offer or finding.id in AROUND for finding in verdict.findings)
    return f"in the script itself, {_healthy(verdict)}" if around_it else ""


def well(verdict: Verdict) -> bool:
    """Return whether a run was seen, judged, and nothing was found: what is only offered is no cause."""
    judged = verdict.attached is None and not verdict.abstained
    return judged and all(finding.offer for finding in verdict.findings)


def _abstained(verdict: Verdict) -> str:
    """Return why nothing is predicted: that it came to its end too early, where it did, and is not to run longer."""
    if verdict.exit_code:
        seen = f"{verdict.batches:,} batch{'' if verdict.batches == 1 else 'es'}"
        return f"the command {ending.failed(verdict)} after {seen}, too few to predict anything from"
    if any(row.probe == RECORDING for row in verdict.unavailable):
        return verdict.abstained
    return f"{verdict.abstained}; let it run longer"


def _healthy(verdict: Verdict) -> str:
    """Return that nothing is to be gained, and what the time went to."""
    after = 1.0 - _around(verdict)
    step = (share(verdict, "step") + share(verdict, FULL_QUEUE)) / after if after > 0 else 0.0
    waiting, queues = (share(verdict, name) / after if after > 0 else 0.0 for name in ("loader.wait", "queue.wait"))
    lost = bool(aside(verdict) or _unread(verdict))
    nothing = UNSURE if verdict.perhaps or lost else NOTHING
    if queues >= QUIET_LOADER:
        return f"{UNSURE}: {percent(queues)} of the time after start-up it waits at a queue of its own{_more(verdict)}"
    if not any(loader.training for loader in verdict.loaders):
        return f"{nothing}: {percent(step)} of the time after start-up is the step{_more(verdict)}"
    if apart := [loader for loader in verdict.loaders if loader.training and loader.apart is not None]:
        return f"{nothing}: {percent(step)} of the time after start-up is the step{_more(verdict)}; {_apart(apart)}"
    if waiting < QUIET_LOADER:
        who = pace(verdict)
        found = UNSURE if who == UNSEEN or lost else "nothing to gain from the loader"
        return f"{found}: {percent(step)} of the time after start-up is the step{_more(verdict)}{_measured(who)}"
    makers = _making(verdict) if waiting >= MUCH_WAITING else ""
    told = (
        f"{percent(waiting)} of the time after start-up is loader.wait{makers}, "
        f"{percent(step)} the step{_more(verdict)}{_measured(pace(verdict))}"
    )
    if waiting >= MOSTLY:
        return f"the loader holds it up: {told}; {UNSURE}"
    return f"{UNSURE if waiting >= MUCH_WAITING else nothing}: {told}"


def pace(verdict: Verdict) -> str:
    """Return who sets the pace of the loop, as slowing its thread down has shown; "" where that is not known."""
    looping = [row for row in verdict.processes if row.seen and row.loop_s]
    told = [(row.pace, row.pace_error) for row in looping if row.pace is not None and row.pace_error is not None]
    if not told or len(told) < len(looping):
        return ""
    # so much of a delay that shows in the rounds: from here on the thread sets their pace
    if any(slope - SURE * error > SETS for slope, error in told):
        return THREAD
    if any(slope + SURE * error > SETS for slope, error in told):
        return ""
    if share(verdict, "loader.wait") >= QUIET_LOADER * (1.0 - _around(verdict)):
        return "the loader"
    return "the device" if verdict.device.count else UNSEEN


def _measured(who: str) -> str:
    """Return that in words."""
    if who == UNSEEN:
        return "; slowed down, the training made up for it: it waits for something that is not seen here"
    return f"; measured: {who} sets the pace" if who else ""


def _making(verdict: Verdict) -> str:
    """Return where whoever makes the batches is for most of that time: what to look at, where no change is sure.

    Of a run that was over before the first stack was taken, that a longer one shows it.
    """
    making = verdict.making
    if making is None and not verdict.frames and not why_of(STACKS, verdict.unavailable):
        return " (what its batches are made of shows in a longer run)"
    if making is None or making.low < HOT or not making.where:
        return ""
    return f" ({percent(making.share)} of making a batch at {clean(making.where, NAME)}, {clean(making.what, NAME)})"


def _apart(loaders: list[LoaderRow]) -> str:
    """Return what is known where a thread of the script's takes the batches: for the training it is all one step."""
    busiest = max(loaders, key=lambda loader: loader.apart or 0.0)
    waits = f"another thread takes its batches, and is in next() {percent(min(1.0, busiest.apart or 0.0))} of the time"
    # A thread that is in next() for 0.9 of its time or more hardly waits for anybody else
    if (busiest.apart or 0.0) < 0.9:
        return f"{waits}: it waits for the training"
    return f"{waits}: if the training waits for that thread, more num_workers help, by how much is not known"


def _more(verdict: Verdict) -> str:
    """Return what else is to be said of the step: where most of it goes, and which pauses come beside it."""
    after = 1.0 - _around(verdict)
    shares = {name: share(verdict, name) / after for name in PAUSES.values()} if after > 0 else {}
    told = [f"{name} {percent(share)}" for name, share in shares.items() if share >= TOLD_PAUSE]
    where = (aside(verdict) or _hot(verdict)) + _unread(verdict)
    return _behind(verdict) + where + (f"; {', '.join(told)}" if told else "")


def aside(verdict: Verdict) -> str:
    """Return which of the script's own lines take much of the loop and train nothing; "" where none surely do."""
    found = verdict.aside
    if found is None or found.low < MUCH_WAITING:
        return ""
    return (
        f"; {percent(found.share)} of the loop is in lines that neither run a model nor train, mostly at "
        f"{clean(found.where, NAME)} in {clean(found.function, NAME)}: at most {likely(found.ceiling)} without them"
    )


def _unread(verdict: Verdict) -> str:
    """Return that much of the loop waits for a device of which it was not measured what it has to do; "" elsewhere."""
    after = 1.0 - _around(verdict)
    waited = sum(share(verdict, name) for name in FOR_DEVICE) / after if after > 0 else 0.0
    unknown = sum(row.share for row in verdict.device_ledger if row.part == UNKNOWN)
    if waited < MUCH_WAITING or unknown < HOT:
        return ""
    return f"; {percent(waited)} waits for the device, and how much that has to do is not known yet: let it run longer"


def _behind(verdict: Verdict) -> str:
    """Return which part of the steps is no work of the host's, but standing in launches for a device that is behind."""
    stood, own = share(verdict, FULL_QUEUE), share(verdict, "step")
    if stood < TOLD_PAUSE:
        return ""
    return f", {percent(stood / (stood + own))} of it waiting for the device in launches: its queue is full"


def _hot(verdict: Verdict) -> str:
    """Return where most of the step goes, if that is neither the model's work nor known by a span."""
    hot = next((frame for frame in verdict.frames if frame.share >= HOT and not frame.compute), None)
    return f"; most of it at {clean(hot.where, NAME)} in {clean(hot.function, NAME)}" if hot else ""


def _nothing(verdict: Verdict) -> str:
    """Return why there is no ledger, as far as it is known."""
    unheard = [p for p in verdict.processes if not p.seen]
    if inner(verdict):
        return f"{clean(unheard[0].why, TEXT)}: its verdict is the one on this training"
    if unheard:
        return _from_outside(verdict)
    sighted = verdict.sighted
    if lost := why_of(RECORDER, verdict.unavailable) or why_of(RINGS, verdict.unavailable):
        return f"no training was seen up to then: {clean(lost, TEXT)}"
    if verdict.error is not None or failed_early(verdict):
        return f"the command {ending.failed(verdict)} {_before(verdict)}"
    if sighted is None:
        return "no training was seen: no DataLoader was iterated and no optimizer made a step"
    return f"no training was seen: {_instead(sighted)}"


def _instead(sighted: Sighted) -> str:
    """Return what was seen where no training was."""
    if not sighted.python:
        return "the command started no Python that gputune could reach"
    if not sighted.torch:
        used = " and did not use torch" if sighted.python == 1 else ", none of them used torch"
        return f"{_pythons(sighted.python)} ran{used}"
    return "torch was used, but no DataLoader was iterated and no optimizer made a step"


def _before(verdict: Verdict) -> str:
    """Return how far a command that failed had come: what it said itself is the reason."""
    sighted = verdict.sighted
    if sighted is not None and not sighted.python:
        return "and had started no Python that gputune could reach"
    used = verdict.error is not None or (sighted is not None and sighted.torch)
    return "before it trained" if used else "before it used torch"


def failed_early(verdict: Verdict) -> bool:
    """Return whether the command failed and nobody in it had trained."""
    return bool(verdict.exit_code) and not verdict.processes and verdict.sighted is not None


def inner(verdict: Verdict) -> bool:
    """Return whether all that trained was listened to by a watch inside this one."""
    return bool(verdict.processes) and all(not p.seen and INNER_WATCH in p.why for p in verdict.processes)


def _from_outside(verdict: Verdict) -> str:
    """Return what the stacks say of a training that was not seen from inside."""
    if not verdict.frames:
        return "no training was seen from inside, so nothing can be said of its time"
    shares: dict[str, float] = {}
    for frame in verdict.frames:  # one line of code may be there twice: computing, and not
        where = f"{clean(frame.where, NAME)} in {clean(frame.function, NAME)}"
        shares[where] = shares.get(where, 0.0) + frame.share
    # Three places are named of a training of which there are only stacks
    most = sorted(shares.items(), key=lambda item: -item[1])[:3]
    said = ", ".join(f"{percent(share)} at {where}" for where, share in most)
    return f"no training was seen from inside; its stacks were {said}"


def _pythons(count: int) -> str:
    return "one Python process" if count == 1 else f"{count} Python processes"


def _around(verdict: Verdict) -> float:
    """Return the share of what comes before the loop and after it."""
    return sum(share(verdict, span) for span in AROUND_LOOP)


def share(verdict: Verdict, span: str) -> float:
    """Return a word's share of the ledger."""
    return sum(row.share for row in verdict.ledger if row.span == span)
