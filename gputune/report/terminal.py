"""The verdict on a terminal: where the time went, why, what the fix is worth, and what to type next.

At most fifteen lines of eighty columns, more only where they are shorter, or where what to do takes more than one:
what can be acted on is never cut. Readable without colour. What is too long for a line is wrapped. Every string that
came from the watched run passes `hygiene.clean`.
"""

from collections.abc import Callable, Sequence
from textwrap import wrap

from gputune.core.events import AROUND_LOOP
from gputune.core.figures import duration
from gputune.core.finding import Severity
from gputune.core.hygiene import PHRASE, SENTENCE, clean
from gputune.report import attached, summary, unmeasured
from gputune.report.bar import SMALLEST, bar, legend, parts
from gputune.report.following import commands
from gputune.report.heading import command, facts, left_out
from gputune.report.notes import notes, own_part
from gputune.report.promises import alternative, perhaps, results, worth
from gputune.report.ranks import rank_rows
from gputune.report.tuned import sentence as tuned
from gputune.report.words import WIDEST, clip, percent
from gputune.verdict.device_ledger import UNKNOWN
from gputune.verdict.document import FindingRow, Verdict

LINES = 15  # of USUAL columns; more is not read between two runs
USUAL = 80  # columns
LONGEST = 4 * SENTENCE  # characters of what to do: no advisor says a half of it
FINDINGS = 3  # shown; the document holds all of them
WHOLE = 9  # lines: no sentence of an advisor has more
# (findings shown, lines for each of their sentences), best first: the first that keeps to LINES is taken
SIZES = ((FINDINGS, WHOLE), (2, WHOLE), (1, WHOLE), (1, 2), (1, 1))
WHY = {
    "explain": "what it is, and when it is wrong",
    "prove": "measures that gain in short runs",
    "report": "this again, with all findings",
    "doctor": "what can be measured here",
}
AFTER_LAST = "   "  # the indent under a finding's number

COLOURS = {"high": "31", "medium": "33", "low": "36"}
Paint = Callable[[str, str], str]


def render(
    verdict: Verdict, *, width: int = 80, colour: bool = False, run_folder: str | None = None, again: bool = False
) -> str:
    """Return the verdict in lines of at most `width` columns, without a newline at its end.

    `run_folder` is what the user would type after `gputune report`; None where nothing was recorded. With `again` they
    have just typed it.
    """
    width = min(max(40, width), WIDEST)  # columns: below it no sentence can be set

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    above = [*_header(verdict, width, paint), *_ledger(verdict, width, colour=colour)]
    above += rank_rows(verdict.processes, width)
    below = [*_wrapped(perhaps(verdict), width), *wrap(tuned(verdict), width, subsequent_indent=AFTER_LAST)]
    below += [*_notes(verdict, width)]
    below += _next(verdict, width, run_folder, again=again)
    room = max(LINES, LINES * USUAL // width)
    if verdict.findings:
        room += len(_to_do(verdict.findings[0], width)) - 1
    for findings, each in SIZES:
        lines = [*above, *_findings(verdict, width, paint, findings, each), *below]
        if len(lines) <= room:
            break
    return "\n".join(lines)


def _header(verdict: Verdict, width: int, paint: Paint) -> list[str]:
    """Return what ran, for how long, and how fast."""
    first, *rest = _flowed([f"gputune: {clean(command(verdict), PHRASE)}", *facts(verdict)], width)
    return [paint("gputune:", "1") + first.removeprefix("gputune:"), *rest]


def _flowed(facts: list[str], width: int) -> list[str]:
    """Return the facts in as many lines as they need, none of them broken between unless it is longer than a line."""
    lines = [clip(facts[0], width)]
    for fact in facts[1:]:
        longer = f"{lines[-1]} · {fact}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], *indented(fact, width, most=WHOLE)]
    return lines


def _ledger(verdict: Verdict, width: int, *, colour: bool) -> list[str]:
    """Return where the time went, and a sentence where no finding says what follows from it."""
    loop = [row for row in verdict.ledger if row.span not in AROUND_LOOP] if left_out(verdict) else verdict.ledger
    shown = parts(loop or verdict.ledger, width)
    said = wrap(summary.sentence(verdict), width)
    if not shown:
        return said
    drawn = [bar(shown, width, colour=colour), legend(shown, colour=colour), *_on_device(verdict, width)]
    if said:
        return [*(drawn[1:] if summary.well(verdict) else drawn), *said]
    # From 0.1 of the run in start-up on the bar's shares are notably smaller than the findings', which are of the loop
    if not left_out(verdict) and summary.share(verdict, "startup") >= 0.1:
        return [*drawn, *wrap(f"start-up left out, this is about the {duration(verdict.loop_s)} of training:", width)]
    return drawn


def _on_device(verdict: Verdict, width: int) -> list[str]:
    """Return what the device did in the loop by its own clock, if that was measured."""
    rows = [row for row in verdict.device_ledger if row.share >= SMALLEST]
    if not rows or rows[0].part == UNKNOWN:
        return []
    return wrap(f"its device, of the loop: {', '.join(f'{row.part} {percent(row.share)}' for row in rows)}", width)


def _findings(verdict: Verdict, width: int, paint: Paint, most: int, each: int) -> list[str]:
    """Return the first finding whole, the others with what to do."""
    lines = []
    for index, finding in _told(verdict.findings, most):
        lines += _title(index, finding, width, paint)
        if index == 1:
            lines += _whole(finding, width, each)
        else:
            lines += indented(clean(finding.risk, SENTENCE), width, most=each) if finding.risk else []
            lines += _to_do(finding, width)
    return lines


def _to_do(finding: FindingRow, width: int) -> list[str]:
    """Return what to do, whole: it is what the verdict is read for."""
    return indented(f"do: {clean(finding.do, LONGEST)}", width, most=LONGEST)


def _told(findings: Sequence[FindingRow], most: int) -> list[tuple[int, FindingRow]]:
    """Return so many of the findings by their numbers; one more where none of them is what ends the run before long."""
    numbered = list(enumerate(findings, start=1))
    ends = [row for row in numbered if row[1].risk and row[1].severity == Severity.HIGH.value]
    return numbered[:most] + [row for row in ends[:1] if row[0] > most]


def _title(index: int, finding: FindingRow, width: int, paint: Paint) -> list[str]:
    """Return a finding's name, gain and place: in one line, or with what does not fit in the next."""
    where = f"at {clean(finding.where, PHRASE)}" if finding.where else ""
    name = clean(finding.id, PHRASE)
    lines = [f"{index}. {name}"]
    for part in filter(None, (worth(finding) + alternative(finding), where)):
        longer = f"{lines[-1]}  {part}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], *indented(part, width, most=WHOLE)]
    return [lines[0].replace(name, paint(name, f"1;{COLOURS.get(finding.severity, '0')}"), 1), *lines[1:]]


def _whole(finding: FindingRow, width: int, each: int) -> list[str]:
    """Return what was seen, what will happen or can be had, what to do, and what that does to the results."""
    lines = indented(clean(finding.says, SENTENCE), width, most=each)
    if finding.risk or finding.offer:
        lines += indented(clean(finding.risk or finding.offer, SENTENCE), width, most=each)
    lines += _to_do(finding, width)
    effect = results(finding)
    return [*lines, *indented(f"results: {effect}", width, most=WHOLE)] if effect else lines


def _notes(verdict: Verdict, width: int) -> list[str]:
    """Return what else is to be said, and what could not be measured."""
    lines = [line for note in notes(verdict) for line in _wrapped(note, width)]
    if not summary.inner(verdict):
        lines += unmeasured.lines(verdict, width)
    return lines + [line for note in own_part(verdict) for line in _wrapped(note, width)]


def _next(verdict: Verdict, width: int, run_folder: str | None, *, again: bool) -> list[str]:
    """Return what to type next."""
    if verdict.attached is not None and not verdict.findings:
        return wrap(attached.NEXT, width)
    told = commands(verdict, run_folder, again=again)
    line = f"next: {' · '.join(told)}"
    if told and len(line) > width:
        return [f"{'next:' if n == 0 else '':5} {each}{_why(each, width)}" for n, each in enumerate(told)]
    return [line] if told else []


def _why(line: str, width: int) -> str:
    """Return what a command is for, as a comment that may be copied with it; nothing where it has no room."""
    said = f"  # {WHY.get(line.split()[1], '')}"
    return said if len(line) + len(said) + len("next: ") <= width else ""


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, subsequent_indent=AFTER_LAST, break_on_hyphens=False)


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
