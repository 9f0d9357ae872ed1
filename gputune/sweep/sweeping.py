"""The undertaking: the first start, batch sizes where they are wished, the ceiling, the search, and what is said of it.

What goes wrong before anything was measured is an error; afterwards it is a row. A Ctrl-C ends the search, and not the
words.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from gputune.core.config import OWN
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.figures import duration
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.budget import Budget
from gputune.experiment.filling import filled
from gputune.experiment.measured import gain
from gputune.experiment.script import Script
from gputune.experiment.starting import NOISE, Cause, Start, State
from gputune.launch import folders
from gputune.model.minimum_samples import LEAST_BATCHES
from gputune.report.words import number
from gputune.sweep import plateau, saved_settings
from gputune.sweep.apart import Broken
from gputune.sweep.batches import Size, SizeNotSet, Sizes, TooFull
from gputune.sweep.choosing import RateOrder, SettingStats, best, order
from gputune.sweep.journal import Journal, Remembering, begun, identity, last, resumed
from gputune.sweep.learning import accumulated, advice
from gputune.sweep.limits import Limits
from gputune.sweep.profile import NoLoader, OnlyEvaluated, Profile, TooShort, elsewhere, evaluated, profile
from gputune.sweep.restarts import Restarts
from gputune.sweep.result import Outcomes
from gputune.sweep.search import Found, Search, StartedBench
from gputune.sweep.settings import LoaderSetting, setting_of
from gputune.sweep.starter import Starter
from gputune.sweep.steered import Steered
from gputune.sweep.visiting import NotSteered

TRIALS = 6  # settings that are measured, the script's own and the ceiling included; batch sizes come on top
ENOUGH = LEAST_BATCHES + 20  # batches from which a profile can be made, warm-up included

SHARED = (
    "other loaders are built at {where} too, for validation say: only the one that trains was measured, and what is "
    "set there is set for all of them{at_once}"
)
UNSEEN = (
    "how large its batches are was not seen: that the queue of the best settings fits into /dev/shm and memory, once "
    "full, was not checked"
)
AT_ONCE = "; memory and /dev/shm have room for the {loaders} that live at once"

Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What was asked for. `sizes`: batch sizes, `auto`, or () for none."""

    script: Script
    out: str | None = None
    sizes: Sequence[int] | str = ()
    budget: float | None = None
    within: float = 60.0
    where: str = ""
    seed: int = 1
    resume: bool = False
    restarts: bool = False  # each setting in a start of its own
    write: Path | None = None  # where the settings go; None: nowhere
    inside: bool = False  # they go to `gputune.toml` in the sweep's own folder, whatever `write` says
    may_write: tuple[str, ...] = ()  # where trials may change the user's files
    place: str = ""  # the node of a cluster on which it runs
    share: tuple[float | None, ...] = ()  # what each trial asks of it
    starter: Callable[..., Starter] = Starter  # makes what starts the script
    tell: Tell = lambda _: None


class NotRun(GputuneError):  # noqa: N818 - named for what happened
    """The script failed, as it is."""

    def __init__(self, script: str, why: str, log: str) -> None:
        super().__init__(f"`{script}` failed, run as it is: {why}", hint=f"its output is in `{log}`")


class OutOfTime(GputuneError):  # noqa: N818 - as above
    """The budget was over before anything was measured."""

    def __init__(self, script: str, why: str) -> None:
        super().__init__(
            f"nothing was measured of `{script}`: {why}", hint="give it longer, or no limit: leave out `--budget`"
        )


def hung(hangs: Sequence[str]) -> list[str]:
    """Return in a sentence that the script seems to hang, and what it was served; nothing where it does not."""
    also = "; it may do so whatever its loader has" if len(set(hangs)) > 1 else ""
    return [f"the script seems to hang: {'; '.join(dict.fromkeys(hangs))}{also}"] if hangs else []


def unchecked(wanted: LoaderSetting, limits: Limits) -> list[str]:
    """Return what is said of a queue longer than the script's own that no trial has filled for sure."""
    return [UNSEEN] if limits.batch is None and wanted.queue > limits.script.queue else []


def chosen(found: Found, script: LoaderSetting, limits: Limits) -> tuple[SettingStats, list[str]]:
    """Return the best of what may be taken by what is known in the end, and that a better one may not, in sentences."""
    all_stats = found.all_stats.values()
    winner = best(
        [t for t in all_stats if t.setting == script or not limits.refuses(t.setting)], script, found.predicted
    )
    fastest = best(all_stats, script, found.predicted).setting
    why = limits.refuses(fastest) if fastest != script else ""
    return winner, [f"{fastest.words()} is not taken: {why}"] if why else []


class Sweeper:
    """One sweep. Call `run` once."""

    def __init__(self, wishes: SweepOptions) -> None:
        self.wishes = wishes
        self.journal = _journal(wishes)
        self.budget = Budget(total=wishes.budget, spent=self.journal.spent)
        self.says: list[str] = []
        self._benches: list[StartedBench] = []  # all of them: how often the script was started, they know
        self._short = False  # there was no time for a visit
        self._starter = wishes.starter(
            script=wishes.script,
            folder=self.journal.folder,
            within=wishes.within,
            seed=wishes.seed,
            where=wishes.where,
        )
        self._starter.budget = self.budget
        self._starter.may_write = wishes.may_write

    @property
    def starts(self) -> int:
        """Return how often the script was started by now, for other things than batch sizes."""
        return sum(bench.starts for bench in self._benches)

    def run(self) -> Outcomes:
        """Sweep, and return what was found. Raises GputuneError where nothing could be measured."""
        try:
            return self._swept()
        finally:
            self._starter.close()

    def _swept(self) -> Outcomes:
        wishes = self.wishes
        if says := self._starter.before():
            wishes.tell(says)
        wishes.tell(f"{wishes.script.name} runs as it is, to see which loader it waits for")
        bench = self._stage(None, restarts=bool(wishes.sizes))
        sizes: Sizes | None = None
        stopped = False
        try:
            own = here = self._profile(bench, "profile")
            self._learn(own)
            found = _found(own, bench)
            try:
                if wishes.sizes:
                    sizes = Sizes(own, self._starter, self.journal, self.budget, wishes.tell)
                    sizes.run(wishes.sizes)
                    self._leave_out(sizes)
                    here, found, bench = self._enlarged(own, sizes)
                bench.know(here)
                self._search(here, found, bench)
            except Broken as why:
                if len(found.all_stats) == 1 and sizes is None:  # nothing but the script as it is was measured
                    raise
                self.says.append(f"the search ended there: {why.args[0]}")
            except KeyboardInterrupt:
                stopped = True
        finally:
            stopped = despite(bench.remove)[1] or stopped
        self.says += hung(bench.hangs)
        outcomes, pressed = despite(lambda: self._outcomes(own, here, found, sizes.tried if sizes else ()))
        outcomes.stopped = stopped or pressed
        if not outcomes.stopped:
            try:
                self._conclude(outcomes)
            except KeyboardInterrupt:  # before the settings were written
                outcomes.stopped = True
        return outcomes

    def _learn(self, own: Profile) -> None:
        """Learn which loader it is about, and how the script builds it."""
        starter = self._starter
        starter.where, starter.origin = own.loader.where, own.script
        starter.duplicates = own.loader.iterable and bool(own.loader.shards)
        if own.file:
            self.journal.rest_on([own.file])

    # the starts

    def _stage(self, wanted: LoaderSetting | None, *, restarts: bool = False) -> StartedBench:
        kind = Restarts if restarts or self.wishes.restarts else Steered
        self._benches.append(kind(self._starter, wanted, self.budget))
        return self._benches[-1]

    def _profile(self, bench: StartedBench, name: str) -> Profile:
        """Start the script and profile it."""
        found = self.journal.start(name, lambda: bench.profile(lambda start: ENOUGH + _queue(start)))
        if found.state is not State.OK and (not found.over or self.budget.over):
            raise self._failure(found)
        self.budget.learn(found.seconds, found.looped)
        return profile(found, self.wishes.script.name, self._starter.where)

    def _failure(self, found: Start) -> GputuneError:
        script, where = self.wishes.script.name, self._starter.where
        if where and found.loaders and where not in found.loaders:
            return elsewhere(found, script, where)
        only = evaluated(found)
        soon = found.cause is Cause.NO_BATCH
        if only and (soon or not found.exit_code):
            when = f"in the first {self.wishes.within:.0f} s" if soon else "before the end"
            later = f"; if training begins later, pass `--within {2 * self.wishes.within:.0f}`" if soon else ""
            raise OnlyEvaluated(script, when, only, f"a sweep is for loops that train{later}")
        if soon:
            return NoLoader(
                script,
                f"in the first {self.wishes.within:.0f} s",
                f"if it loads its data later than that, pass `--within {2 * self.wishes.within:.0f}`",
            )
        if self.budget.over:
            raise OutOfTime(script, found.why)
        if found.exit_code or found.cause.hung:
            because = self._starter.missed(found.log)
            return NotRun(script, f"{found.why}; {because}" if because else found.why, found.log)
        if found.batches:
            return TooShort(script, found.batches)
        return NoLoader(script, "before the end", f"see what it does with its time: its output is in `{found.log}`")

    def _enlarged(self, own: Profile, sizes: Sizes) -> tuple[Profile, Found, StartedBench]:
        """Return the profile at the batch size at the knee, confirmed with batches as they are, and its bench."""
        for batch in sizes.candidates():
            if batch == own.script.batch_size:
                break
            self.wishes.tell(f"batch_size={batch} with its real batches, to confirm it")
            bench = self._stage(replace(own.script, batch_size=batch))
            try:
                there = self._profile(bench, f"size {batch}")
                if there.script.batch_size != batch:
                    raise SizeNotSet(own.loader.where, f"it was built with {there.script.batch_size} all the same")
                if full := filled(there.run, host=batch > (own.script.batch_size or batch)).words():
                    raise TooFull(full)
            except GputuneError as error:
                self.says.append(f"batch_size={batch} did not last: {error.args[0]}")
                bench.remove()
            except BaseException:
                bench.remove()
                raise
            else:
                self.says.append(advice(own.script.batch_size or batch, batch, accumulated(own.outlook.process)))
                return there, _found(there, bench), bench
        bench = self._stage(None)
        return own, _found(own, bench), bench

    def _leave_out(self, sizes: Sizes) -> None:
        """Say for which batch size there was no time."""
        if sizes.left_out is not None:
            self._short = True
            self.says.append(f"there was no time for batch_size={sizes.left_out} within the budget")

    # the search

    def _search(self, here: Profile, found: Found, bench: StartedBench) -> None:
        """Measure the ceiling, then the best few settings."""
        self._limit(here, bench, "ceiling")
        found.predicted = {wanted: here.rate(wanted) for wanted in here.settings()}
        # 0.02 relative: a ceiling this close above the script's own rate leaves nothing for a loader to win
        if here.ceiling is not None and here.script.num_workers == 0 and here.ceiling < here.measured * (1 + 0.02):
            self.says.append("batches cost next to nothing: no setting of the loader can bring more")
            return
        try:
            self._searched(here, found, bench)
        except NotSteered as why:
            bench.remove()
            self.wishes.tell(f"its loader cannot be switched while it runs ({why}): each setting in a start of its own")
            restarts = self._stage(here.script, restarts=True)
            restarts.know(here)
            if here.ceiling is None:
                self._limit(here, restarts, "ceiling by a start")
                found.predicted = {wanted: here.rate(wanted) for wanted in found.predicted}
            self._searched(here, found, restarts)

    def _limit(self, here: Profile, bench: StartedBench, name: str) -> None:
        """Measure the ceiling; where batches come from pageable memory, also that of page-locked ones."""
        if here.limits.company.training > 1:  # of loaders side by side only one would hand out the same batch
            return
        found: list[float | None] = []
        for pinned in (False, True) if here.may_pin else (False,):
            wanted = replace(here.script, pin_memory=pinned or here.script.pin_memory)
            called = f"{name} {wanted.words()}"
            if (found and found[0] is None) or not (self.journal.knows(called) or self._in_time(bench, wanted)):
                break
            locked = ", in page-locked memory" if pinned else ""
            self.wishes.tell(f"one batch again and again{locked}: what everything but the loading allows")
            found.append(self.journal.number(called, partial(bench.ceiling, pinned=pinned)))
        here.limited(*[*found, None, None][:2])

    def _searched(self, here: Profile, found: Found, bench: StartedBench) -> None:
        remembering = Remembering(bench, self.journal)
        search = Search(
            here,
            remembering,
            found,
            trials=TRIALS - 2,
            allowed=lambda wanted: remembering.knows(wanted) or self._in_time(bench, wanted),
            tell=lambda wanted, now: self.wishes.tell(self._progress(wanted, now, bench, search.left)),
            ample=lambda enough: plateau.beyond(here, found.all_stats, found.predicted, enough),
            deeper=lambda enough: plateau.deeper(here, found.predicted, enough),
        )
        search.run()

    def _in_time(self, bench: StartedBench, wanted: LoaderSetting) -> bool:
        """Return whether there is time for a visit; that there once was none is remembered."""
        allowed = bench.allowed(wanted)
        self._short = self._short or not allowed
        return allowed

    def _progress(self, wanted: LoaderSetting, found: Found, bench: StartedBench, left: int) -> str:
        """Return what is tried now, for how many s, and that at most `left` visits follow."""
        takes, then = bench.takes(wanted), bench.takes_then(wanted)
        predicted = found.predicted.get(wanted)
        fastest = max(found.all_stats.values(), key=lambda stats: stats.rate)
        number_of = len(found.all_stats.keys() | found.failed.keys() | {wanted}) + 1  # and the ceiling
        again = f"again {wanted.words()}" if wanted in found.all_stats else wanted.words()
        if self.budget.total:
            left = min(left, int(max(0.0, self.budget.left - takes) / max(1e-9, then)))
        still = takes + then * left
        return (
            f"trial {number_of} of at most {TRIALS}: {again}, about {duration(takes)}, at most some "
            f"{duration(still)} still"
            + (f" ({left} more visit{'s' if left > 1 else ''})" if left else "")
            + (f", predicted {number(predicted)} samples/s" if predicted else "")
            + f"; best so far {number(fastest.rate)} ({fastest.setting.words()})"
        )

    # the end

    def _outcomes(self, own: Profile, here: Profile, found: Found, sizes: Sequence[Size]) -> Outcomes:
        baseline = (
            found.all_stats[own.script]
            if here is own
            else SettingStats(setting=own.script, noise=NOISE, visits=[own.parts])
        )
        if own.memory:
            found.memory.setdefault(own.script, own.memory)
        limits = here.limits.beside(found.company)
        winner, not_taken = chosen(found, here.script, limits)
        self.says += not_taken
        if here is not own and order(winner, baseline) is not RateOrder.FASTER:
            winner = baseline
        self.says += unchecked(winner.setting, limits)
        if (own.shared or limits.company.built > 1) and winner.setting != own.script:
            loaders = limits.loaders(winner.setting)
            at_once = AT_ONCE.format(loaders=loaders) if loaders > 1 and winner.setting.num_workers else ""
            self.says.append(SHARED.format(where=clean(own.loader.where, 60), at_once=at_once))
        return Outcomes(
            script=self.wishes.script.name,
            loader=own.loader,
            baseline=baseline,
            best=winner,
            gain=gain(baseline, winner),
            found=found,
            limits=limits,
            ceiling=here.ceiling,
            seconds=self.budget.seconds,
            starts=self.starts + len(sizes),
            sizes=sizes,
            file=own.file,
            folder=str(self.journal.folder),
            says=[says for says in dict.fromkeys((*self.says, self._starter.apart())) if says],
        )

    def _conclude(self, what: Outcomes) -> None:
        """Write the settings that were found; where there was time for none, say so and write nothing."""
        failed = {wanted for wanted, outcome in what.found.failed.items() if not outcome.cut_off}
        tried = {*what.found.all_stats, *failed, *(size.setting for size in what.sizes)} - {what.baseline.setting}
        if tried or not (self._short or what.found.failed):
            what.written = self._write(what)
            return
        what.measured = False
        longer = max(2, math.ceil(2 * self.budget.seconds / 60))
        more = f"the budget was spent before: give it more, like `--budget {longer}m`"
        if self.budget.total is None:
            more = "no setting's batches came in time: give it longer for each, with `--within`"
        what.says.append(f"{more}; nothing was written")

    def _write(self, what: Outcomes) -> str:
        """Write the settings where they were wished; return the file's name, "" where there is none."""
        file = self.journal.folder / OWN if self.wishes.inside else self.wishes.write
        if file is None:
            return ""
        wanted = {name: value for name, value in what.best.setting.plain.items() if value is not None}
        if what.best.setting.batch_size == what.baseline.setting.batch_size:
            wanted.pop("batch_size", None)
        if not what.best.setting.num_workers:
            wanted.pop("persistent_workers", None)
        says = f"{number(what.best.rate)} samples/s where the script's own settings give {number(what.baseline.rate)}"
        lines = saved_settings.text(what.loader.where, wanted, shared_out=self._starter.duplicates, says=says)
        try:
            saved_settings.write(file, lines, ours=self.wishes.inside)
        except OSError as error:
            what.says.append(f"`{file}` could not be written: {error.strerror}")
            return ""
        except saved_settings.Unmarked as error:  # it was changed meanwhile
            what.says.append(f"`{file}` was not written: {error.args[0]}")
            return ""
        except UnicodeDecodeError:  # as above, or it lies in a folder that was named
            what.says.append(f"`{file}` was not written: what it holds is no text in UTF-8")
            return ""
        return str(file)


def despite(work: Callable[[], T]) -> tuple[T, bool]:
    """Do something that may be done twice; return what came of it, and whether somebody pressed Ctrl-C meanwhile.

    What was found before is not lost for that. A bench that is removed has ended what ran by the second time.
    """
    try:
        return work(), False
    except KeyboardInterrupt:
        return work(), True


def _found(here: Profile, bench: StartedBench) -> Found:
    """Return what is known once the script was profiled: the rate of its own settings."""
    own = SettingStats(setting=here.script, noise=bench.noise, visits=[here.parts])
    return Found(predicted={}, all_stats={here.script: own}, memory={here.script: here.memory} if here.memory else {})


def _queue(found: Start) -> int:
    """Return how many batches the loader that was timed has under way."""
    loaders = [x for p in (found.run.processes if found.run else ()) for x in p.loaders if x.where == found.where]
    return max((setting_of(loader).queue for loader in loaders), default=0)


def _key(wishes: SweepOptions) -> str:
    """Return what tells a sweep from all others: the command, and the options that change what is measured or how."""
    sizes: list[Json] = [wishes.sizes] if isinstance(wishes.sizes, str) else list(wishes.sizes)
    share: list[Json] = list(wishes.share)
    how: list[Json] = [wishes.where, wishes.seed, wishes.within, wishes.restarts, sizes, wishes.place, share]
    return identity(wishes.script, *how)


def former(wishes: SweepOptions) -> Path | None:
    """Return the folder of the sweep that `--resume` goes on with, None where there is none."""
    return last(_key(wishes), Path(wishes.out) if wishes.out else None)


def _journal(wishes: SweepOptions) -> Journal:
    """Return the journal of this sweep, its folder made. Raises BadUsage where it cannot be, or nothing is resumed."""
    key = _key(wishes)
    if wishes.resume:
        return resumed(wishes.script, key, Path(wishes.out) if wishes.out else None)
    try:
        folder = folders.chosen(wishes.out) if wishes.out else folders.fresh(wishes.script.command)
    except OSError as error:
        raise BadUsage(
            f"nothing can be kept: `{clean(wishes.out or folders.RUNS)}` cannot be written ({error.strerror or error})",
            hint="name a folder that can be: `--out DIR`",
        ) from None
    return begun(Path(folder), key, wishes.script.files)


def sweep(wishes: SweepOptions) -> Outcomes:
    """Sweep the loader of a script. Raises GputuneError where nothing could be measured."""
    if wishes.write is not None and not wishes.inside:
        saved_settings.check(wishes.write)
    folders.sweep()  # what a sweep left behind that was killed
    return Sweeper(wishes).run()
