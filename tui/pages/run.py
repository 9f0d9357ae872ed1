"""One run: where its time went, how it went, what was found, its ranks, loaders and tuning, and what to type next."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from gputune.core.figures import apportion
from gputune.core.finding import TOGETHER, WITHOUT_EDIT
from gputune.core.hygiene import MASK, clean, is_clean
from gputune.features import COVERED
from gputune.feeds.rows import Present, RunRow
from gputune.tui import words
from gputune.tui.drawing import bar, stretches
from gputune.tui.lines import EMPTY, Canvas, Line, Lines, Span, fit, line, paragraph, titled
from gputune.tui.pages._history import history_lines
from gputune.tui.pages._tuned import tuned_lines
from gputune.tui.pages.share import share_lines
from gputune.tui.views import TIME, PageKind, Scene
from gputune.verdict.document import FindingRow, LedgerRow, LoaderRow, ProcessRow, Verdict

SEVERITIES = {"high": "bad", "medium": "warn", "low": ""}
RANKS = 64  # rows
SLOWEST = "slowest"
SLOW = 1.05  # times the median rank's own time
WHERE = 28  # cells of a place in the code


def run_page(run: RunRow, look: Canvas, *, cursor: float | None = None, window: bool = False) -> Lines:
    """Return the page of a run. `cursor`: s since its start at which series are read; `window`: of the last minute.

    A line's key is `finding:ID`, or `copy:TEXT` where Enter copies a command.
    """
    verdict = run.recent if window and run.recent is not None else run.verdict
    lines: list[Line] = []
    if run.why:
        lines += paragraph(run.why, look.width, "bad")
    lines += failure_lines(run, look) if cursor is None else []
    lines += ledger_lines(verdict, look, part=verdict is not run.verdict) if verdict else [_nothing_yet(run)]
    lines += [EMPTY, *finding_lines(run, verdict, look)] if verdict is not None else []
    lines += [EMPTY, *history_lines(run.history, look, run.length, cursor)]
    lines += [EMPTY, *share_lines(run, look, now=cursor is None)] if run.procs else []
    if verdict is not None:
        lines += [EMPTY, *ranks] if (ranks := rank_lines(verdict.processes, look)) else []
        lines += [EMPTY, *loaders] if (loaders := loader_lines(verdict.loaders, look)) else []
        going_on = run.state == "live" and cursor is None
        lines += [EMPTY, *tuned] if (tuned := tuned_lines(verdict.tuned, look, live=going_on)) else []
        lines += [EMPTY, *next_lines(run, look)]
    present = run.present if cursor is None and not window else None
    return Lines((head(run, verdict, look, present), moment(run, look, cursor, window=window)), lines)


def head(run: RunRow, verdict: Verdict | None, look: Canvas, present: Present | None = None) -> Line:
    """Return what runs, and how fast: of a live run as it is now, of the stretch that the verdict is on elsewhere."""
    role = "bad" if run.exit_code else {"live": "good", "broken": "bad"}.get(run.state, "dim")
    facts = [words.clock(run.at)]
    if present is not None:
        facts += _going(present, verdict)
    elif verdict is not None:
        facts += [f"{words.pace(verdict.samples_per_s)} samples/s"] if verdict.samples_per_s is not None else []
        facts += [f"{verdict.batches:,} batches"] if verdict.batches else []
    if verdict is not None and verdict.device.name:
        count = f"{verdict.device.count} × " if verdict.device.count > 1 else ""
        read = verdict.device.coverage
        partly = f" in {words.percent(read)} of the loop" if read is not None and read < COVERED else ""
        facts += [f"{count}{clean(verdict.device.name, 32)} {words.percent(verdict.device.busy)} busy{partly}"]
    told = " · ".join(facts)
    state = f" {words.ending(run.exit_code) if run.exit_code else run.state} "
    name = max(8, look.width - len(told) - len(state) - 4)
    return line(
        (" " + fit(run.name, min(name, max(8, len(run.name)))), "title"),
        (state, role),
        (fit(told, max(0, look.width - 1 - min(name, max(8, len(run.name))) - len(state))), ""),
    )


def _going(present: Present, verdict: Verdict | None) -> list[str]:
    """Return the pace, the batches and the waits of now; an older agent does not say by when it had counted."""
    batches = present.batches or (verdict.batches if verdict is not None else 0)
    facts = [f"{words.pace(present.rate)} samples/s now"] if present.rate is not None else []
    facts += [f"{batches:,} batches"] if batches else []
    return facts + ([f"waits {words.percent(present.wait)}"] if present.wait is not None else [])


def failure_lines(run: RunRow, look: Canvas) -> list[Line]:
    """Return how a command failed: the error that ended it, its last lines, and where the others are."""
    if not run.exit_code:
        return []
    lines = [titled(f" FAILED · {words.ending(run.exit_code)}", look.width)]
    error = run.verdict.error if run.verdict is not None else None
    if error is not None:
        rank = f", on rank {error.rank}" if error.rank is not None else ""
        where = f", at {error.where}" if error.where else ""
        lines += paragraph(f"{error.what}{where}{rank}", look.width - 2, "bad", "  ")
    lines += [line((f"  | {fit(text, max(8, look.width - 4))}", "dim")) for text in run.last]
    if run.log:
        lines.append(
            line(
                ("  all of its output: ", "label"),
                (fit(run.log, max(8, look.width - 21)), "command"),
                key=f"copy:{run.log}",
            )
        )
    return [*lines, EMPTY]


def moment(run: RunRow, look: Canvas, cursor: float | None, *, window: bool) -> Line:
    """Return of what moment and what stretch of the run the page is."""
    if cursor is not None:
        there = "judged as of then" if abs(run.at - cursor) < 1.0 else "judging as of then …" if run.seekable else ""
        text = (
            f" at {words.clock(cursor)} of {words.clock(run.length)} · {there}"
            if there
            else f" at {words.clock(cursor)}"
        )
        return line((fit(text, look.width), "cursor"))
    part = "the last minute" if window and run.recent is not None else "the whole run"
    command = clean(shlex.join(run.command), 300)
    return line((fit(f" of {part} · {command}" if command else f" of {part}", look.width), "dim"))


def _nothing_yet(run: RunRow) -> Line:
    text = "no verdict yet: the first one comes after a few batches" if run.state == "live" else "nothing was judged"
    return line((f" {text}", "dim"))


def ledger_lines(verdict: Verdict, look: Canvas, *, part: bool = False) -> list[Line]:
    """Return the ledger as one bar of the screen's width, and its legend in whole percents that add to 100."""
    title = " WHERE THE TIME WENT"
    rows = _apart(verdict.ledger)
    if not rows:
        says = verdict.abstained or "nothing is known of its time"
        return [titled(title, look.width), *paragraph(says, look.width - 2, "dim", " ")]
    percents = apportion([share for _, share in rows], 100)
    cells = apportion([share for _, share in rows], max(1, look.width - 2))
    glyphs = stretches(cells, plain=look.plain)
    drawn = [(glyph, f"span.{span}") for (span, _), glyph in zip(rows, glyphs, strict=True) if glyph]
    entries: list[list[Span]] = []
    for (span, _), percent, mark in zip(rows, percents, stretches([1] * len(rows), plain=look.plain), strict=True):
        entries.append([(mark, f"span.{span}"), (f" {span} {percent}%", "")])
    note = "of the last minute" if part else ""
    return [titled(title, look.width, note), line(" ", *drawn), *_flowed(entries, look.width)]


def _apart(ledger: Sequence[LedgerRow]) -> list[tuple[str, float]]:
    """Return spans with their shares, the largest first; what is under half a percent is one `other`."""
    known = [(row.span, max(0.0, row.share)) for row in ledger if words.known(row.share) is not None]
    total = sum(share for _, share in known)
    if total <= 0:
        return []
    rows = sorted(((span, share / total) for span, share in known), key=lambda row: -row[1])
    large = [row for row in rows if row[1] >= 0.005]
    small = sum(share for _, share in rows) - sum(share for _, share in large)
    return [*large, ("other", small)] if small >= 0.005 else large


def _flowed(entries: Sequence[Sequence[Span]], width: int, gap: str = "  ") -> list[Line]:
    """Return entries in as many lines as they need."""
    lines: list[list[Span]] = [[(" ", "")]]
    taken = 1
    for entry in entries:
        size = sum(len(text) for text, _ in entry) + len(gap)
        if taken + size > width and taken > 1:
            lines.append([(" ", "")])
            taken = 1
        lines[-1] += [*entry, (gap, "")]
        taken += size
    return [line(*spans) for spans in lines]


def finding_lines(run: RunRow, verdict: Verdict, look: Canvas) -> list[Line]:
    """Return the findings with what each is worth; Enter opens one."""
    when = "" if run.judged is None or run.state != "live" else f"judged at {words.clock(run.judged)} "
    lines = [titled(" FINDINGS", look.width, when)]
    for number, finding in enumerate(verdict.findings, start=1):
        lines += _finding(number, finding, look)
    if not verdict.findings:
        lines.append(line((f"  {verdict.abstained or 'nothing found that is worth changing'}", "dim")))
    return lines


def _finding(number: int, finding: FindingRow, look: Canvas) -> list[Line]:
    gain = finding.speedup
    worth = words.interval(gain.low, gain.likely, gain.high, at_least=gain.at_least) if gain.likely > 1 else ""
    kind = "risk" if finding.risk else "offer" if finding.offer else ""
    where = min(WHERE, max(0, look.width - 52))
    spans: list[Span] = [
        (f" {number:>2} ", "label"),
        (fit(finding.id, 23) + " ", SEVERITIES.get(finding.severity, "")),
        (fit(", ".join(filter(None, (worth, kind))), 22) + " ", "value"),
        (fit(finding.where, where), "dim"),
    ]
    return [
        line(*spans, key=f"finding:{finding.id}"),
        *(line(("    " + fit(text, max(8, look.width - 4)), "dim")) for text in (finding.risk or finding.says,)),
    ]


def rank_lines(processes: Sequence[ProcessRow], look: Canvas) -> list[Line]:
    """Return the ranks side by side, the slowest marked; nothing of a run with one process."""
    ranks = [p for p in processes if p.rank is not None or p.seen]
    if len(ranks) < 2:
        return []
    own = sorted(p.own_s for p in ranks if p.own_s is not None)
    middle = own[len(own) // 2] if own else None
    most = max(own, default=None)
    slowest = next((p for p in ranks if most and middle and p.own_s == most and most >= SLOW * middle), None)
    hosts = (10 if look.width < 100 else 24) if any(p.host for p in ranks) else 0
    wide = max(0, min(30, look.width - 57 - hosts - len(SLOWEST) - 2))
    title = f" RANK  {fit('HOST', hosts)}{'     PID   BATCHES    SMP/S      STEP    OTHERS'}"
    lines = [line((fit(title, look.width), "section"))]
    for p in ranks[:RANKS]:
        share = p.own_s / most if p.own_s is not None and most else None
        spans: list[Span] = [
            (fit("–" if p.rank is None else str(p.rank), 5, ">") + "  ", "label"),
            (fit(p.host, hosts), "name"),
            (fit(str(p.pid), 8, ">") + " ", "dim"),
            (fit(f"{p.batches or p.optimizer_steps:,}", 9, ">") + " ", ""),
            (fit(words.pace(p.samples_per_s), 8, ">") + " ", ""),
            (fit(words.lasted(p.own_s), 9, ">") + " ", "bad" if p is slowest else ""),
            (fit(words.lasted(p.apart_s), 9, ">") + "  ", ""),
            (bar(share, wide, plain=look.plain), "wait" if p is slowest else "busy"),
            (f" {'<' if look.plain else '◀'} {SLOWEST}" if p is slowest else "", "bad"),
        ]
        lines.append(line(*spans))
    if len(ranks) > RANKS:
        lines.append(line((f"  and {len(ranks) - RANKS} more", "dim")))
    lines += [
        line((f"  process {p.pid} was not seen from inside: {clean(p.why, 120)}", "dim")) for p in ranks if not p.seen
    ]
    return lines


def loader_lines(loaders: Sequence[LoaderRow], look: Canvas) -> list[Line]:
    """Return how each loader was set."""
    if not loaders:
        return []
    where = max(12, min(40, look.width - 54))
    lines = [
        line(
            (fit(f" {fit('LOADER', where)} WORKERS PREFETCH PINNED PERSISTENT BATCH     WAITED", look.width), "section")
        )
    ]
    for loader in loaders:
        prefetch = "–" if loader.prefetch_factor is None else str(loader.prefetch_factor)
        batch = "–" if loader.batch_size is None else str(loader.batch_size)
        text = (
            f" {fit(loader.where, where)} {loader.num_workers:>7} {prefetch:>8} {_yes(loader.pin_memory):>6} "
            f"{_yes(loader.persistent_workers):>10} {batch:>5} {words.lasted(loader.wait_s):>10}"
        )
        lines.append(line((fit(text, look.width), "" if loader.training else "dim")))
    return lines


def _yes(value: bool) -> str:  # noqa: FBT001 - of one parameter there is nothing to mistake
    return "yes" if value else "no"


def next_lines(run: RunRow, look: Canvas) -> list[Line]:
    """Return the commands to copy."""
    commands = next_commands(run)
    if not commands:
        return []
    note = "Enter copies " if commands else ""
    return [titled(" NEXT", look.width, note), *(_command(text, look) for text in commands)]


def _command(text: str, look: Canvas) -> Line:
    return line((f"  {fit(text, max(8, look.width - 2))}", "command"), key=f"copy:{text}")


def _sweep(command: Sequence[str]) -> str:
    """Return how the loader's settings are searched for; nothing where secrets were left out of the command."""
    if not command or any(MASK in word for word in command) or not all(map(is_clean, command)):
        return ""
    interpreted = PurePath(command[0]).name.startswith("python") and len(command) > 1
    plain = interpreted and (command[1] == "-m" or command[1].endswith(".py"))
    return f"gputune sweep-loader {shlex.join(command[1:] if plain else ('--', *command))}"


def next_commands(run: RunRow) -> list[str]:
    """Return what can be typed now: the proof of the best finding, the loader's sweep, the report, the explanation."""
    folder = shlex.quote(clean(run.folder, 300))
    verdict = run.verdict
    found = []
    best = verdict.findings[0] if verdict is not None and verdict.findings else None
    if (
        best is not None
        and run.folder
        and best.change.keys() & WITHOUT_EDIT
        and not best.change.keys() & TOGETHER
        and run.state != "live"
    ):
        found.append(f"gputune prove {folder} {shlex.quote(clean(best.id, 60))}")
    if verdict is not None and verdict.loaders and (sweep := _sweep(run.command)):
        found.append(sweep)
    if run.folder:
        found.append(f"gputune report {folder}")
    if best is not None:
        found.append(f"gputune explain {shlex.quote(clean(best.id, 60))}")
    return found


def _draw(scene: Scene) -> Lines:
    assert scene.run is not None  # noqa: S101 - `of` says so
    return run_page(scene.run, scene.look, cursor=scene.cursor, window=scene.window)


PAGE = PageKind(
    _draw,
    of="run",
    keys=(TIME, ("w", "window", "letter('w')")),
    help=(
        ("run", ""),
        ("left, right", "look back and forth in time; with Shift ten times as far"),
        ("0", "the present again"),
        ("w", "of the whole run, or of its last minute"),
    ),
    timed=True,
    place=4,
)
