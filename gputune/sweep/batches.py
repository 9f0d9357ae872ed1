"""Which batch size: each in a process of its own, with batches that cost nothing, so that the device alone is seen.

It grows to the knee of samples/s and not to the largest that fits: beyond it a larger batch costs memory, and steps
that the learning may need, and buys nothing. A size that fails is a row like any other.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import harmonic_mean

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.experiment.budget import Budget
from gputune.experiment.filling import UNKNOWN, Filled, filled, largest, shortage
from gputune.experiment.starting import Cause, State
from gputune.features import Features
from gputune.sweep.journal import Journal
from gputune.sweep.learning import stepped
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.starter import Starter

AUTO = "auto"
KNEE = (
    0.05  # relative: twice the batch has to buy more than this, and the smallest size this close to the best is taken
)
MOST_TIMES = 64  # times the script's own size: beyond it nobody would train so
TIMED, LEAST_S = 25, 3.0  # batches, and s, that a size is looked at

Tell = Callable[[str], None]


class SizeNotSet(GputuneError):  # noqa: N818 - named for what happened
    """The script makes its batches in a way that a batch size set at construction does not reach."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the batch size of the loader at `{clean(where, 60)}` cannot be set: {clean(why)}",
            hint="change it in the script and sweep again, or leave out `--batch-sizes`",
        )


class TooFull(GputuneError):  # noqa: N818 - as above
    """A size fits where its batches are all the same, and not with room to spare where they are as they come."""

    def __init__(self, why: str) -> None:
        super().__init__(why, hint="a smaller size is tried instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One batch size: samples/s of everything but the loading, and how full the fullest of its memories was."""

    setting: LoaderSetting
    state: State
    rate: float | None = None
    filled: Filled = UNKNOWN
    why: str = ""
    cause: Cause = Cause.UNKNOWN
    memory: int | None = None
    node: str = ""  # of a cluster, on which it ran

    @property
    def fits(self) -> bool:
        """Return whether it ran with room to spare."""
        return self.rate is not None and self.filled.fits


class Sizes:
    """The sizes that are tried, one after the other."""

    def __init__(self, profile: Profile, starter: Starter, journal: Journal, budget: Budget, tell: Tell) -> None:
        self._profile = profile
        self._starter = starter
        self._journal = journal
        self._budget = budget
        self._tell = tell
        self._judge = starter.judge()
        self.tried: list[Size] = []
        self.left_out: int | None = None  # the first for which there was no time

    def run(self, asked: Sequence[int] | str) -> None:
        """Try them. Raises SizeNotSet where the size cannot be set at all."""
        own = self._profile.script.batch_size
        if own is None:
            raise SizeNotSet(
                self._profile.loader.where, "its dataset or a sampler of the script's own makes the batches"
            )
        numbers = self._growing(own) if asked == AUTO else iter([int(n) for n in asked])
        for found in self._one_by_one(numbers) if self._starter.at_once == 1 else self._side_by_side(numbers):
            if found.cause is Cause.SIZE_NOT_SET:
                raise SizeNotSet(self._profile.loader.where, found.why.removeprefix("batch_size: "))
            self.tried.append(found)
        if asked == AUTO and (number := self._between()) is not None and self._allowed(number):
            self.tried.append(self._try(number))

    def _between(self) -> int | None:
        """Return the largest size that fits by what smaller ones took, where memory ended the growing and not the knee.

        None where it would not buy more than the last one that fits did.
        """
        fitting = [size for size in self.tried if size.fits]
        if not fitting or fitting == self.tried or not self._bought(fitting):
            return None
        last, too_large = fitting[-1].setting.batch_size or 0, self.tried[-1].setting.batch_size or 0
        found = largest([(size.setting.batch_size or 0, size.filled) for size in fitting])
        return found if found is not None and last * (1 + KNEE) < found < too_large else None

    def _bought(self, fitting: Sequence[Size]) -> bool:
        """Return whether memory stopped what still paid."""
        last = self.tried[-1]
        of_memory = last.state is State.OOM or not last.filled.fits
        rates = [size.rate or 0.0 for size in fitting[-2:]]
        return of_memory and (len(rates) == 1 or rates[1] >= rates[0] * (1 + KNEE))

    def _one_by_one(self, numbers: Iterator[int]) -> Iterator[Size]:
        for number in numbers:
            if not self._allowed(number):
                return
            yield self._try(number)

    def _side_by_side(self, numbers: Iterator[int]) -> Iterator[Size]:
        """Yield what came of them in their order, as many at once as may run so."""
        waiting: deque[Future[Size]] = deque()
        pool = ThreadPoolExecutor(self._starter.at_once, thread_name_prefix="gputune-trial")
        try:
            while True:
                while len(waiting) < self._starter.at_once:
                    number = next(numbers, None)
                    if number is None or not self._allowed(number):
                        break
                    waiting.append(pool.submit(self._try, number))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _allowed(self, number: int) -> bool:
        """Return whether there is time for a size, and say what is done."""
        if not self._journal.knows(f"batch {number}") and not self._budget.allows(self._looping(number)):
            self._tell(f"no time for batch_size={number}")
            self.left_out = self.left_out or number
            return False
        self._tell(f"batch_size={number}, with batches that cost nothing")
        return True

    def _growing(self, own: int) -> Iterator[int]:
        """Yield sizes from the script's own on, doubled as long as that pays by what is known."""
        samples = self._samples
        # 4 in an epoch: with fewer, the size of the data set decides and not the device
        most = own * MOST_TIMES if samples is None else min(own * MOST_TIMES, samples // 4)
        number = own
        while number <= max(own, most):
            yield number
            if not self._still_pays():
                return
            number *= 2

    def _still_pays(self) -> bool:
        """Return whether the last size known fits, and did better than the one before; so where none is known."""
        if not self.tried:
            return self._starter.at_once > 1
        last, before = self.tried[-1], self.tried[-2].rate if len(self.tried) > 1 else 0.0
        return last.rate is not None and last.fits and last.rate >= (before or 0.0) * (1 + KNEE)

    @property
    def _samples(self) -> int | None:
        """Return the samples that a rank has in an epoch, None where that is not known."""
        whole = self._profile.loader.samples_in_dataset
        return whole // self._profile.ranks if whole else None

    def _looping(self, number: int) -> float:
        own = self._profile.script.batch_size or number
        return max(LEAST_S, TIMED * self._profile.per_batch * max(1.0, number / own))

    def _try(self, number: int) -> Size:
        wanted = replace(self._profile.script, batch_size=number)
        samples = self._samples
        if samples is not None and number > samples:
            return Size(
                setting=wanted, state=State.FAILED, why=f"there are {samples:,} samples, no batch can have more"
            )
        plan = self._starter.plan(seconds=self._looping(number))
        name = f"batch {number}"
        found = self._journal.start(
            name, lambda: self._starter.start(plan, name, wanted, judge=self._judge, spread=True, replay=True)
        )
        own = self._profile.script.batch_size or number
        idle = self._learns_nothing(found.run)
        ran_out = idle and found.run is not None and found.run.out_of_memory
        return Size(
            setting=wanted,
            state=State.OOM if ran_out else State.FAILED if idle else found.state,
            rate=harmonic_mean(found.rates) if found.rates and not idle else None,
            filled=filled(found.run, host=number > own),
            why=idle or found.why,
            cause=Cause.UNKNOWN if idle else found.cause,
            memory=found.memory,
            node=found.node,
        )

    def _learns_nothing(self, run: Features | None) -> str:
        """Return in a sentence that batches went by without a step of the optimizer, "" where they did not."""
        processes = () if run is None else run.processes
        process = max(processes, key=lambda found: found.batches, default=None)
        if process is None or stepped(process, self._profile.outlook.process):
            return ""
        caught = "as where an error of memory is caught"
        if run is not None and run.out_of_memory:
            caught = f"for it goes on where memory runs out ({shortage(run.out_of_memory[-1])})"
        return (
            f"its optimizer made {process.optimizer_steps} steps in {process.batches} batches, and more of them with "
            f"the script's own size: the other batches trained nothing, {caught}"
        )

    def candidates(self) -> list[int]:
        """Return the sizes to go on with, the best first: the smallest at the knee, then smaller ones."""
        fitting = {s.setting.batch_size or 0: s.rate or 0.0 for s in self.tried if s.fits}
        if not fitting:
            return []
        best = max(fitting.values())
        knee = min(number for number, rate in fitting.items() if rate >= best * (1 - KNEE))
        return [knee, *sorted((number for number in fitting if number < knee), reverse=True)]
