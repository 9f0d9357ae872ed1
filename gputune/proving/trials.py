"""One run of the script for a proof: for a few dozen batches, with all that it writes, and recorded."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputune.core.errors import GputuneError
from gputune.core.figures import number
from gputune.core.finding import Speedup
from gputune.core.pace import Pace
from gputune.core.sample import Json
from gputune.experiment.living import StartPlan
from gputune.experiment.measured import Measured, gain, in_turn, unsteadiness
from gputune.experiment.starting import NOISE, State, start
from gputune.proving.proof import ProofTrial
from gputune.verdict.document import alike

MINOR = 0.02  # of the run: what lies in other loops need neither be waited for nor said
LONGEST_S = 120.0  # s of training in one trial, however slow its batches are

Tell = Callable[[str], None]  # progress, in words for stderr


class TrialFailed(GputuneError):  # noqa: N818 - named for what happened
    """The script did not get far enough to be timed."""

    def __init__(self, why: str, log: str) -> None:
        super().__init__(f"a trial of the script failed: {why}", hint=f"its output is in `{log}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan(StartPlan):
    """What all trials of one proof have in common."""

    timed: str = ""  # where the loader is built whose batches are timed; "" for all
    elsewhere: float = 0.0  # share of the run that lies in rounds of other loaders, before or after its own
    within: float = math.inf  # s until the first batch that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one."""

    variant: str
    pace: Pace
    exit_code: int | None
    log: str
    notes: tuple[Mapping[str, Json], ...] = ()

    @property
    def folder(self) -> str:
        """Return where its recording lies."""
        return self.log.removesuffix(".log")


def run(plan: TrialPlan, variant: str, *, rules: Sequence[Mapping[str, Json]] = (), **special: Json) -> Trial:
    """Run the script once. `special` goes to the guest (`trial.py`). Raises TrialFailed."""
    try:
        found = start(
            plan, variant, where=plan.timed, rules=rules, within=plan.within, judge=None, writable=None, **special
        )
    except OSError as error:
        raise TrialFailed(error.strerror or str(error), str(plan.folder)) from error
    if found.state is not State.OK or found.pace is None:
        raise TrialFailed(found.why, found.log)
    return Trial(variant=variant, pace=found.pace, exit_code=found.exit_code, log=found.log, notes=found.notes)


Make = Callable[[], Trial]


@dataclass(frozen=True, slots=True)
class TrialsInTurn:
    """Trials of two kinds in turn, and how many times as fast the second kind was."""

    before: list[Trial] = field(default_factory=list)
    after: list[Trial] = field(default_factory=list)

    @property
    def realised(self) -> Speedup:
        """Return what the second kind brings, with its 95 % interval."""
        sides = ([trial.pace.parts for trial in side] for side in (self.before, self.after))
        found = [Measured(noise=NOISE, visits=[*side]) for side in sides]
        noise = max(NOISE, unsteadiness(found))
        return gain(*(replace(each, noise=noise) for each in found))

    @property
    def rows(self) -> list[ProofTrial]:
        """Return all trials as rows, pair by pair."""
        return [_row(trial) for pair in zip(self.before, self.after, strict=True) for trial in pair]


def turns(
    first: Make, second: Make, enough: Callable[[Speedup], int], tell: Tell, *, rests: bool = False
) -> TrialsInTurn:
    """Run both in turn until there are as many pairs as `enough` says by what is known then.

    The order changes from pair to pair, unless the second `rests` on the first.
    """
    found = TrialsInTurn()
    sides = (first, found.before), (second, found.after)
    for both in in_turn(*sides):
        for make, into in sides if rests else both:
            into.append(make())
            tell(f"{into[-1].variant}: {number(into[-1].pace.rate)} {into[-1].pace.unit}")
        if len(found.before) >= enough(found.realised):
            break
    return found


def _row(trial: Trial) -> ProofTrial:
    pace = {name: getattr(trial.pace, name) for name in ("rate", "unit", "batches", "seconds")}
    return alike(ProofTrial, trial, **pace)
