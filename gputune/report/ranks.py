"""How many ranks there were, and rows of single ones where they differ: the slowest, one in the middle, the fastest."""

from collections.abc import Sequence

from gputune.core.hygiene import clean
from gputune.report.words import clip
from gputune.verdict.document import ProcessRow

DIFFERENT = 1.1  # the slowest rank's own time over the fastest's: below it, ranks are alike
UNEVEN = 1.05  # the largest number of batches over the smallest, likewise
HOST = 24  # characters of a machine's name


def counted(processes: Sequence[ProcessRow]) -> str:
    """Return how many trained, in words; of the ranks of one job, of how many. Nothing of a training that is alone."""
    ranks = {p.rank for p in processes if p.rank is not None}
    size = max((p.world_size or 0 for p in processes), default=0)
    if size > 1 and len(ranks) == len(processes):
        return f"{size} ranks" if len(ranks) == size else f"{len(ranks)} of {size} ranks"
    return f"{len(processes)} training processes" if len(processes) > 1 else ""


def rank_rows(processes: Sequence[ProcessRow], width: int) -> list[str]:
    """Return at most three lines, none where the ranks are alike or not all of them are known."""
    ranks = [p for p in processes if p.seen and p.rank is not None]
    if len(ranks) < 2 or len(ranks) != len(processes):
        return []
    slow = sorted(ranks, key=lambda p: (-(p.own_s or 0.0), -p.batches, p.rank or 0))
    if not (_differ([p.own_s for p in ranks], DIFFERENT) or _differ([float(p.batches) for p in ranks], UNEVEN)):
        return []
    named = {0: "slowest", len(slow) // 2: "median", len(slow) - 1: "fastest"} if len(slow) > 2 else {0: "", 1: ""}
    return [clip(_row(slow[place], what), width) for place, what in sorted(named.items())]


def _differ(values: Sequence[float | None], ratio: float) -> bool:
    known = [value for value in values if value]
    return len(known) == len(values) and max(known) >= ratio * min(known)


def _row(process: ProcessRow, what: str) -> str:
    host = f" on {clean(process.host, HOST)}" if process.host else ""
    facts = [f"rank {process.rank}{host}"]
    if process.own_s is not None and process.apart_s is not None:
        facts.append(f"{process.own_s * 1e3:.3g} ms a step, then {process.apart_s * 1e3:.3g} ms with the others")
    facts.append(f"{process.batches:,} batches" if process.batches else f"{process.optimizer_steps:,} steps")
    return "   " + " · ".join([*facts, what] if what else facts)
