"""What to type after a verdict. A command is never clipped: it is to be copied."""

import shlex

from gputune.core.finding import TOGETHER, WITHOUT_EDIT
from gputune.core.hygiene import clean
from gputune.launch.folders import is_kernel
from gputune.report.summary import failed_early, inner
from gputune.verdict.advised import AT
from gputune.verdict.document import FindingRow, Verdict

NAME, TEXT = 60, 300  # characters of any one name, and text, from outside


def commands(verdict: Verdict, run_folder: str | None, *, again: bool) -> list[str]:
    """Return them; `run_folder` and `again` as `gputune.report.terminal.render` takes them."""
    first = next(iter([*verdict.perhaps, *verdict.findings]), None)  # what is to be settled, before what is known
    told = [f"gputune explain {clean(first.id, NAME)}"] if first else []
    if run_folder is not None and first is not None:
        told += _settling(verdict, first, shlex.quote(clean(run_folder, TEXT)), again=again)
    known = inner(verdict) or failed_early(verdict) or verdict.out_of_memory or verdict.dropped
    if not told and not verdict.ledger and not known:
        told.append("gputune doctor")
    return told


def _settling(verdict: Verdict, first: FindingRow, folder: str, *, again: bool) -> list[str]:
    """Return the command that shows whether a promise holds, or how to; where there is none, the verdict's own."""
    own = [] if again else [f"gputune report {folder}"]
    if is_kernel(verdict.command):
        return own
    switched = verdict.tuned is not None and verdict.tuned.tries  # it cannot be proved by such a run
    if verdict.perhaps and not switched:
        place = f"{AT}{first.where}" if any(found.id == first.id for found in verdict.findings) else ""
        return [f"gputune prove {folder} {shlex.quote(clean(first.id + place, TEXT))}"]
    if first.change.keys() & WITHOUT_EDIT and not first.change.keys() & TOGETHER and not switched:
        return [f"gputune prove {folder}"]
    return own
