"""Which setting is measured next, and when that is enough: the best few by prediction, and what they rest on.

The model is a few percent off, so its best is where the search begins. Whether more of everything brings more is then
measured, and where it does, the cheapest setting that brings as much is looked for on the way there (`plateau.py`).
Else the search looks from the best one at one more worker, a longer queue, one less worker and at page-locked batches,
as long as any of them may pay by what is known by now. What is close to the fastest is gone back to in turn with it.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gputune.experiment.measured import gain, unsteadiness
from gputune.experiment.starting import Start, State
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.sweep.choosing import TIE, RateOrder, SettingStats, as_fast, best, order, pays
from gputune.sweep.plateau import between
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting

SURELY = 1.1  # times: a gain whose lower end is above this needs no second start
TURNS = 6  # visits at most that make sure that the best one is faster than the script's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one visit to a setting."""

    state: State
    rates: tuple[float, ...] = ()  # samples/s of parts
    why: str = ""
    memory: int | None = None  # B, all processes
    seconds: float = 0.0
    cut_off: bool = False  # not measured, by no fault of the setting: the budget was over, or the script had ended
    company: Company = ALONE  # how many loaders of its line were seen to live at once by then


class CutOff(Exception):  # noqa: N818 - named for what happened
    """The ceiling was not measured, but may be another time: the budget was over, or no batch came any more."""


class Bench(Protocol):
    """Where settings are measured."""

    noise: float  # relative standard error of a visit, beyond what its parts show
    kept: int  # trials that are kept to tell the best setting from the script's own

    def measure(self, wanted: LoaderSetting) -> Outcome:
        """Measure a setting once."""

    def price(self, wanted: LoaderSetting) -> int:
        """Return how many trials another visit to a setting counts as."""

    def met(self, wanted: LoaderSetting) -> None:
        """Learn that a setting was visited before, by a sweep that is gone on with."""


class StartedBench(Bench, Protocol):
    """A bench with the start of the script that it rests on. `remove()` it, whatever comes."""

    starts: int  # of the script, so far

    @property
    def hangs(self) -> Sequence[str]:
        """Return why it was ended and what it was served, each time that no batch came any more."""

    def profile(self, enough: Callable[[Start], int]) -> Start:
        """Start the script, and return what it shows once as many batches came as `enough` asks for."""

    def know(self, profile: Profile) -> None:
        """Learn what the profile said."""

    def ceiling(self, *, pinned: bool = False) -> float | None:
        """Return samples/s with batches that cost nothing, None where that cannot be measured. Raises CutOff.

        `pinned`: with a batch in page-locked memory, where the script has none there.
        """

    def takes(self, wanted: LoaderSetting) -> float:
        """Return the s that a visit is predicted to take, with its start where it has one."""

    def takes_then(self, wanted: LoaderSetting) -> float:
        """Return the s of one more visit after that one."""

    def allowed(self, wanted: LoaderSetting) -> bool:
        """Return whether there is time for a visit."""

    def remove(self) -> None:
        """End what still runs."""


@dataclass(slots=True)
class Found:
    """What is known by now: rates, what failed and why, what is predicted of everything, and memory as measured."""

    predicted: Mapping[LoaderSetting, float]
    all_stats: dict[LoaderSetting, SettingStats] = field(default_factory=dict)
    failed: dict[LoaderSetting, Outcome] = field(default_factory=dict)
    memory: dict[LoaderSetting, int] = field(default_factory=dict)
    company: Company = ALONE

    def take(self, wanted: LoaderSetting, outcome: Outcome, noise: float) -> None:
        """Take one visit."""
        self.company = self.company.merged(outcome.company)
        if outcome.memory:
            self.memory[wanted] = outcome.memory
        if outcome.state is not State.OK or not outcome.rates:
            self.failed[wanted] = outcome
            return
        self.failed.pop(wanted, None)  # it was cut off the last time
        stats = self.all_stats.setdefault(wanted, SettingStats(setting=wanted, noise=noise))
        stats.visits.append(outcome.rates)
        seen = max(noise, unsteadiness(self.all_stats.values()))  # of the machine: it is that of every setting
        for each in self.all_stats.values():
            each.noise = seen


Tell = Callable[[LoaderSetting, Found], None]
Ample = Callable[[LoaderSetting], LoaderSetting | None]
Deeper = Callable[[LoaderSetting], LoaderSetting]


class Search:
    """One search. `allowed` is asked before every visit whether there is time for it; `trials` may be spent.

    `visits`: to one setting at most while it explores. `ample` returns a setting with plenty of everything beside one
    that is believed to have enough, None where that need not be measured.
    """

    def __init__(  # noqa: PLR0913 - one parameter a part of what it works with
        self,
        profile: Profile,
        bench: Bench,
        found: Found,
        *,
        trials: int,
        allowed: Callable[[LoaderSetting], bool],
        tell: Tell,
        visits: int = 4,  # times that a setting is gone to at most, to tell it from another one
        ample: Ample | None = None,
        deeper: Deeper = lambda wanted: wanted,
    ) -> None:
        self.profile = profile
        self.bench = bench
        self.found = found
        self._trials = trials
        self._allowed = allowed
        self._tell = tell
        self._visits = visits
        self._ample = ample
        self._deeper = deeper
        self._flat = False  # more than the best one has was measured, and brings nothing
        self._more = 0  # visits at most that the comparison at hand may still take
        self._confirming = False
        self._most_workers = max((s.num_workers for s in found.predicted), default=0)

    @property
    def best(self) -> SettingStats:
        """Return the best by now."""
        return best(self.found.all_stats.values(), self.profile.script, self.found.predicted)

    @property
    def _fastest(self) -> SettingStats:
        return max(self.found.all_stats.values(), key=lambda stats: stats.rate)

    def _ties(self, stats: SettingStats) -> bool:
        return as_fast(stats, self._fastest, self.found.predicted)

    @property
    def left(self) -> int:
        """Return how many visits may come at most after the one that is told."""
        if self.bench.price(self.profile.script):
            return self._trials
        return self._more + (0 if self._confirming else self._trials * _turns(self._visits) + TURNS)

    def run(self) -> None:
        """Measure until nothing is left that may pay, or may be measured; then make sure of the best one."""
        self.explore()
        self._confirm()

    def explore(self) -> None:
        """Measure the cheapest of those predicted to be best, whether more brings more, and what else may pay."""
        first = self._first()
        if first is not None and self._ample is not None:
            self._look_beyond(first, self._ample)
        while (wanted := next(self._hopeful(), None)) is not None:
            if not self._visit(wanted):
                break

    def _first(self) -> LoaderSetting | None:
        """Measure the cheapest of those predicted to be best; where it fails, of those with half its workers at most.

        Return where the search goes on from, None where there is nothing.
        """
        most = self._most_workers
        while True:
            within = {s: rate for s, rate in self.found.predicted.items() if s.num_workers <= most}
            first = self._cheapest(within)
            if first is None or first == self.profile.script or not self._visit(first):
                return first
            outcome = self.found.failed.get(first)
            if outcome is None or outcome.cut_off or not first.num_workers:
                return first
            most = first.num_workers // 2

    def _look_beyond(self, first: LoaderSetting, ample: Ample) -> None:
        """Measure a setting with plenty of everything; where it is faster, halve the way to it as long as that pays."""
        all_stats, low = self.found.all_stats, self.best.setting
        if 0 < low.num_workers < first.num_workers:  # more was no better already
            return
        high = ample(low if low.num_workers or first not in all_stats else first)
        if high is None or high in all_stats or high.num_workers > self._most_workers:
            return
        if not self._visit(high) or high not in all_stats or low not in all_stats:
            return
        way = [] if self._ties(all_stats[low]) else between(low, high, self.found.predicted)
        while way:
            at = len(way) // 2
            if not self._visit(way[at]):
                break
            middle = all_stats.get(way[at])
            way = way[:at] if middle is None or self._ties(middle) else way[at + 1 :]
        self._flat = self.best.setting != high and high in all_stats and self._ties(all_stats[high])

    def _cheapest(self, predicted: Mapping[LoaderSetting, float]) -> LoaderSetting | None:
        """Return the cheapest of the settings that are predicted to be about as fast as the fastest.

        Its queue is as long as it can be for nothing. The script's own settings stay as they are.
        """
        most = max(predicted.values(), default=0.0)
        # 0.03 relative: predictions this close are the same, for the model is not more exact than that
        close = [s for s, rate in predicted.items() if rate >= most * (1 - 0.03)]
        found = min(close, key=lambda s: s.cost(self.profile.script), default=None)
        return found if found is None or found == self.profile.script else self._deeper(found)

    def _hopeful(self) -> Iterator[LoaderSetting]:
        """Yield settings beside the best one that may be better, or as good and cheaper; the most promising first."""
        stats = self.best
        known = self.found.all_stats.keys() | self.found.failed.keys()
        off = self._bias()
        beside = [s for s in self._beside(stats.setting) if s not in known and s.num_workers <= self._most_workers]
        for wanted in sorted(beside, key=lambda s: (-self.found.predicted[s], -s.num_workers)):
            hoped = self.found.predicted[wanted] * off
            cheaper = wanted.cost(self.profile.script) < stats.setting.cost(self.profile.script)
            of_workers = wanted.pin_memory == stats.setting.pin_memory
            # 0.02: a setting that is predicted no further behind the best may be it: the model's own error, once
            # corrected
            if (cheaper or not (self._flat and of_workers)) and hoped >= stats.rate * (1 - (TIE if cheaper else 0.02)):
                yield wanted

    def _bias(self) -> float:
        """Return by what predictions were off where workers were measured; 1 where none were."""
        pairs = [(t.rate, self.found.predicted[s]) for s, t in self.found.all_stats.items() if s.num_workers]
        return statistics.median(rate / predicted for rate, predicted in pairs if predicted) if pairs else 1.0

    def _beside(self, here: LoaderSetting) -> Iterator[LoaderSetting]:
        """Yield the neighbours of a setting: fewer and more workers, each with its best queue, and a longer queue.

        And itself with page-locked batches, where that is predicted to bring anything.
        """
        pinned = replace(here, pin_memory=True)
        if self.found.predicted.get(pinned, 0.0) > self.found.predicted[here] * (1 + TIE):
            yield pinned
        numbers = sorted({s.num_workers for s in self.found.predicted})
        at = numbers.index(here.num_workers)
        for number in numbers[max(0, at - 1) : at + 2]:
            same = {
                s: rate
                for s, rate in self.found.predicted.items()
                if s.num_workers == number
                and (s.pin_memory, s.persistent_workers and number > 0)
                == (here.pin_memory, here.persistent_workers and number > 0)
            }
            if number == here.num_workers:
                longer = [s for s in same if s.queue > here.queue]
                yield from sorted(longer, key=lambda s: s.queue)[:1]
            else:
                chosen = self._cheapest(same)
                if chosen is not None:
                    yield chosen

    def _visit(self, wanted: LoaderSetting) -> bool:
        """Measure a setting, and go back to it and the best one while that may decide between them.

        Return False when there is nothing left to spend.
        """
        keep = self.bench.kept
        self._more = _turns(self._visits)
        if not self._measure(wanted, keep):
            return False
        for _ in range(self._visits - 1):
            stats, rival = self.found.all_stats.get(wanted), self._rival(wanted)
            if stats is None or rival is None or self._is_told(stats, rival):
                break
            if self.bench.price(wanted) or not self._measure(rival.setting, keep) or not self._measure(wanted, keep):
                break
        return True

    def _is_told(self, stats: SettingStats, rival: SettingStats) -> bool:
        """Return whether more visits to two settings would bring less than they take.

        By how much visits to one setting differ is not known before one of them was gone back to.
        """
        found = gain(rival, stats)
        if found.low > SURELY or found.high < 1 / SURELY:
            return True
        if all(len(each.visits) == 1 for each in self.found.all_stats.values()):
            return False
        more = self._visits - min(len(stats.visits), len(rival.visits))
        return not pays(stats, rival, self.found.predicted, more)

    def _rival(self, wanted: LoaderSetting) -> SettingStats | None:
        others = [stats for s, stats in self.found.all_stats.items() if s != wanted]
        return max(others, key=lambda stats: stats.rate, default=None)

    def _measure(self, wanted: LoaderSetting, keep: int) -> bool:
        price = self.bench.price(wanted)
        if price > self._trials - keep or not self._allowed(wanted):
            return False
        self._trials -= price
        self._more -= 1
        self._tell(wanted, self.found)
        outcome = self.bench.measure(wanted)
        self.found.take(wanted, outcome, self.bench.noise)
        if outcome.state is not State.OK and not outcome.cut_off and wanted.num_workers:
            self._most_workers = min(self._most_workers, wanted.num_workers - 1)
            self._withdraw(wanted)
        return True

    def _withdraw(self, wanted: LoaderSetting) -> None:
        """Recommend no setting that failed, however often it went well before; the script's own are what they are."""
        if wanted != self.profile.script:
            self.found.all_stats.pop(wanted, None)

    def _confirm(self) -> None:
        """Measure the best one and the script's own in turn until they are apart, or are seen to tie."""
        script = self.profile.script
        self._more, self._confirming = TURNS, True
        for _ in range(TURNS):
            fastest = self._fastest
            own = self.found.all_stats.get(script)
            if own is None or fastest is own:
                return
            apart = order(fastest, own)
            if apart is RateOrder.TIE or (apart is RateOrder.FASTER and self._is_settled(own, fastest)):
                return
            fewer = fastest if len(fastest.visits) <= len(own.visits) else own
            if not self._measure(fewer.setting, keep=0):
                return

    def _is_settled(self, own: SettingStats, fastest: SettingStats) -> bool:
        """Return whether a gain is sure: both were seen twice, for a visit does not show what disturbed all of it.

        Where to look again would cost a trial, the best one is, and not even that if the gain is large.
        """
        if self.bench.price(fastest.setting):
            return len(fastest.visits) > 1 or gain(own, fastest).low > SURELY
        return min(len(fastest.visits), len(own.visits)) > 1


def _turns(visits: int) -> int:
    """Return how many visits the first look at a setting may take, which goes back to it and to the best one."""
    return 2 * visits - 1
