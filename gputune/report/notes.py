"""What else is to be said of a run: how it ended if that needs words, what was not seen, and what it cost."""

from gputune.core.events import ENVIRONMENT_SPAN
from gputune.core.figures import duration
from gputune.core.hygiene import SENTENCE, clean
from gputune.report import ending, exhausted, troubled, unmeasured
from gputune.report.spent import sentence as spent
from gputune.report.summary import inner
from gputune.report.words import percent
from gputune.verdict.document import ProcessRow, Verdict


def notes(verdict: Verdict) -> list[str]:
    """Return how it ended, who was not seen and what was spent, a sentence each."""
    told = [exhausted.sentence(verdict.out_of_memory), ending.error(verdict), troubled.failure(verdict.failures)]
    told += [troubled.unused(verdict.unused), ending.cause(verdict)]
    told.append(_stood(verdict))
    unheard = [p for p in verdict.processes if not p.seen]
    if unheard and verdict.attached is None and not inner(verdict):
        told.append(_unheard(unheard))
    # A stop is worth a line from 0.5 s on; the ledger leaves out shorter ones too
    if verdict.stopped_s >= 0.5:
        told.append(f"stopped by a signal for {duration(verdict.stopped_s)}, which is not counted here")
    if verdict.dropped:
        told.append(f"{verdict.dropped:,} records were lost, the recorder came too late: figures are of the rest")
    if not inner(verdict):
        told.append(spent(verdict))
    # From 0.05 of the CPU time wanted on, what a host gives to others makes runs differ by as much as changes do
    if verdict.stolen and verdict.stolen >= 0.05:
        theft = f"{percent(verdict.stolen)} of the CPU time wanted"
        told.append(f"the host of this virtual machine gave {theft} to others, now more, now less")
    return [each for each in told if each]


def _stood(verdict: Verdict) -> str:
    """Return for how long a training had done nothing when a signal ended it."""
    rows = [row for row in verdict.processes if row.stood_s]
    if not rows:
        return ""
    longest = max(rows, key=lambda row: row.stood_s)
    rank = f" of rank {longest.rank}" if longest.rank is not None else ""
    more = f", and so did {len(rows) - 1} more" if len(rows) > 1 else ""
    still = f"the loop{rank} stood still for the last {duration(longest.stood_s)} until it was ended{more}"
    if any(row.span == ENVIRONMENT_SPAN for row in verdict.ledger):
        return f"{still}: a step of an environment did not return (`environment` in the ledger)"
    return f"{still}: no batch was asked for, and no step came to its end (`step` in the ledger)"


def own_part(verdict: Verdict) -> list[str]:
    """Return what gputune itself took of the run, or held back in it, a sentence each."""
    if inner(verdict):
        return []
    cost = [unmeasured.in_python(verdict.overhead), unmeasured.took(verdict)]
    told = [*cost, unmeasured.held_back(verdict.experiments)]
    return [each for each in told if each]


def _unheard(unheard: list[ProcessRow]) -> str:
    """Return who could not be seen, with the reason whole: it is what the user can mend."""
    more = f" and {len(unheard) - 1} more" if len(unheard) > 1 else ""
    return f"not seen from inside: process {unheard[0].pid}{more}: {clean(unheard[0].why, SENTENCE)}"
