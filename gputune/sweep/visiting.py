"""What it takes to have a training's loader served under a setting for a while: the order, its answers, how long.

The guest's side of it is docs/steering.md. Trials and real trainings are visited alike.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.line import MIN_BATCHES
from gputune.experiment.measured import PRECISION, SURE_SIGMA, scatter
from gputune.experiment.timeline import PASSES, Timeline
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting

NOISE = 0.005  # relative: standard error between two visits in one process
SHORT_S, LONG_S = 0.8, 2.0  # s of timed batches in a visit: more visits in turn tell more than longer ones
TIMED, MOST = 24, 1000  # batches timed in a visit
PATIENCE = 4  # times a visit of the longest kind, where most of its batches were made in evaluations
ANSWER_S = 75.0  # s for an answer: the guest itself gives up after 60
SWITCHED = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")

Told = tuple[int, Mapping[str, Json]]  # (process, note)


class NotSteered(Exception):  # noqa: N818 - named for what happened
    """The loader cannot be switched while it is iterated; the message says why."""


class NotYet(NotSteered):
    """It cannot be switched as long as so little is known of it; the message says what."""


class VisitFailed(Exception):  # noqa: N818 - as above
    """The loader was not served under a setting, or not for long; the message says why."""


REFUSALS: Mapping[str, type[Exception]] = {"loader": NotSteered, "settings": VisitFailed, "not-yet": NotYet}


@dataclass(frozen=True, slots=True)
class TimedBatches:
    """Which batches of a visit are timed: `least` to `longest` of them after `skip`; whole passes of `epoch`, 0: any.

    What starts with each pass weighs in the visit as it does in truth then, and not by how many starts fall into it.
    """

    skip: int
    least: int
    longest: int
    epoch: int

    def rates(self, timeline: Timeline, where: str, begin: int) -> tuple[float, ...]:
        """Return samples/s of parts of what came since `begin` (ns)."""
        return timeline.passes(where, self.skip, begin, self.epoch)

    def enough(self, timeline: Timeline, where: str, begin: int) -> bool:
        """Return whether enough came since `begin` (ns)."""
        came = timeline.counted(where, begin) - self.skip
        if came <= self.least:
            return False
        settled = timeline.settled(where, self.skip, begin)
        if came > self.longest * (1 if settled else PATIENCE):
            return True
        return settled and known(self.rates(timeline, where, begin))


def answers(notes: Iterable[Told], seq: int) -> dict[int, Mapping[str, Json]]:
    """Return the last answer of each process to order number `seq`."""
    told = ((process, note) for process, note in notes if note.get("n") == "steer")
    return {process: note for process, note in told if note.get("seq") in {seq, 0}}


def check(answered: Mapping[int, Mapping[str, Json]]) -> None:
    """Raise NotSteered or VisitFailed where a rank did not, or does not any more, obey."""
    for answer in answered.values():
        if answer.get("state") == "refused":
            why = clean(str(answer.get("why")), 200)
            raise REFUSALS.get(str(answer.get("of")), NotSteered)(why)


def ready(answered: Mapping[int, Mapping[str, Json]]) -> int:
    """Return when the last rank had its first batch under the order (ns)."""
    return max(int(str(answer.get("ready_ns"))) for answer in answered.values())


def length(profile: Profile, wanted: LoaderSetting) -> tuple[int, int]:
    """Return how many batches of a visit are left out, and how many are timed by what is known before it."""
    needed = max(fewest(profile, wanted), (1.96 * profile.spread / PRECISION) ** 2)
    return wanted.queue + 2, int(min(needed, most(profile, wanted)))


def fewest(profile: Profile, wanted: LoaderSetting) -> int:
    """Return how many batches are timed at the least."""
    return math.ceil(min(MOST, max(TIMED, MIN_BATCHES + 2, SHORT_S / seconds(profile, wanted))))


def most(profile: Profile, wanted: LoaderSetting) -> int:
    """Return how many batches are timed at the most."""
    return math.ceil(min(MOST, max(TIMED, LONG_S / seconds(profile, wanted))))


def stretch(profile: Profile, wanted: LoaderSetting, whole_s: float = LONG_S) -> TimedBatches:
    """Return which batches of a visit are timed; epochs of up to `whole_s` s whole."""
    takes = profile.epoch * seconds(profile, wanted)
    epoch = profile.epoch if takes <= whole_s else 0
    passes = PASSES if takes <= LONG_S else 1
    least, longest = (whole(n, epoch, passes) for n in (fewest(profile, wanted), most(profile, wanted)))
    return TimedBatches(wanted.queue + 2, least, longest, epoch)


def whole(batches: int, epoch: int, passes: int = PASSES) -> int:
    """Return how many batches the whole passes of `epoch` have that hold so many: so many `passes` at the least."""
    return max(passes, math.ceil(batches / epoch)) * epoch if epoch else batches


def known(rates: Sequence[float]) -> bool:
    """Return whether the rates of the parts of a visit tell its mean."""
    return bool(rates) and SURE_SIGMA * scatter(rates) <= PRECISION


def seconds(profile: Profile, wanted: LoaderSetting) -> float:
    """Return the s that a batch is predicted to take."""
    return profile.batch * profile.ranks / max(1e-9, profile.rate(wanted))


def looping(profile: Profile, wanted: LoaderSetting) -> float:
    """Return the s that a visit is predicted to take."""
    skip, timed = length(profile, wanted)
    # A change of workers is taken to need 0.5 s
    return 0.5 + (skip + max(timed, stretch(profile, wanted).least)) * seconds(profile, wanted)
