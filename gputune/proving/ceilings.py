"""Proofs by difference, without any change: one batch again and again, and the same files cold and warm.

The differential idea is DS-Analyzer's (Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", 2021):
what the step could do if data were free, and what reading costs beyond preparing.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.finding import Finding
from gputune.core.hygiene import clean
from gputune.proving import caches, trials
from gputune.proving.asked import BEST, ReplayedRun
from gputune.proving.changing import AS_IT_IS, Effort, in_one_loop, planned
from gputune.proving.comparing import Proven, of_the_run, state
from gputune.proving.proof import CEILING, Proof, proof
from gputune.proving.trials import Trial, TrialPlan, turns
from gputune.verdict.arbitration import LOADING, SAMPLING

REPLAYED = "one batch"
COLD, WARM, FIRST = "cold", "warm", "first"
# Workers start as ever while one batch is handed out again and again: of what that costs a ceiling says nothing.
LOADS = frozenset((*LOADING.ids, *SAMPLING.ids)) - {"worker-restart"}
READS = frozenset({"slow-storage", "remote-storage", "cold-cache"})  # `small-files` costs as much with files in memory


class NotAbout(BadUsage):
    """What is measured says nothing of that finding."""

    def __init__(self, what: ReplayedRun, finding: Finding, option: str, measures: str) -> None:
        super().__init__(
            f"`{option}` measures {measures}, which says nothing of `{finding.id}`",
            hint=f"`gputune prove {what.folder} {finding.id}`, or `{option}` without an id",
        )


def about_loading(what: ReplayedRun, name: str | None) -> Finding | None:
    """Return the finding to hold against the ceiling: without a name the best one about what batches wait for, if any.

    Raises NotAbout, and as `Asked.finding` does.
    """
    if name in {None, BEST}:
        return next((f for f in what.findings if f.id in LOADS and not f.risk), None)
    finding = what.finding(str(name))
    if finding.id not in LOADS:
        raise NotAbout(what, finding, "--ceiling", "how fast the run is when batches cost nothing")
    return finding


def about_reading(what: ReplayedRun, name: str | None, kind: str) -> Finding | None:
    """Return the finding to hold against what files cost: none without a name. Raises as `about_loading` does."""
    if name is None:
        return None
    if name == BEST:
        return next((f for f in what.findings if f.id in READS and not f.risk), None)
    finding = what.finding(name)
    if finding.id not in READS:
        raise NotAbout(what, finding, f"--cache {kind}", "how fast the run is with its files in memory")
    return finding


def ceiling(what: ReplayedRun, finding: Finding | None, effort: Effort) -> Proof:
    """Measure how fast everything but the loading is: no change to a loader can bring more.

    With a finding its prediction must not exceed that. Raises TrialFailed.
    """
    plan = planned(what, finding, effort.batches)
    found = turns(lambda: trials.run(plan, AS_IT_IS), lambda: _replayed(plan), effort.enough, effort.tell)
    realised = of_the_run(found.realised, plan.elsewhere)
    possible = Proven.SHORT if finding and finding.speedup.low > realised.high else Proven.HELD
    word = possible if finding else Proven.MEASURED
    says = f"every batch there at once: no change to the loader brings more{in_one_loop(plan)}"
    predicted = finding.speedup if finding else None
    return proof(CEILING, finding, predicted, realised, word, says=says, trials=found.rows)


def _replayed(plan: TrialPlan) -> Trial:
    trial = trials.run(plan, REPLAYED, replay=True)
    for note in trial.notes:
        if "refused" in note and note.get("n") == "trial":
            raise GputuneError(
                f"one batch could not be used again: {clean(str(note['refused']))}",
                hint="`gputune prove RUN --cache warm` needs no copy of a batch",
            )
    return trial


def cache(what: ReplayedRun, finding: Finding | None, kind: str, effort: Effort) -> Proof:
    """Measure what reading costs: the same batches with their files in the page cache, against `first` or `cold` ones.

    `kind` is `warm` (against the first pass, as the cache is now) or `cold` (against files that were dropped from it).
    Raises TrialFailed, and GputuneError where files cannot be dropped.
    """
    plan = planned(what, finding, effort.batches)
    names = plan.folder / "files"

    def warm() -> Trial:
        return trials.run(plan, WARM)

    if kind == COLD:
        effort.tell("a first pass, to learn which files are read")
        trials.run(plan, FIRST, files=str(names))
        files = caches.readable(names)
        found = turns(lambda: _cold(plan, files), warm, effort.enough, effort.tell, rests=True)
    else:
        found = turns(lambda: trials.run(plan, FIRST), warm, replace(effort, pairs=1).enough, effort.tell, rests=True)
    realised, predicted = found.realised, finding.speedup if finding else None
    says = f"the same batches with their files in memory, against {found.before[0].variant} ones"
    return proof("cache", finding, predicted, realised, state(predicted, realised), says=says, trials=found.rows)


def _cold(plan: TrialPlan, files: Sequence[Path]) -> Trial:
    caches.drop(files)
    left = caches.resident(files)
    if left > 0.1:  # of the files' pages may stay in memory: then they count as cold
        raise GputuneError(
            f"{left:.0%} of the files' pages stay in memory, so nothing can be read cold here",
            hint="files on tmpfs, or that another process maps, always stay; `--cache warm` needs no dropping",
        )
    return trials.run(plan, COLD)
