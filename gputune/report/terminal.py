"""The verdict on a terminal: where the time went, why, what the fix is worth, and what to type next.

At most fifteen lines of eighty columns, more only where they are shorter; readable without colour. What is too long for
a line is wrapped; only the command itself is cut. Every string that came from the watched run passes `hygiene.clean`.
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePath
from textwrap import wrap

from gputune.advised import AT
from gputune.device_ledger import UNKNOWN
from gputune.document import (
    RECORDER,
    RECORDING,
    TRIED,
    DeviceRow,
    FindingRow,
    LoaderRow,
    ProcessRow,
    Sighted,
    Verdict,
    why_of,
)
from gputune.events import AROUND_LOOP
from gputune.features import COVERED
from gputune.figures import duration
from gputune.finding import AROUND, TOGETHER, WITHOUT_EDIT, Severity
from gputune.hygiene import clean
from gputune.report import attached, ending, exhausted, troubled, unmeasured
from gputune.report.bar import SMALLEST, bar, legend, parts
from gputune.report.ranks import counted, rank_rows
from gputune.report.spent import sentence as spent
from gputune.report.tuned import sentence as tuned
from gputune.report.words import clip, likely, number, percent, times
from gputune.rivals import CLOSE, INSTEAD, PAUSES

NARROWEST = 40  # columns: below it no sentence can be set
WIDEST = 100  # columns: longer lines are harder to read
LINES = 15  # of USUAL columns; more is not read between two runs
USUAL = 80  # columns
FINDINGS = 3  # shown; the document holds all of them
WHOLE = 9  # lines: no sentence of an advisor has more
# (findings shown, lines for each of their sentences), best first: the first that keeps to LINES is taken
SIZES = ((FINDINGS, WHOLE), (2, WHOLE), (1, WHOLE), (1, 2), (1, 1))
TEXT = 300  # characters of any one string from outside
NAME = 60  # characters of the command in the first line
LONG_STARTUP = 0.5  # share of the run: above it the ledger says more of importing than of training
SHORT = 30.0  # s of a run, below which its bar is the loop's: start-up is the most of it, and does not grow with it
TOLD_AROUND = 0.01  # of such a run, from which on its start-up or teardown is told
SAID = {"startup": "start-up"}  # words of the ledger that are others in a sentence
OUTSIDE = 3  # places named of a training that only stacks were taken of
HOT = 0.5  # share of the stacks outside of next() that makes a place worth naming
TOLD_STOP = 0.5  # s in which the training was stopped that are worth a line; the ledger leaves out shorter ones too
TOLD_THEFT = 0.05  # of the CPU time wanted, given to others by a host: two runs differ by as much as changes are worth
QUIET_LOADER = 0.05  # share of the time after start-up in loader.wait, below which the loader is not the matter
THREAD_BUSY = 0.9  # of its time in next(): from here on the thread that takes the batches hardly waits for anybody else
INNER_WATCH = "another `gputune watch` inside this one"  # as probes/unseen.py says it
FULL_QUEUE = "launch.wait"  # a part of the step that is no work of the host's
TOLD_PAUSE = 0.05  # share of the time after start-up: from here on the step is not all that there is to the loop
MUCH_WAITING = 0.2  # share of the time after start-up: from here on nobody would call a run without a finding well
NOTHING = "nothing found that is worth changing"
UNSURE = "no change was found that is sure to help"
AFTER_LAST = "   "  # the indent under a finding's number

EFFECTS = {
    "identical": "",
    "same-order": "same order of samples, other randomness in augmentation",
    "changes-order": "the order of the samples may change",
    "changes-rounding": "numbers are rounded differently: compare the loss",
    "changes-learning": "the training learns differently: check the learning rate",
    "may-duplicate": "samples may come twice unless the dataset shards itself",
    "unknown": "not known: compare the loss",
}
COLOURS = {"high": "31", "medium": "33", "low": "36"}
Paint = Callable[[str, str], str]


def render(
    verdict: Verdict, *, width: int = 80, colour: bool = False, run_folder: str | None = None, again: bool = False
) -> str:
    """Return the verdict in lines of at most `width` columns, without a newline at its end.

    `run_folder` is what the user would type after `gputune report`; None where nothing was recorded. With `again` they
    have just typed it.
    """
    width = min(max(NARROWEST, width), WIDEST)

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    above = [*_header(verdict, width, paint), *_ledger(verdict, width, colour=colour)]
    above += rank_rows(verdict.processes, width)
    below = wrap(_perhaps(verdict), width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)
    below += [*wrap(tuned(verdict), width, subsequent_indent=AFTER_LAST), *_notes(verdict, width)]
    below += _next(verdict, width, run_folder, again=again)
    room = max(LINES, LINES * USUAL // width)
    for findings, each in SIZES:
        lines = [*above, *_findings(verdict, width, paint, findings, each), *below]
        if len(lines) <= room:
            break
    return "\n".join(lines)


def _header(verdict: Verdict, width: int, paint: Paint) -> list[str]:
    """Return what ran, for how long, and how fast."""
    facts = [duration(verdict.wall_s) + _before_loop(verdict)]
    if verdict.samples_per_s is not None:
        facts.append(f"{number(verdict.samples_per_s)} samples/s")
    elif verdict.steps_per_s is not None:
        facts.append(f"{number(verdict.steps_per_s)} steps/s")
    if verdict.batches:
        facts.append(f"{verdict.batches:,} batches")
    facts += filter(None, [counted(verdict.processes)])
    if verdict.device.name:
        busy = "" if verdict.device.busy is None else f" {percent(verdict.device.busy)} busy{_partly(verdict.device)}"
        count = f"{verdict.device.count} × " if verdict.device.count > 1 else ""
        facts.append(f"{count}{clean(verdict.device.name, NAME)}{busy}")
    if verdict.exit_code:
        facts.append(ending.status(verdict.exit_code))
    command = shlex.join(PurePath(word).name if word.startswith("/") else word for word in verdict.command)
    first, *rest = _flowed([f"gputune: {clean(command, NAME)}", *facts], width)
    return [paint("gputune:", "1") + first.removeprefix("gputune:"), *rest]


def _partly(device: DeviceRow) -> str:
    """Return of how much of the loop a device's figures are, where that is not nearly all of it, and why."""
    if device.coverage is None or device.coverage >= COVERED:
        return ""
    why = f": {clean(device.why, TEXT)}" if device.why else ""
    return f" in the {percent(device.coverage)} of the loop in which it was read{why}"


def _before_loop(verdict: Verdict) -> str:
    """Return the start-up of a short run as a figure: its bar is the loop's."""
    told = [f"{duration(s)} {name}" for name, s in _left_out(verdict).items() if s >= TOLD_AROUND * verdict.wall_s]
    return f" ({', '.join(told)})" if told else ""


def _left_out(verdict: Verdict) -> dict[str, float]:
    """Return the s of start-up and teardown where a bar goes without: those of a short run say little of its loop."""
    if verdict.wall_s >= SHORT or verdict.attached is not None or verdict.loop_s <= 0:
        return {}
    return {SAID.get(row.span, row.span): row.seconds for row in verdict.ledger if row.span in AROUND_LOOP}


def _flowed(facts: list[str], width: int) -> list[str]:
    """Return the facts in as many lines as they need, none of them broken between unless it is longer than a line."""
    lines = [clip(facts[0], width)]
    for fact in facts[1:]:
        longer = f"{lines[-1]} · {fact}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], *indented(fact, width, most=WHOLE)]
    return lines


def _ledger(verdict: Verdict, width: int, *, colour: bool) -> list[str]:
    """Return where the time went, and a sentence where no finding says what follows from it."""
    loop = [row for row in verdict.ledger if row.span not in AROUND_LOOP] if _left_out(verdict) else verdict.ledger
    shown = parts(loop or verdict.ledger, width)
    if not shown:
        return wrap(_nothing(verdict), width)
    drawn = [bar(shown, width, colour=colour), legend(shown, colour=colour), *_on_device(verdict, width)]
    if verdict.attached is not None:
        return [*drawn, *wrap(attached.sentence(verdict), width)]
    if verdict.abstained:
        return [*drawn, *wrap(_abstained(verdict), width)]
    if all(finding.offer or finding.id in AROUND for finding in verdict.findings):
        alone = all(finding.offer for finding in verdict.findings)
        said = _healthy(verdict) if alone else f"in the script itself, {_healthy(verdict)}"
        return [*(drawn[1:] if alone else drawn), *wrap(said, width)]
    if _share(verdict, "startup") >= LONG_STARTUP:
        return [*drawn, *wrap(f"start-up left out, this is about the {duration(verdict.loop_s)} of training:", width)]
    return drawn


def _abstained(verdict: Verdict) -> str:
    """Return why nothing is predicted: that it came to its end too early, where it did, and is not to run longer."""
    if verdict.exit_code:
        seen = f"{verdict.batches:,} batch{'' if verdict.batches == 1 else 'es'}"
        return f"the command {ending.failed(verdict)} after {seen}, too few to predict anything from"
    if any(row.probe == RECORDING for row in verdict.unavailable):
        return verdict.abstained
    return f"{verdict.abstained}; let it run longer"


def _on_device(verdict: Verdict, width: int) -> list[str]:
    """Return what the device did in the loop by its own clock, if that was measured."""
    rows = [row for row in verdict.device_ledger if row.share >= SMALLEST]
    if not rows or rows[0].part == UNKNOWN:
        return []
    return wrap(f"its device: {', '.join(f'{row.part} {percent(row.share)}' for row in rows)}", width)


def _findings(verdict: Verdict, width: int, paint: Paint, most: int, each: int) -> list[str]:
    """Return the first finding whole, the others with what to do."""
    lines = []
    for index, finding in _told(verdict.findings, most):
        lines += _title(index, finding, width, paint)
        if index == 1:
            lines += _whole(finding, width, each)
        else:
            lines += indented(clean(finding.risk, TEXT), width, most=each) if finding.risk else []
            lines += indented(f"do: {clean(finding.do, TEXT)}", width, most=each)
    return lines


def _told(findings: Sequence[FindingRow], most: int) -> list[tuple[int, FindingRow]]:
    """Return so many of the findings by their numbers; one more where none of them is what ends the run before long."""
    numbered = list(enumerate(findings, start=1))
    ends = [row for row in numbered if row[1].risk and row[1].severity == Severity.HIGH.value]
    return numbered[:most] + [row for row in ends[:1] if row[0] > most]


def _title(index: int, finding: FindingRow, width: int, paint: Paint) -> list[str]:
    """Return a finding's name, gain and place: in one line, or with what does not fit in the next."""
    where = f"at {clean(finding.where, NAME)}" if finding.where else ""
    name = clean(finding.id, NAME)
    lines = [f"{index}. {name}"]
    for part in filter(None, (_worth(finding) + _or(finding), where)):
        longer = f"{lines[-1]}  {part}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], *indented(part, width, most=WHOLE)]
    return [lines[0].replace(name, paint(name, f"1;{COLOURS.get(finding.severity, '0')}"), 1), *lines[1:]]


def _worth(finding: FindingRow) -> str:
    """Return the predicted gain, and what else the finding is; of a risk or an offer without a gain that alone."""
    kind = "risk" if finding.risk else "offer" if finding.offer else ""
    if kind and finding.speedup.likely <= 1:
        return kind
    said = times(finding.speedup, finding.steady)
    return f"{said}{', measured' if TRIED in finding.evidence else ''}{kind and f', {kind}'}"


def _or(finding: FindingRow) -> str:
    """Return the best of the silent rivals that promise about as much, or more: another change may suit better."""
    rivals = {n.removeprefix(INSTEAD): gain for n, gain in finding.evidence.items() if n.startswith(INSTEAD)}
    best = max(rivals, key=lambda name: rivals[name], default="")
    if not best or rivals[best] * CLOSE < finding.speedup.likely:
        return ""
    return f"; or instead {clean(best, NAME)} {likely(rivals[best])}"


def _perhaps(verdict: Verdict) -> str:
    """Return the best of what may help without being sure to."""
    if not verdict.perhaps:
        return ""
    best = verdict.perhaps[0]
    where = f" at {clean(best.where, NAME)}" if best.where else ""
    return f"perhaps {clean(best.id, NAME)}, {_worth(best)}{where}: {clean(best.do, TEXT)}; not sure until it is tried"


def _whole(finding: FindingRow, width: int, each: int) -> list[str]:
    """Return what was seen, what will happen or can be had, what to do, and what that does to the results."""
    lines = indented(clean(finding.says, TEXT), width, most=each)
    if finding.risk or finding.offer:
        lines += indented(clean(finding.risk or finding.offer, TEXT), width, most=each)
    lines += indented(f"do: {clean(finding.do, TEXT)}", width, most=each)
    effect = ": ".join(filter(None, [EFFECTS[finding.effect], clean(finding.because, TEXT)]))
    return [*lines, *indented(f"results: {effect}", width, most=WHOLE)] if effect else lines


def _healthy(verdict: Verdict) -> str:
    after = 1.0 - _around(verdict)
    step = (_share(verdict, "step") + _share(verdict, FULL_QUEUE)) / after if after > 0 else 0.0
    waiting, queues = (_share(verdict, name) / after if after > 0 else 0.0 for name in ("loader.wait", "queue.wait"))
    nothing = UNSURE if verdict.perhaps else NOTHING
    if queues >= QUIET_LOADER:
        return f"{UNSURE}: {percent(queues)} of the time after start-up it waits at a queue of its own{_more(verdict)}"
    if not any(loader.training for loader in verdict.loaders):
        return f"{nothing}: {percent(step)} of the time after start-up is the step{_more(verdict)}"
    if apart := [loader for loader in verdict.loaders if loader.training and loader.apart is not None]:
        return f"{nothing}: {percent(step)} of the time after start-up is the step{_more(verdict)}; {_apart(apart)}"
    if waiting < QUIET_LOADER:
        return (
            f"nothing to gain from the loader: {percent(step)} of the time after start-up is the step{_more(verdict)}"
        )
    found = UNSURE if waiting >= MUCH_WAITING else nothing
    return (
        f"{found}: {percent(waiting)} of the time after start-up is loader.wait, "
        f"{percent(step)} the step{_more(verdict)}"
    )


def _apart(loaders: list[LoaderRow]) -> str:
    """Return what is known where a thread of the script's takes the batches: for the training it is all one step."""
    busiest = max(loaders, key=lambda loader: loader.apart or 0.0)
    waits = f"another thread takes its batches, and is in next() {percent(min(1.0, busiest.apart or 0.0))} of the time"
    if (busiest.apart or 0.0) < THREAD_BUSY:
        return f"{waits}: it waits for the training"
    return f"{waits}: if the training waits for that thread, more num_workers help, by how much is not known"


def _more(verdict: Verdict) -> str:
    """Return what else is to be said of the step: where most of it goes, and which pauses come beside it."""
    after = 1.0 - _around(verdict)
    shares = {name: _share(verdict, name) / after for name in PAUSES.values()} if after > 0 else {}
    told = [f"{name} {percent(share)}" for name, share in shares.items() if share >= TOLD_PAUSE]
    return _behind(verdict) + _hot(verdict) + (f"; {', '.join(told)}" if told else "")


def _behind(verdict: Verdict) -> str:
    """Return which part of the steps is no work of the host's, but standing in launches for a device that is behind."""
    stood, own = _share(verdict, FULL_QUEUE), _share(verdict, "step")
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
    if _inner(verdict):
        return f"{clean(unheard[0].why, TEXT)}: its verdict is the one on this training"
    if unheard:
        return _from_outside(verdict)
    sighted = verdict.sighted
    if lost := why_of(RECORDER, verdict.unavailable):
        return f"no training was seen up to then: {clean(lost, TEXT)}"
    if verdict.error is not None or _failed_early(verdict):
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
        return "before it started a Python that gputune could reach"
    used = verdict.error is not None or (sighted is not None and sighted.torch)
    return "before it trained" if used else "before it used torch"


def _failed_early(verdict: Verdict) -> bool:
    """Return whether the command failed and nobody in it had trained."""
    return bool(verdict.exit_code) and not verdict.processes and verdict.sighted is not None


def _inner(verdict: Verdict) -> bool:
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
    most = sorted(shares.items(), key=lambda item: -item[1])[:OUTSIDE]
    said = ", ".join(f"{percent(share)} at {where}" for where, share in most)
    return f"no training was seen from inside; its stacks were {said}"


def _pythons(count: int) -> str:
    return "one Python process" if count == 1 else f"{count} Python processes"


def _notes(verdict: Verdict, width: int) -> list[str]:
    """Return how it ended if that needs words, what was not seen, and what could not be measured."""
    lines = wrap(exhausted.sentence(verdict.out_of_memory), width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)
    lines += wrap(ending.error(verdict), width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)
    for said in (troubled.failure(verdict.failures), troubled.unused(verdict.unused)):
        lines += wrap(said, width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)
    lines += wrap(ending.cause(verdict), width)
    unheard = [p for p in verdict.processes if not p.seen]
    if unheard and verdict.attached is None and not _inner(verdict):
        lines += _unheard(unheard, width)
    if verdict.stopped_s >= TOLD_STOP:
        lines += wrap(f"stopped by a signal for {duration(verdict.stopped_s)}, which is not counted here", width)
    if verdict.dropped:
        lines += wrap(f"{verdict.dropped:,} records were lost: the recorder came too late for them", width)
    if not _inner(verdict):
        lines += wrap(spent(verdict), width, subsequent_indent=AFTER_LAST)
    if verdict.stolen and verdict.stolen >= TOLD_THEFT:
        theft = f"{percent(verdict.stolen)} of the CPU time wanted"
        lines += wrap(f"the host of this virtual machine gave {theft} to others, now more, now less", width)
    if not _inner(verdict):
        lines += unmeasured.lines(verdict, width)
        lines += wrap(unmeasured.in_python(verdict.overhead), width, subsequent_indent=AFTER_LAST)
        lines += wrap(unmeasured.held_back(verdict.experiments), width, subsequent_indent=AFTER_LAST)
    return lines


def _unheard(unheard: list[ProcessRow], width: int) -> list[str]:
    """Return who could not be seen, with the reason whole: it is what the user can mend."""
    more = f" and {len(unheard) - 1} more" if len(unheard) > 1 else ""
    says = f"not seen from inside: process {unheard[0].pid}{more}: {clean(unheard[0].why, TEXT)}"
    return wrap(says, width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)


def _next(verdict: Verdict, width: int, run_folder: str | None, *, again: bool) -> list[str]:
    """Return what to type next. A command is never clipped: it is to be copied."""
    if verdict.attached is not None and not verdict.findings:
        return wrap(attached.NEXT, width)
    first = next(iter([*verdict.perhaps, *verdict.findings]), None)  # what is to be settled, before what is known
    commands = [f"gputune explain {clean(first.id, NAME)}"] if first else []
    if run_folder is not None and first is not None:
        commands += _settling(verdict, first, shlex.quote(clean(run_folder, TEXT)), again=again)
    known = _inner(verdict) or _failed_early(verdict) or verdict.out_of_memory
    if not commands and not verdict.ledger and not known:
        commands.append("gputune doctor")
    line = f"next: {' · '.join(commands)}"
    if commands and len(line) > width:
        return [f"next: {commands[0]}", *(f"      {command}" for command in commands[1:])]
    return [line] if commands else []


def _settling(verdict: Verdict, first: FindingRow, folder: str, *, again: bool) -> list[str]:
    """Return the command that shows whether a promise holds, or how to; where there is none, the verdict's own."""
    switched = verdict.tuned is not None and verdict.tuned.tries  # it cannot be proved by such a run
    if verdict.perhaps and not switched:
        place = f"{AT}{first.where}" if any(found.id == first.id for found in verdict.findings) else ""
        return [f"gputune prove {folder} {shlex.quote(clean(first.id + place, TEXT))}"]
    if first.change.keys() & WITHOUT_EDIT and not first.change.keys() & TOGETHER and not switched:
        return [f"gputune prove {folder}"]
    return [] if again else [f"gputune report {folder}"]


def _around(verdict: Verdict) -> float:
    """Return the share of what comes before the loop and after it."""
    return sum(_share(verdict, span) for span in AROUND_LOOP)


def _share(verdict: Verdict, span: str) -> float:
    return sum(row.share for row in verdict.ledger if row.span == span)


def indented(text: str, width: int, *, most: int) -> list[str]:
    """Return `text` in at most `most` lines under a finding's title."""
    return wrap(
        text,
        width,
        initial_indent=AFTER_LAST,
        subsequent_indent=AFTER_LAST,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=False,
    )
