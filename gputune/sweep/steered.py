"""All settings in one start: the training goes on, and its loader is switched from setting to setting in mid-epoch.

The guest obeys orders (docs/steering.md) and answers each in a note, in every rank. A script that ends before all was
measured is started again; a loader that cannot be switched is measured by restarts instead.
"""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import harmonic_mean

from gputune.experiment.budget import Budget
from gputune.experiment.living import LiveStart
from gputune.experiment.starting import Cause, Fault, Start, State, fault_of, left, outcome
from gputune.experiment.timeline import WARM_UP, Timeline
from gputune.launch import folders
from gputune.launch.steering import OrderChannel
from gputune.sweep import blame
from gputune.sweep.profile import Profile
from gputune.sweep.search import CutOff, Outcome
from gputune.sweep.served import Served
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.starter import Starter
from gputune.sweep.visiting import (
    MOST,
    SWITCHED,
    TIMED,
    NotSteered,
    TimedBatches,
    VisitFailed,
    answers,
    known,
    looping,
    seconds,
    stretch,
)

SOON_S, PROFILE_S, MOST_PROFILE_S = 1.5, 2.5, 60.0  # s of batches before the first order: alike, else, and where slow
STUCK_S = 60.0  # s without a batch after which a setting, or the script, hangs
LEAST_END_S = 10.0  # s of these where the budget is over, or where it did not obey
QUIET_S, QUIET = 5.0, 10  # s, and times what a batch takes: without one for so long it may hang


class ScriptEnded(Exception):  # noqa: N818 - named for what happened
    """The script has ended, or hangs; without a `fault` it ended well."""

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__("" if fault is None else fault.why)
        self.fault = fault
        self.state = State.OK if fault is None else fault.state


class Hung(ScriptEnded):
    """No batch comes any more; the script still runs."""

    fault: Fault


class Late(Hung):
    """The budget is over, and the script still runs; `quiet`: no batch came any more."""

    def __init__(self, why: str, *, quiet: bool) -> None:
        super().__init__(Fault(Cause.OUT_OF_TIME, why))
        self.quiet = quiet


class Steered(Served):
    """A bench in one start. `close()` it, whatever comes."""

    def __init__(self, starter: Starter, wanted: LoaderSetting | None, budget: Budget) -> None:
        """`wanted`: what the loader is built with, for a batch size; None for the script's own."""
        super().__init__()
        self._starter = starter
        self._wanted = wanted
        self._budget = budget
        self._live: LiveStart | None = None
        self._folder = folders.rings()  # for orders: where we are killed the next one removes it, as it does with rings
        self._lock = folders.hold(self._folder)
        self._memory: dict[LoaderSetting, int] = {}
        self._profile: Profile | None = None
        self._silent = 0.0  # s for which no batch had come when the last start was ended; 0 where it still went on
        self._sound = 0  # batches that the script does with its own settings, and does not fail
        self._ended = 0  # batches of the last start that ended by itself in a visit
        self._last = (0.0, 0)  # when (s of the start) it was last seen to go on, and its `life` by then
        self.starts = 0
        self.hangs: list[str] = []

    # the start

    def profile(self, enough: Callable[[Start], int]) -> Start:
        """Start the script, and return what it shows once `enough` batches came; it goes on where it can.

        `enough` is asked with what is known by then.
        """
        live = self._begin()
        where = self._starter.where
        try:
            self._wait(lambda: live.timeline.batches(where) > 0, live, self._starter.within)
            first = live.seconds
            self._beats(live, SOON_S)
            while True:
                looped = live.seconds - first
                found = self._seen(live, where)
                told = known(found.rates) if looped < PROFILE_S else bool(found.rates)
                if told and found.batches >= enough(found):
                    return found
                if looped > max(MOST_PROFILE_S, self._starter.within):
                    return found
                self._beats(live, 0.3)  # s between looks whether enough of them came
        except ScriptEnded as why:
            self.close()
            return outcome(live, where, why.fault if isinstance(why, Hung) else None)

    def _seen(self, live: LiveStart, where: str) -> Start:
        found = outcome(live, where)
        return replace(found, memory=live.memory(), worker=live.worker, over=True)

    def know(self, profile: Profile) -> None:
        """Learn what the profile said: what is measured from here on is measured of its loader."""
        self._profile, self._ranks = profile, profile.ranks
        self.met(profile.script)
        self._starter.where = profile.loader.where

    def _begin(self) -> LiveStart:
        """Start the script anew, with a new file for orders."""
        self.close()
        self.starts += 1
        self._last = 0.0, 0
        path = Path(self._folder, f"orders-{self.starts}")
        self._orders = OrderChannel(path)
        # 3600.0 s after which a training that we lost sight of ends by itself
        plan = self._starter.plan(seconds=3600.0, environment={"GPUTUNE_STEER": str(path)})
        self._live = self._starter.live(plan, f"start {self.starts}", self._wanted)
        return self._live

    def _again(self) -> LiveStart:
        """Return the start that goes on, or a new one in the middle of its training."""
        if self._live is not None:
            return self._live
        live = self._begin()
        where = self._starter.where
        self._wait(lambda: live.timeline.batches(where) > WARM_UP, live, self._starter.within)
        return live

    def close(self) -> None:
        """Have the script end as it would by itself, else end it."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            if live.status is None and live.timeline.batches():
                self._leave(live)
        finally:
            live.end()

    def _leave(self, live: LiveStart) -> None:
        """Ask the script to end, and wait for it as long as it obeys."""
        seq = self._orders.send({"do": "end"}) if self._orders is not None else 0
        # 10.0 s for the batch in which it is to end
        # 3.0 s for the batch in which it is to end, where none came for long
        until = live.seconds + (3.0 if self._quiet(live) else 10.0)
        obeyed = False
        while live.beat() and live.seconds < until:
            if not obeyed and any(note.get("state") == "ended" for note in answers(live.timeline.notes, seq).values()):
                # 60.0 s that its own `finally` and `atexit` may take
                obeyed, until = True, live.seconds + min(60.0, max(LEAST_END_S, self._budget.left))
        if live.status is None:
            still = live.timeline.life() == self._last[1] and self._quiet(live)
            self._silent = live.seconds - self._last[0] if still and not obeyed else 0.0
            live.interrupt()
            until = live.seconds + LEAST_END_S
            while live.beat() and live.seconds < until:
                pass

    def remove(self) -> None:
        """Close it, and remove the files of its orders."""
        self.close()
        folders.remove_rings(self._folder)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    # waiting

    @property
    def _patience(self) -> float:
        """Return the s without a batch after which it hangs: an evaluation may take as long as its start."""
        return max(STUCK_S, self._starter.within)

    def _beats(self, live: LiveStart, seconds: float) -> None:
        """Let it go on for a while. Raises ScriptEnded."""
        until = live.seconds + seconds
        while live.seconds < until:
            self._beat(live)

    def _beat(self, live: LiveStart) -> None:
        if not live.beat():
            if not live.status:
                raise ScriptEnded
            raise ScriptEnded(fault_of(live.log, left(live.status), live.features()))
        came = live.timeline.life()
        if came != self._last[1]:
            self._last = live.seconds, came
        if self._budget.over:
            quiet = self._quiet(live)
            none = f", and no batch had come for {live.seconds - self._last[0]:.0f} s" if quiet else ""
            raise Late(self._budget.words() + none, quiet=quiet)

    def _quiet(self, live: LiveStart) -> bool:
        """Return whether no batch has come for longer than some of them usually take, and no pause is known."""
        profile = self._profile
        usual = seconds(profile, profile.script) if profile is not None else 0.0
        return not live.timeline.paused() and live.seconds - self._last[0] > max(QUIET_S, QUIET * usual)

    def _wait(self, done: Callable[[], bool], live: LiveStart, most: float) -> None:
        """Wait for something, as long as batches come, else at most for so many s. Raises ScriptEnded.

        Once it trains, an evaluation lives by its own batches, and a pause that is open may last longer.
        """
        where, told = self._starter.where, live.timeline
        moved, came = live.seconds, self._life(live)
        while not done():
            self._beat(live)
            if (life := self._life(live)) > came:
                moved, came = live.seconds, life
            # 600.0 s after which it hangs where it is in the middle of an evaluation or a checkpoint
            patience = max(most, 600.0) if came and told.paused() else most
            if live.seconds - moved > patience:
                if told.batches(where):
                    raise Hung(Fault(Cause.DRIED_UP, f"no batch came for {patience:.0f} s"))
                raise Hung(Fault(Cause.NO_BATCH, f"no batch came in the first {patience:.0f} s"))

    def _life(self, live: LiveStart) -> int:
        """Return a number that grows as long as the start does, 0 before its first batch of the loader looked at."""
        where = self._starter.where
        return live.timeline.life(where) if live.timeline.batches(where) else 0

    @property
    def timeline(self) -> Timeline:
        """Return the batches of the start that goes on."""
        return self._going.timeline

    @property
    def now(self) -> float:
        """Return for how long it goes on, s."""
        return self._going.seconds

    @property
    def _going(self) -> LiveStart:
        if self._live is None:
            raise RuntimeError("no start goes on")
        return self._live

    def until(self, done: Callable[[], bool], most: float | None = None) -> None:
        """Wait for something, as long as batches come. Raises ScriptEnded."""
        self._wait(done, self._going, self._patience if most is None else most)

    # what is measured

    def ceiling(self, *, pinned: bool = False) -> float | None:
        """Return samples/s with one batch again and again; None where it cannot be copied. Raises CutOff.

        `pinned`: with a copy of it in page-locked memory.
        """
        profile = self.known()
        # 0.8 s of batches that cost nothing
        batches = max(TIMED, min(MOST, math.ceil(0.8 / max(1e-4, profile.outlook.stepping))))
        try:
            live = self._again()
            begin = self.obeyed({"do": "replay", "batches": batches, "pin": pinned})
            self.until(lambda: live.timeline.counted(self.where, begin) >= batches, STUCK_S)
        except (NotSteered, VisitFailed):
            return None
        except ScriptEnded as why:
            self._over(why, "one batch again and again")
            if isinstance(why, Hung):
                raise CutOff from None
            return None
        rates = live.timeline.rates(self.where, 2, begin, most=batches)
        return harmonic_mean(rates) if rates else None

    def takes(self, wanted: LoaderSetting) -> float:
        """Return the s that a visit is predicted to take, with a start where none goes on."""
        visit = looping(self.known(), wanted)
        return visit if self._live is not None else self._budget.start_of(visit)

    def takes_then(self, wanted: LoaderSetting) -> float:
        """Return the s of one more visit after that one: the start goes on."""
        return looping(self.known(), wanted)

    def allowed(self, wanted: LoaderSetting) -> bool:
        """Return whether there is time for a visit."""
        return self.takes(wanted) <= self._budget.left

    def measure(self, wanted: LoaderSetting) -> Outcome:
        """Have the loader served under a setting, and time its batches. Raises NotSteered."""
        self.met(wanted)
        found = self._tried(wanted) or self._tried(wanted)  # a script that ends by itself is started once more
        return found or Outcome(state=State.FAILED, why="the script ended before it was measured", cut_off=True)

    def _tried(self, wanted: LoaderSetting) -> Outcome | None:
        """Return what came of a visit, None where the script ended by itself in the middle of it."""
        try:
            return self._timed(self._again(), wanted)
        except VisitFailed as why:
            return Outcome(state=State.FAILED, why=str(why))
        except ScriptEnded as why:
            came = self._came
            self._over(why, wanted.words())
            if why.state is State.OK:
                self._ended = came
                return None
            return Outcome(state=why.state, why=str(why), cut_off=isinstance(why, Late))

    def _over(self, why: ScriptEnded, served: str) -> None:
        """Have what is left of a start end, and remember it where it hung."""
        self._silent = 0.0
        self._failed(why)
        late = isinstance(why, Late) and not why.quiet
        if isinstance(why, Hung) and (self._silent or not late):
            silent = f", and no batch came for {self._silent:.0f} s" if late else ""
            self.hangs.append(f"{why}{silent} with {served}")

    @property
    def _came(self) -> int:
        """Return how many batches have come in the start that goes on."""
        return self._live.timeline.batches(self._starter.where) if self._live is not None else 0

    def _failed(self, ended: ScriptEnded) -> None:
        """Close a start that has ended. Raises Broken where no setting is to blame for that."""
        live, batches = self._live, self._came
        self.close()
        fault = ended.fault
        if fault and fault.state is State.FAILED and not isinstance(ended, Hung) and live is not None:
            self._blame(batches, fault, str(live.log))

    def _blame(self, batches: int, fault: Fault, log: str) -> None:
        """Go back to where the script failed, with its own settings. Raises Broken where it fails there as well."""
        blame.known(self._starter, log, fault)
        looping = blame.needed(self.known(), batches)
        if not fault.cause.own_error or batches <= self._sound or looping > min(blame.LONGEST_S, self._budget.left):
            return
        try:
            live = self._begin()
            self._wait(lambda: self._came > batches + blame.BEYOND, live, self._patience)
        except Hung:
            self.close()
        except ScriptEnded as ended:
            self.close()
            if ended.state is State.FAILED:
                raise blame.proved(self._starter, batches, str(ended), log) from None
        else:
            self._sound = batches

    def _timed(self, live: LiveStart, wanted: LoaderSetting) -> Outcome:
        began, changes = live.seconds, {name: wanted.plain[name] for name in SWITCHED}
        rates = self.visit(changes, self._stretch(wanted))
        self._weigh(live, wanted)
        return Outcome(
            state=State.OK,
            rates=rates,
            memory=self._memory.get(wanted),
            seconds=live.seconds - began,
            company=live.timeline.company(self.where),
        )

    def _stretch(self, wanted: LoaderSetting) -> TimedBatches:
        """Return which batches of a visit are timed: no whole epochs where the script ends before these are over."""
        found = stretch(self.known(), wanted)
        soon = 0 < self._ended <= WARM_UP + found.skip + found.least
        return stretch(self.known(), wanted, whole_s=0.0) if soon else found

    def _weigh(self, live: LiveStart, wanted: LoaderSetting) -> None:
        """Look at the memory that its processes hold; the least counts, for workers that were there before go late.

        Between two passes its workers may be gone: that is not what it holds.
        """
        held = live.memory(wanted.num_workers * self.known().ranks)
        if held:
            self._memory[wanted] = min(held, self._memory.get(wanted, held))

    def known(self) -> Profile:
        """Return what its profile has said."""
        if self._profile is None:
            raise RuntimeError("the profile comes first")
        return self._profile
