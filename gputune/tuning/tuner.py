"""The course of a tuning: look at the training, try what may pay, prove it, keep it or go back, and stay watchful.

Whatever ends it before something is kept, the script's own settings serve again.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.experiment.measured import gain, in_turn, unsteadiness
from gputune.experiment.starting import Start, State, most_waited
from gputune.experiment.timeline import WARM_UP
from gputune.features import Features
from gputune.features.windowing import thin
from gputune.launch.steering import OrderChannel
from gputune.launch.values import TRYING
from gputune.model.minimum_samples import LEAST_BATCHES
from gputune.sweep.choosing import SettingStats, best
from gputune.sweep.profile import OwnKind, Profile, TakenApart, profile
from gputune.sweep.search import Found, Outcome, Search
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.visiting import NOISE, NotSteered, NotYet, VisitFailed
from gputune.tuning import reported
from gputune.tuning.candidates import CAREFUL, IDENTICAL, candidates, changes_workers, healthy, hopeless
from gputune.tuning.reported import TuningStory
from gputune.tuning.training import Training
from gputune.tuning.visits import Visits

ENOUGH = LEAST_BATCHES + 20  # batches before it, warm-up included
OLDER = 4.0  # times as long a training has gone on, and it is looked at again
LATER = 0.25  # times as long as it has gone on, until it is tried again where too little was known
WORTH_KEEPING = 1.03  # times as fast: less is not worth workers and memory that nobody asked for
Say = Callable[[str], None]


class Tuner:
    """One tuning. `run` it in a thread of its own; `story` can be read from any."""

    def __init__(self, training: Training, orders: OrderChannel, mode: str, say: Say) -> None:
        self.story = TuningStory(mode)
        self.since: Features | None = None  # what was known when the settings in force had come, thin
        self.before: Features | None = None  # what was known before others were tried that were not to be kept
        self._training = training
        self._orders = orders
        self._say = say
        self._visits: Visits | None = None
        self._began = time.monotonic()

    def run(self) -> None:
        """Tune until the training ends, which raises Over, or until nothing is left to be done."""
        story = self.story
        try:
            while not self._tuned():
                self._training.pass_by(LATER * (time.monotonic() - self._began))
        except (GputuneError, NotSteered, VisitFailed) as why:
            story.state = reported.LOST if story.state == reported.KEPT else reported.REFUSED
            story.why = str(why.args[0])
        if self._visits is not None:
            with contextlib.suppress(VisitFailed, NotSteered):  # what serves then is the script's own in any case
                self._visits.keep(self._visits.script)
            self._settled(self._visits.script)

    def _tuned(self) -> bool:
        """Tune; return whether that was possible by what is known by now."""
        try:
            self._tune(*self._look())
        except NotYet as why:
            self.story.state, self.story.why = reported.WAITING, str(why.args[0])
            self.give_up()
            return False
        return True

    def give_up(self) -> None:
        """Have the script's own settings serve, unless better ones were kept; nobody waits for it."""
        if self._visits is not None and self.story.state != reported.KEPT:
            self._visits.go_back()

    # to begin with

    def _look(self) -> tuple[Profile, dict[LoaderSetting, float]]:
        """Look at the training until something may pay, now and then again; return what is known by then."""
        story, draws = self.story, self._training.draws
        while True:
            here = self._profile()
            story.where, story.own = here.loader.where, here.script
            story.drawn(draws)
            why = healthy(here)
            predicted = {} if why else candidates(here, story.mode, draws)
            why = why or hopeless(here, predicted, story.mode, draws)
            if not why:
                return here, predicted
            story.state, story.why = reported.HEALTHY, why
            self._training.pass_by(min(1800.0, (OLDER - 1) * here.outlook.process.loop))  # s between looks at the most

    def _profile(self) -> Profile:
        """Wait for batches enough, and return what they show of the loader that is waited for most."""
        training = self._training
        wait = 4.0  # s of batches before the first look: allocators and caches have settled by then, as far as they do
        while True:
            training.until(lambda: training.timeline.batches() >= ENOUGH)
            training.pass_by(wait)
            wait = 1.0  # s between looks while too little is known
            found = self._seen(training.features())
            if found is None:
                continue
            try:
                return profile(found, "the script", found.where)
            except (OwnKind, TakenApart) as why:
                self.story.why = str(why.args[0])
            except GputuneError:
                self.story.why = ""  # too few batches yet

    def _seen(self, run: Features) -> Start | None:
        """Return what is seen of processes that live as if it were a start of a script; None where it is little."""
        timeline = self._training.timeline
        living = set(timeline.pids.values())
        run = replace(run, processes=tuple(p for p in run.processes if p.pid in living))
        where = most_waited(run)
        skip = max(WARM_UP, timeline.queue(where) + 2)
        # 2000 batches of which the baseline is made, as many as the features keep
        rates = timeline.passes(where, skip, timeline.since(where, 2000), timeline.length(where))
        if not where or not rates:
            return None
        return Start(
            state=State.OK,
            log="",
            memory=run.machine.memory_job,
            batches=timeline.batches(where),
            over=True,
            where=where,
            rates=rates,
            run=run,
            loaders=timeline.loaders,
            company=timeline.company(where).switched,
        )

    # the tuning

    def _tune(self, here: Profile, predicted: dict[LoaderSetting, float]) -> None:
        """Try the settings that may pay, and keep the best one if it surely does."""
        short = self._training.room.short()
        if short:
            raise NotSteered(short)
        self._warn(here, predicted)
        story = self.story
        story.state, story.why = reported.TRYING, ""
        if story.mode == TRYING:
            self.before = self._training.features()
            story.tried_from = round(self.before.wall, 3)
        visits = self._visits = Visits(self._training, self._orders, here)
        own = SettingStats(setting=here.script, noise=NOISE, visits=[here.parts])
        found = Found(predicted=predicted, all_stats={here.script: own})
        search = Search(
            here,
            visits,
            found,
            trials=4,  # that are tried, beside the script's own
            allowed=lambda wanted: not self._forbidden(wanted),
            tell=lambda wanted, now: self._told(wanted, now, own),
            visits=1,  # what is close to the best will do: whether it pays is proved in turn with the script's own
        )
        search.explore()
        story.found(found)
        chosen = self._promising(found, own)
        pays = chosen is not None and self._pays(chosen, found, visits)
        if story.mode == TRYING:
            story.state = reported.TRIED
        elif chosen is not None and pays:
            self._keep(chosen, visits)
        else:
            story.state = reported.UNCHANGED

    def _warn(self, here: Profile, predicted: dict[LoaderSetting, float]) -> None:
        """Say before the first switch what will not be as in an untuned run."""
        draws = self._training.draws
        self.story.drawn(draws)
        if self.story.mode in CAREFUL or not changes_workers(here, predicted):
            return
        before, self.story.differs = self.story.differs, draws.differs()
        if self.story.differs and self.story.differs != before:
            self._say(
                f"the loader at {clean(here.loader.where, 60)} is about to be served by other workers; "
                f"{self.story.differs}. `--tune={IDENTICAL}` changes nothing of it"
            )

    def _forbidden(self, wanted: LoaderSetting) -> str:
        """Return why a setting may not serve, or not any more; nothing where it may."""
        own, draws = self.story.own, self._training.draws
        if wanted == own:
            return ""
        if self.story.mode in CAREFUL and own and wanted.num_workers != own.num_workers and not draws.harmless:
            return draws.differs()
        return self._training.room.short()

    def _told(self, wanted: LoaderSetting, found: Found, own: SettingStats) -> None:
        """Tell what was measured so far, and what is now."""
        self.story.found(found)
        self.story.measuring = wanted
        self._promising(found, own)

    def _promising(self, found: Found, own: SettingStats) -> LoaderSetting | None:
        """Return the cheapest of the settings about as fast as the fastest that was tried; None where none can pay.

        One visit each is not enough to be sure of anything, so what is not surely useless is worth a proof.
        """
        tried = [stats for stats in found.all_stats.values() if stats is not own]
        if not tried:
            return None
        chosen = best(tried, own.setting, found.predicted)
        self.story.gain, self.story.best = gain(own, chosen), chosen.setting
        return chosen.setting if self.story.gain.high >= WORTH_KEEPING else None

    # After 4 rounds of four visits each, best and own in turn, what cannot be told apart yet is given up
    def _pays(self, wanted: LoaderSetting, found: Found, visits: Visits, rounds: int = 4) -> bool:
        """Measure a setting and the script's own in turn (ABBA); return whether it surely pays."""
        own, other = (SettingStats(setting=s, noise=NOISE) for s in (visits.script, wanted))
        pairs = in_turn(own, other)
        for _ in range(rounds):
            for stats in (*next(pairs), *next(pairs)):
                self.story.measuring = stats.setting
                outcome = self._visited(stats.setting, visits)
                if outcome.state is not State.OK or not outcome.rates:
                    found.failed[stats.setting] = outcome
                    self.story.found(found)
                    return False
                stats.visits.append(outcome.rates)
            surely = self._compared(own, other)
            found.all_stats[wanted] = other
            self.story.found(found)
            if surely is not None:
                return surely
        return False

    def _visited(self, wanted: LoaderSetting, visits: Visits) -> Outcome:
        forbidden = self._forbidden(wanted)
        return Outcome(state=State.FAILED, why=forbidden) if forbidden else visits.measure(wanted)

    def _compared(self, own: SettingStats, other: SettingStats) -> bool | None:
        """Return whether a setting surely pays, or surely does not; None where that is not known yet."""
        own.noise = other.noise = max(NOISE, unsteadiness((own, other)))
        found = self.story.gain = gain(own, other)
        if found.low > 1 and found.likely >= WORTH_KEEPING:
            return True
        return False if found.high < WORTH_KEEPING else None

    # afterwards

    def _keep(self, chosen: LoaderSetting, visits: Visits) -> None:
        """Have the best setting serve for good, and give it up where that must be."""
        story = self.story
        visits.keep(chosen)
        story.state = reported.KEPT
        self._settled(chosen)
        due = OLDER * time.monotonic() - (OLDER - 1) * self._began
        while not story.why:
            self._training.beat()
            story.drawn(self._training.draws)
            story.why = visits.refused() or self._forbidden(chosen)
            if not story.why and time.monotonic() > due:
                due = OLDER * time.monotonic() - (OLDER - 1) * self._began
                story.why = self._again(chosen, visits)
        story.state = reported.LOST

    def _again(self, kept: LoaderSetting, visits: Visits) -> str:
        """Hold a kept setting against the script's own once more; return why it is given up, nothing if it is not."""
        before = self.story.gain
        found = Found(predicted={})
        if not self._pays(kept, found, visits, rounds=1):
            if found.failed:
                return next(iter(found.failed.values())).why
            if self.story.gain is not None and self.story.gain.high < 1:
                return "it did not pay any more"
            self.story.gain = before
        visits.keep(kept)
        return ""

    def _settled(self, now: LoaderSetting) -> None:
        """Tell which settings serve from here on: findings are about the run from here on, too. Raises Over."""
        found = self._training.features()
        self.since = thin(found)
        self.story.now, self.story.since = now, round(found.wall, 3)
        self.story.batch = sum(p.batches for p in found.processes)
