"""Each setting in a start of its own: for every script that can be run twice.

`override.py` sets what is wanted as the loader is built. All starts have the same seed, so they train on the same
samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import harmonic_mean

from gputune.experiment.budget import Budget
from gputune.experiment.starting import NOISE, Start, State, too_few
from gputune.experiment.timeline import WARM_UP
from gputune.sweep import blame
from gputune.sweep.profile import Profile
from gputune.sweep.search import CutOff, Outcome
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.starter import Starter
from gputune.sweep.visiting import seconds, whole

PROFILE_S, MOST_PROFILE_S = 4.0, 60.0  # s of batches in the first start; where they are slow, or as `--within` says
LEAST, MOST = 40, 2000  # batches timed
SHORTEST_S, LONGEST_S = 2.5, 20.0  # s of timed batches


class Restarts:
    """A bench on which every visit is a start."""

    noise = NOISE
    hangs: Sequence[str] = ()  # a start that hangs is a row
    kept = 2  # trials for a second look at the best setting and at the script's own

    def __init__(self, starter: Starter, wanted: LoaderSetting | None, budget: Budget) -> None:
        """`wanted`: what the loader is built with in the first start; None for the script's own settings."""
        self._starter = starter
        self._wanted = wanted
        self._budget = budget
        self._profile: Profile | None = None
        self.starts = 0

    def profile(self, enough: Callable[[Start], int]) -> Start:
        """Start the script and return what it shows; for longer where fewer batches came than `enough` says."""
        looping, most = PROFILE_S, max(MOST_PROFILE_S, self._starter.within)
        while True:
            found = self._start(looping, "profile", self._wanted)
            needed = enough(found)
            if found.batches >= needed or not found.over or looping >= most or not found.batches:
                return found
            looping = min(most, 1.3 * looping * needed / found.batches)

    def know(self, profile: Profile) -> None:
        """Learn what the profile said."""
        self._profile = profile

    def ceiling(self, *, pinned: bool = False) -> float | None:
        """Return samples/s with one batch again and again; None where it cannot be copied. Raises CutOff."""
        profile = self._known()
        looping = max(2.0, 25 * profile.per_batch)  # s of batches that cost nothing
        if not self._budget.allows(looping):
            raise CutOff
        wanted = replace(profile.script, pin_memory=pinned or profile.script.pin_memory)
        found = self._start(looping, "one page-locked batch" if pinned else "one batch", wanted, replay=True)
        if not found.rates and (self._budget.over or found.cause.hung):
            raise CutOff
        if found.state is State.FAILED and found.exit_code:
            blame.known(self._starter, found.log, found.fault)
        copied = not any(note.get("n") == "trial" and "refused" in note for note in found.notes)
        return harmonic_mean(found.rates) if found.rates and copied else None

    def price(self, wanted: LoaderSetting) -> int:
        """Return 1: every visit is a trial."""
        return int(wanted is not None)

    def met(self, wanted: LoaderSetting) -> None:
        """Do nothing: every visit is a trial."""

    def takes(self, wanted: LoaderSetting) -> float:
        """Return the s that a visit is predicted to take, its start included."""
        return self._budget.start_of(sum(self._length(wanted)) * seconds(self._known(), wanted))

    def takes_then(self, wanted: LoaderSetting) -> float:
        """Return the same: every visit has a start."""
        return self.takes(wanted)

    def allowed(self, wanted: LoaderSetting) -> bool:
        """Return whether there is time for a visit."""
        return self.takes(wanted) <= self._budget.left

    def measure(self, wanted: LoaderSetting) -> Outcome:
        """Start the script with these settings, and time its batches."""
        skip, timed = self._length(wanted)
        # 1.5 times the s that are predicted: a setting that is slower is timed with fewer batches
        looping = max(2 * LONGEST_S, 1.5 * (skip + timed) * seconds(self._known(), wanted))
        found = self._start(looping, f"{wanted.num_workers} workers", wanted, batches=skip + timed)
        if found.state is State.FAILED and found.exit_code and not self._budget.over:
            self._blame(found)
        return Outcome(
            state=found.state,
            rates=found.rates,
            why=found.why,
            memory=found.memory,
            seconds=found.seconds,
            cut_off=not found.rates and (self._budget.over or too_few(found)),
            company=found.company,
        )

    def _blame(self, failed: Start) -> None:
        """Go back to where the script failed, with its own settings. Raises Broken where it fails there as well."""
        profile = self._known()
        blame.known(self._starter, failed.log, failed.fault)
        looping = blame.needed(profile, failed.batches)
        if not failed.cause.own_error or looping > blame.LONGEST_S or not self._budget.allows(looping):
            return
        batches = failed.batches + blame.BEYOND
        again = self._start(blame.LONGEST_S, "its own settings", profile.script, batches=batches)
        if again.state is State.FAILED and again.exit_code and again.cause.own_error:
            raise blame.proved(self._starter, failed.batches, again.why, again.log)

    def remove(self) -> None:
        """Do nothing: every start has ended."""

    def _start(
        self, looping: float, name: str, wanted: LoaderSetting | None, *, batches: int = 0, replay: bool = False
    ) -> Start:
        self.starts += 1
        plan = self._starter.plan(seconds=looping, batches=batches)
        if replay:
            return self._starter.start(plan, name, wanted, replay=True)
        return self._starter.start(plan, name, wanted)

    def _length(self, wanted: LoaderSetting) -> tuple[int, int]:
        """Return how many batches are left out, and how many are timed: whole epochs where these are short."""
        profile = self._known()
        skip, timed, epoch = max(WARM_UP, wanted.queue + 2), self._timed(profile), profile.epoch
        if not epoch or epoch >= skip + timed:
            return skip, timed
        return skip, min(whole(timed, epoch), max(1, MOST // epoch) * epoch)

    def _timed(self, profile: Profile) -> int:
        """Return how many batches are timed: a mean to within e needs (1.96 cv / e)^2 of them."""
        fastest = profile.ceiling or profile.measured
        a_batch = profile.batch * profile.ranks / max(1e-9, fastest)  # s, at the fastest that may come
        # 0.02 relative, of the mean of a start's batch times, with a certainty of 95 %
        needed = max(LEAST, (1.96 * profile.spread / 0.02) ** 2, SHORTEST_S / max(1e-6, a_batch))
        return int(min(needed, MOST, max(LEAST, LONGEST_S / max(1e-6, profile.per_batch))))

    def _known(self) -> Profile:
        if self._profile is None:
            raise RuntimeError("the profile comes first")
        return self._profile
