"""As it is against changed: trials in pairs, interleaved, until the pairs agree or there were enough of them."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.finding import Finding, Setting, Speedup
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.measured import PRECISION
from gputune.experiment.timeline import WARM_UP
from gputune.features import Features, Loader
from gputune.proving import trials
from gputune.proving.asked import ReplayedRun
from gputune.proving.comparing import Proven, of_the_run, state
from gputune.proving.proof import Proof, proof
from gputune.proving.trials import Tell, Trial, TrialPlan, turns

AS_IT_IS = "as it is"
CHANGED = "changed"
PAIRS = 2  # to begin with
BATCHES = 40  # timed in a trial, where their times vary little
EPOCHS = 3  # timed at least, where epochs are short or the change is about what happens between them
MOST_BATCHES = 2000  # in a trial, however short the epochs
PREFETCH = 2  # torch's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is to be done for a proof. None: as many as it takes; `tell` is called with what goes on."""

    pairs: int | None = None
    batches: int | None = None
    tell: Tell = lambda _: None

    def enough(self, _realised: Speedup) -> int:
        """Return how many pairs are enough, whatever they realise."""
        return self.pairs or PAIRS


class NotMade(GputuneError):  # noqa: N818 - named for what happened
    """The change could not be made as the loader was built."""

    def __init__(self, why: str, log: str) -> None:
        super().__init__(f"the change could not be made: {why}", hint=f"the script's output is in `{log}`")


def planned(what: ReplayedRun, finding: Finding | None, batches: int | None = None) -> TrialPlan:
    """Return how long trials of this run have to be, and where they are kept. Makes the folder for them."""
    loader = what.loader(finding)
    change: Mapping[str, Setting] = finding.change if finding else {}
    skip, timed = max(WARM_UP, queued(loader, change) + 2), batches or _timed(loader, finding)
    epoch = _epoch(loader) if loader and batches is None else 0
    if epoch and ("persistent_workers" in change or epoch < skip + timed):
        skip, timed = _whole(skip, timed, min(epoch, MOST_BATCHES // (1 + EPOCHS)))
    elsewhere, where = what.other_loops(loader), loader.where if loader else ""
    return TrialPlan(
        command=what.command,
        cwd=what.cwd,
        folder=_folder(what.folder),
        seconds=trials.LONGEST_S,
        batches=skip + timed,
        skip=skip,
        where=where if elsewhere >= trials.MINOR else "",
        whole=True,
        recorded=True,
        timed=where,
        elsewhere=elsewhere,
        # 120.0 s beyond what its start-up should take, before a trial counts as hanging
        # 3.0 times as slow as recorded may a start-up be
        within=3.0 * (_startup(what.run) + elsewhere * what.run.wall) + 120.0,
    )


def queued(loader: Loader | None, change: Mapping[str, Setting]) -> int:
    """Return how many batches lie ready at most when the loop begins: they say nothing of how fast they are made."""
    if loader is None:
        return 0
    ahead = loader.num_workers * (loader.prefetch_factor or PREFETCH)
    workers = int(change.get("num_workers", loader.num_workers))
    return max(ahead, workers * int(change.get("prefetch_factor", loader.prefetch_factor or PREFETCH)))


def _timed(loader: Loader | None, finding: Finding | None) -> int:
    """Return how many batches have to be timed: a mean to within e needs (1.96 cv / e)^2 of them.

    And so many that they take a while even with the change.
    """
    times = [wait + step for wait, step in zip(loader.waits, loader.steps, strict=False)] if loader else []
    mean = statistics.fmean(times) if times else 0.0
    if mean <= 0:
        return BATCHES
    needed = (1.96 * statistics.pstdev(times) / mean / PRECISION) ** 2
    # Batches of less than 3.0 s tell how fast the machine was at that moment
    lasting = 3.0 / mean * (finding.speedup.likely if finding else 1.0)
    # At most 400 batches are timed, however much they vary
    # and for no longer than 60.0 s
    return max(BATCHES, round(min(needed, 400, 60.0 / mean)), round(min(lasting, MOST_BATCHES)))


def _whole(skip: int, timed: int, epoch: int) -> tuple[int, int]:
    """Return both rounded up to whole epochs, so that what happens between epochs counts as often as it happens."""
    return math.ceil(skip / epoch) * epoch, max(EPOCHS, math.ceil(timed / epoch)) * epoch


def _epoch(loader: Loader) -> int:
    """Return how many batches an epoch has that went to its end; 0 where none did, for what was broken off has none."""
    return max((epoch.batches for epoch in loader.epochs if epoch.complete), default=0)


def _startup(run: Features) -> float:
    return max((p.ledger.get("startup", 0.0) for p in run.processes), default=0.0)


def _folder(run: Path) -> Path:
    """Make a folder for this proof's trials in the run's own, and return it. Raises OSError where it cannot."""
    number = 1 + sum(1 for entry in run.glob("proof-*"))
    folder = run.resolve() / f"proof-{number}"
    folder.mkdir(0o700)
    return folder


def prove(what: ReplayedRun, finding: Finding, effort: Effort) -> Proof:
    """Run the script with the finding's change and without it, and say whether its prediction holds.

    Of a change that is partly one of the script only the settings of the loader are made, and held against what these
    alone are predicted to bring, where that is known.

    Raises NotOurs, NotMade or TrialFailed.
    """
    rules, predicted = what.rules(finding), _predicted(finding)
    plan = planned(what, finding, effort.batches)
    effort.tell(
        f"the script runs {2 * (effort.pairs or PAIRS)} times for up to {plan.batches} batches each, "
        f"with all that it writes; its output goes to {plan.folder}"
    )

    def changed() -> Trial:
        trial = trials.run(plan, CHANGED, rules=rules)
        _check(trial, finding)
        return trial

    def pairs(realised: Speedup) -> int:
        word = state(predicted, of_the_run(realised, plan.elsewhere))
        return effort.pairs or (4 if word is Proven.UNDECIDED else PAIRS)  # where the first ones do not agree

    found = turns(lambda: trials.run(plan, AS_IT_IS), changed, pairs, effort.tell)
    realised = of_the_run(found.realised, plan.elsewhere)
    settings = ", ".join(f"{name}={value}" for name, value in finding.settable.items())
    return proof(
        "change",
        finding,
        predicted,
        realised,
        state(predicted, realised),
        says=f"{finding.id}, {CHANGED} to {settings}{_left(finding)}{in_one_loop(plan)}",
        trials=found.rows,
        change=finding.settable,
    )


def _predicted(finding: Finding) -> Speedup | None:
    """Return what is predicted of what can be set: no part of a change brings more than all of it. None: not known."""
    part, whole = finding.part, finding.speedup
    if finding.settable == finding.change:
        return whole
    if part is None:
        return None
    low, likely, high = (min(end, whole.high) for end in (part.low, part.likely, part.high))
    return Speedup(low=low, likely=likely, high=high)


def _left(finding: Finding) -> str:
    """Say which part of a change is left out because it is one of the script."""
    rest = [f"{name}={value}" for name, value in finding.change.items() if name not in finding.settable]
    return f" alone: {', '.join(rest)} is set in the script" if rest else ""


def in_one_loop(plan: TrialPlan) -> str:
    """Say what was timed where that is not the whole training."""
    if plan.elsewhere < trials.MINOR:
        return ""
    return f"; timed in its loop at {plan.timed}, told of the run, of which {plan.elsewhere:.0%} lie in other loops"


def _check(trial: Trial, finding: Finding) -> None:
    """Raise NotMade unless the guest says that the loader was built as it should be."""
    said = [note for note in trial.notes if note.get("n") == "override"]
    made: dict[str, Json] = {}
    for note in said:
        change, refused = note.get("change"), note.get("refused")
        if isinstance(refused, dict) and refused:
            name, why = next(iter(refused.items()))
            raise NotMade(f"`{clean(name)}` at {clean(str(note.get('where')))}: {clean(str(why))}", trial.log)
        made.update(change if isinstance(change, dict) else {})
    if said and not made:
        raise NotMade("the script has these settings already", trial.log)
    if not made:
        raise NotMade(f"no loader was built at {finding.where or 'a line that is known'}", trial.log)
