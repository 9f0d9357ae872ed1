"""What it takes to have a training's loader served under a setting for a while: the order, its answers, how long.

The guest's side of it is docs/steering.md. Trials and real trainings are visited alike.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from gputune.hygiene import clean
from gputune.sample import Json
from gputune.sweep.choosing import SURE, scatter
from gputune.sweep.profile import Profile
from gputune.sweep.settings import Setting
from gputune.sweep.timeline import LEAST, PASSES

NOISE = 0.005  # relative: standard error between two visits in one process
SHORT_S, LONG_S = 0.8, 2.0  # s of timed batches in a visit: more visits in turn tell more than longer ones
TIMED, MOST = 24, 1000  # batches timed in a visit
PRECISION = 0.03  # relative, of the mean of a visit, with a certainty of 95 %
PATIENCE = 4  # times a visit of the longest kind, where most of its batches were made in evaluations
STARTING_S = 0.5  # s that a change of workers is believed to take
ANSWER_S = 75.0  # s for an answer: the guest itself gives up after 60
FAILURES = ("its workers", "one of its workers", "under it")  # what it says of settings, and not of the loader
SWITCHED = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")

Told = tuple[int, Mapping[str, Json]]  # (process, note)


class NotSteered(Exception):  # noqa: N818 - named for what happened
    """The loader cannot be switched while it is iterated; the message says why."""


class Failed(Exception):  # noqa: N818 - as above
    """The loader was not served under a setting, or not for long; the message says why."""


def answers(notes: Iterable[Told], seq: int) -> dict[int, Mapping[str, Json]]:
    """Return the last answer of each process to order number `seq`."""
    told = ((process, note) for process, note in notes if note.get("n") == "steer")
    return {process: note for process, note in told if note.get("seq") in {seq, 0}}


def check(answered: Mapping[int, Mapping[str, Json]]) -> None:
    """Raise NotSteered or Failed where a rank did not, or does not any more, obey."""
    for answer in answered.values():
        if answer.get("state") == "refused":
            why = clean(str(answer.get("why")), 200)
            raise Failed(why) if why.startswith(FAILURES) else NotSteered(why)


def ready(answered: Mapping[int, Mapping[str, Json]]) -> int:
    """Return when the last rank had its first batch under the order (ns)."""
    return max(int(str(answer.get("ready_ns"))) for answer in answered.values())


def length(profile: Profile, wanted: Setting) -> tuple[int, int]:
    """Return how many batches of a visit are left out, and how many are timed by what is known before it."""
    needed = max(fewest(profile, wanted), (1.96 * profile.spread / PRECISION) ** 2)
    return wanted.queue + 2, int(min(needed, most(profile, wanted)))


def fewest(profile: Profile, wanted: Setting) -> int:
    """Return how many batches are timed at the least."""
    return math.ceil(min(MOST, max(TIMED, LEAST + 2, SHORT_S / seconds(profile, wanted))))


def most(profile: Profile, wanted: Setting) -> int:
    """Return how many batches are timed at the most."""
    return math.ceil(min(MOST, max(TIMED, LONG_S / seconds(profile, wanted))))


def passing(profile: Profile, wanted: Setting) -> int:
    """Return the batches of an epoch that is short against a visit, else 0: a visit to a trial times whole ones.

    What starts with each weighs in the visit as it does in truth then, and not by how many starts fall into it.
    """
    return profile.epoch if profile.epoch * seconds(profile, wanted) <= LONG_S else 0


def bounds(profile: Profile, wanted: Setting, epoch: int) -> tuple[int, int]:
    """Return how many batches of a trial are timed at the least and at the most; with an `epoch`, in whole ones."""
    plain = fewest(profile, wanted), most(profile, wanted)
    least, longest = (max(PASSES, math.ceil(n / epoch)) * epoch for n in plain) if epoch else plain
    return least, longest


def known(rates: Sequence[float]) -> bool:
    """Return whether the rates of the parts of a visit tell its mean."""
    return bool(rates) and SURE * scatter(rates) <= PRECISION


def seconds(profile: Profile, wanted: Setting) -> float:
    """Return the s that a batch is predicted to take."""
    return profile.batch * profile.ranks / max(1e-9, profile.rate(wanted))


def looping(profile: Profile, wanted: Setting) -> float:
    """Return the s that a visit is predicted to take."""
    skip, timed = length(profile, wanted)
    least, _ = bounds(profile, wanted, passing(profile, wanted))
    return STARTING_S + (skip + max(timed, least)) * seconds(profile, wanted)
