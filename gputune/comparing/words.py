"""A comparison as a person reads it: what differs beside the code first, what it comes to last."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

from gputune.comparing.comparison import FASTER, NOT_COMPARABLE, SLOWER, Comparison, SideRow
from gputune.comparing.gate import GateResult
from gputune.comparing.interval import FLOOR
from gputune.comparing.student import MOST_RUNS
from gputune.comparing.tables import CauseRow, LedgerShareRow
from gputune.report.words import WIDEST, aligned, clip, likely, number, percent, promised, times

SHOWN = 4  # runs of a side that are shown with their rates
NAME, NARROWEST, BETWEEN = 48, 8, 2  # characters: of what was typed, of a value that is cut, and between two of them
HEAD = ("A", "B", "B minus A")


def words(found: Comparison, width: int | None = None) -> str:
    """Return the comparison in lines of at most `width` columns; None: however long they are."""
    parts = [
        _set([_side("A", found.a), _side("B", found.b), *_notes(found)], width),
        _table("differs beside the code", [(_marked(r.what, r.forbids), r.a, r.b) for r in found.differs], width),
        _table("set otherwise", [(r.what, r.a, r.b) for r in found.settings if r.a != r.b], width),
        # 0.005 of wall time: words of the ledger with less on both sides have no line
        _table("where wall time goes", [_share(row) for row in found.ledger if max(row.a, row.b) >= 0.005], width),
        _table("found", [_cause(row, found) for row in found.findings], width),
        _set([*verdict(found).split("\n"), *_gate(found.gate)], width),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _set(sentences: Iterable[str], width: int | None) -> list[str]:
    """Return sentences in lines, what follows the first line of one below its words."""
    if width is None:
        return list(sentences)
    broken = [
        wrap(said, min(width, WIDEST), subsequent_indent="   ", break_on_hyphens=False, replace_whitespace=False)
        for said in sentences
    ]
    return [line for lines in broken for line in lines]


def _side(name: str, side: SideRow) -> str:
    rates = ", ".join(number(run.rate) for run in side.runs[:SHOWN])
    more = ", …" if len(side.runs) > SHOWN else ""
    count = f" ({len(side.runs)} runs)" if len(side.runs) > 1 else ""
    return f"{name}  {clip(side.given, NAME)}{count}: {rates}{more} {side.runs[0].unit}"


def _notes(found: Comparison) -> list[str]:
    said = [*found.a.notes, *found.b.notes]
    return [f"   {note}" for note in said] + [f"   left out: {why}" for why in (*found.a.left_out, *found.b.left_out)]


def _marked(what: str, forbids: bool) -> str:  # noqa: FBT001 - a mark for those that forbid a comparison
    return f"{what} (!)" if forbids else what


def _table(title: str, rows: Sequence[tuple[str, ...]], width: int | None) -> list[str]:
    """Return rows under their title, columns as wide as they need be, or as `width` leaves to the values."""
    if not rows:
        return []
    whole = [(title, *HEAD[: len(rows[0]) - 1]), *((f"  {first}", *rest) for first, *rest in rows)]
    lines = aligned(whole)
    if width is None or max(map(len, lines)) <= width:
        return lines
    room = width - max(len(first) for first, *_ in whole)
    each = max(NARROWEST, room // (len(rows[0]) - 1) - BETWEEN)
    return aligned([(clip(first, width), *(clip(value, each) for value in rest)) for first, *rest in whole])


def _share(row: LedgerShareRow) -> tuple[str, ...]:
    middle, low, high = (f"{round(100 * share):+d}" for share in (row.difference, row.low, row.high))
    return row.span, percent(row.a), percent(row.b), f"{middle} ({low} to {high})"


def _cause(row: CauseRow, found: Comparison) -> tuple[str, ...]:
    return (
        row.id,
        _gain(row.a_gain, row.a_runs, len(found.a.runs)),
        _gain(row.b_gain, row.b_runs, len(found.b.runs)),
    )


def _gain(gain: float | None, runs: int, of: int) -> str:
    if gain is None:
        return "-"
    return (promised(gain) or "found") + (f" in {runs} of {of}" if of > 1 else "")


def verdict(found: Comparison) -> str:
    """Return in a sentence or two what it comes to."""
    if found.state == NOT_COMPARABLE:
        return "\n  ".join([f"not comparable: {_why_not(found)}", *found.remedies])
    ratio = found.ratio
    said = "" if ratio is None else times(ratio)
    if found.state in {FASTER, SLOWER}:
        return f"B is {found.state}: {said}, {_basis(found)}"
    return f"no difference is sure: {said}, {_basis(found)}\n  {_settled(found)}"


def _why_not(found: Comparison) -> str:
    """Say what forbids the comparison, and how the rates were all the same."""
    why, ratio = [row.what for row in found.differs if row.forbids], found.ratio
    if why:
        return f"they differ in {', '.join(why)}" + (f" (as they ran, B was {likely(ratio.likely)})" if ratio else "")
    ends = f"×{ratio.low:.2g} to ×{ratio.high:.2g}" if ratio else ""
    return f"no difference would show in an interval as wide as {ends}"


def _basis(found: Comparison) -> str:
    """Say where the interval comes from."""
    first, second = len(found.a.runs), len(found.b.runs)
    if found.basis == "floor":
        return f"one run a side: what two runs differ by anyway is taken for {FLOOR:.0%}, and more on crowded CPUs"
    if found.basis == "pairs":
        return f"by what {first} pairs of runs, made in turn, differ ({found.spread or 0.0:.1%} between runs)"
    turns = "" if found.in_turn else f"; they were not run in turn, for which {FLOOR:.0%} are added"
    return f"by what {first} and {second} runs differ among each other ({found.spread or 0.0:.1%}){turns}"


def _settled(found: Comparison) -> str:
    return _runs(found.runs_needed, "a difference as small as this one")


def _runs(count: int | None, what: str) -> str:
    if count is None:
        return f"{what} is not settled by {MOST_RUNS} runs a side"
    return f"about {count} runs a side, in turn, would settle it, if they go on to differ by as much"


def _gate(found: GateResult | None) -> Iterable[str]:
    if found is None:
        return []
    limit = f"{found.limit:.3g}" if found.limit < 0.01 else percent(found.limit)
    said = {
        "slower": f"slower by more than {limit}, for sure",
        "passed": f"not slower by {limit}",
        "unsure": f"whether it is slower by {limit} is not sure: {_runs(found.runs, 'what lies so near to the limit')}",
        "unknown": f"whether it is slower by {limit} cannot be told",
    }
    return [said[found.state]]
