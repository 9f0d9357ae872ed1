"""What it buys to step environments side by side in processes, and more of them at once for each call of the policy."""

from collections.abc import Iterator
from dataclasses import dataclass

from gputune.core.events import ENVIRONMENT_SPAN, POLICY_SPAN
from gputune.core.figures import TINY
from gputune.core.finding import Speedup
from gputune.features import Acting, Features, Process
from gputune.model.prediction import ERROR, GOOD_ENOUGH, interval

TIMES = (1, 2, 4)  # as many environments: more at once changes what is learnt, and fills a rollout with fewer steps
WORTH = 1.25  # times as much as without: for less it is not advised to change what is learnt
FEWEST = 4  # environments that are worth being advised where there is one
ASKED = 40e-6  # s to have an environment in a process of its own make a step, and to hear of it, of the training thread
FORWARD = 1 / 3  # of a forward and a backward pass


@dataclass(frozen=True, slots=True)
class RolloutLayout:
    """So many environments, in so many processes of their own at once (0: on the training thread), and its gain."""

    environments: int
    processes: int
    gain: Speedup


@dataclass(frozen=True, slots=True)
class Loop:
    """Where the time of a loop goes for one step of one environment, in s."""

    stepping: float
    policy: float
    learning: float
    settling: float = 0.0  # of the learning, before its first backward pass: returns, step by step of a rollout

    @property
    def whole(self) -> float:
        """Return all of it."""
        return self.stepping + self.policy + self.learning


def loop_of(process: Process, acting: Acting) -> Loop:
    """Return the loop of a process that acts."""
    spent = (process.in_loop.get(name, 0.0) for name in (ENVIRONMENT_SPAN, POLICY_SPAN))
    stepping, policy = (seconds / max(TINY, process.loop) for seconds in spent)
    each = acting.step / acting.environments / max(TINY, stepping)
    learning = each * max(0.0, 1 - stepping - policy)
    return Loop(each * stepping, each * policy, learning, min(learning, acting.settling / acting.environments))


def best_layout(run: Features, process: Process, acting: Acting) -> RolloutLayout:
    """Return the smallest change that is about as good as the best; the present layout where none is better."""
    now = loop_of(process, acting)
    cpus = max(1.0, (run.machine.cpus - (run.machine.others or 0.0)) / run.machine.ranks)
    if acting.runners:
        return _more_runners(now, acting, round(cpus))
    found = list(_layouts(now, acting, cpus))
    same = max((x for x in found if x.environments == acting.environments), key=lambda x: x.gain.likely)
    best = max(x.gain.likely for x in found)
    if same.gain.likely * WORTH >= best:
        return same
    return next(x for x in found if x.gain.likely * GOOD_ENOUGH >= best)


def _more_runners(now: Loop, acting: Acting, cpus: int) -> RolloutLayout:
    """Return a runner for each CPU: while the training waits for samples, its own is free.

    At the most the rollouts take as many times less; at the least half of what that spares is lost to what all share.
    """
    runners = max(acting.processes, cpus)
    spared = (now.stepping + now.policy) * (1 - acting.processes / runners)
    if not spared:
        return RolloutLayout(acting.environments, runners, Speedup(low=1.0, likely=1.0, high=1.0))
    least, most = (now.whole / (now.whole - part * spared) for part in (0.5, 1.0))
    low, high = interval(least, ERROR), interval(most, ERROR)
    gain = Speedup(low=low.low, likely=(least + most) / 2, high=high.high, steady=low.steady)
    return RolloutLayout(acting.environments * runners // acting.processes, runners, gain)


def _layouts(now: Loop, acting: Acting, cpus: float) -> Iterator[RolloutLayout]:
    """Yield what may be tried, the smallest change first: processes alone leave what is learnt as it is."""
    n = acting.environments
    counts = [n * times for times in TIMES] if n > 1 else [1, max(FEWEST, round(cpus))]
    for many in counts:
        for processes in {acting.processes and many, 0, many} if many > 1 else {acting.processes}:
            yield RolloutLayout(many, processes, _gain(now, acting, many, processes, cpus))


def _gain(now: Loop, acting: Acting, many: int, processes: int, cpus: float) -> Speedup:
    if (many, processes > 0) == (acting.environments, acting.processes > 0):
        return Speedup(low=1.0, likely=1.0, high=1.0)
    fewer = now.learning - now.settling * (1 - acting.environments / many)  # a rollout has fewer steps
    parts = zip(
        _stepping(now, acting, many, processes, cpus), _policy(now, acting, many), (now.learning, fewer), strict=True
    )
    bounds = [now.whole / sum(each) for each in parts]
    sure = [interval(max(1.0, bound), ERROR) for bound in bounds]
    low, likely, high = sure[0].low, (max(1.0, bounds[0]) + max(1.0, bounds[1])) / 2, sure[1].high
    return Speedup(low=min(low, likely), likely=likely, high=max(high, likely), steady=sure[0].steady)


def _stepping(now: Loop, acting: Acting, many: int, processes: int, cpus: float) -> tuple[float, float]:
    """Return the most and the least s that a step of one environment takes, of so many at once.

    In processes they make as many rounds as the CPUs that others leave need for all; where these do not share them
    evenly, one more.
    """
    if processes == 0 or acting.processes:
        return now.stepping, now.stepping
    rounds = max(1.0, many / cpus)
    uneven = rounds + (many > cpus)
    most, least = (min(many, x) * now.stepping / many + ASKED for x in (uneven, rounds))
    return most, least


def _policy(now: Loop, acting: Acting, many: int) -> tuple[float, float]:
    """Return the most and the least s of the policy for one environment's step, if it is asked for so many at once.

    At the least it takes no longer for them. At the most each costs what a forward pass of the learning does, which has
    batches, though it learns from each step at least once.
    """
    less = now.policy * acting.environments / many
    more = FORWARD * now.learning * (1 - acting.environments / many)
    return min(now.policy, less + more), less
