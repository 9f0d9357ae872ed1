"""What the first start of a script shows: which loader it is about, the work behind its batches, and what follows.

Rates are samples/s of all ranks together. The model's error at the script's own settings, where the truth is known, is
taken as a part of each batch that no setting changes.
"""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gputune.core.errors import GputuneError
from gputune.core.figures import TINY, mean
from gputune.core.hygiene import clean
from gputune.experiment.starting import Start
from gputune.features import Features, Loader
from gputune.model.minimum_samples import LEAST_BATCHES
from gputune.model.prediction import CANDIDATES, PREFETCHES, Outlook, in_proportion
from gputune.model.replay import LoopSeries
from gputune.model.transfers import NOTABLE
from gputune.sweep.lasting import built_anew
from gputune.sweep.limits import Limits, limits
from gputune.sweep.pinned import holding, on_device, pinned, saved
from gputune.sweep.settings import LoaderSetting, setting, setting_of


class TooShort(GputuneError):  # noqa: N818 - named for what happened
    """The script ended before anything could be told of its batches."""

    def __init__(self, script: str, batches: int) -> None:
        super().__init__(
            f"`{script}` ended after {batches} batches, and {LEAST_BATCHES} are needed to tell anything of them",
            hint="let it train for longer: more epochs, or more steps",
        )


class TooSlow(GputuneError):  # noqa: N818 - as above
    """Too few batches came in the time that there was."""

    def __init__(self, script: str, batches: int, seconds: float) -> None:
        super().__init__(
            f"only {batches} batches of `{script}` came in {seconds:.0f} s, and some {2 * LEAST_BATCHES} are needed",
            hint=f"if they are slow, or it evaluates first, pass `--within {max(60, 3 * round(seconds))}`",
        )


class TakenApart(GputuneError):  # noqa: N818 - as above
    """The batches are taken by a thread that does not train, so the time between two batches is no step."""

    def __init__(self, script: str, where: str) -> None:
        super().__init__(
            f"the batches of the loader at `{clean(where, 60)}` of `{script}` are taken by a thread of their own: how "
            "fast it trains cannot be told by them",
            hint="iterate the DataLoader where you train, for its workers prefetch by themselves; "
            "`gputune watch` says whether the thread keeps up",
        )


class OwnKind(GputuneError):  # noqa: N818 - as above
    """The loader's iterators are no torch's: they cannot be served under other settings while they last."""

    def __init__(self, script: str, where: str, kind: str) -> None:
        super().__init__(
            f"the loader at `{clean(where, 60)}` of `{script}` is a {clean(kind, 60)}, whose iterators are its own: "
            "its settings cannot be changed while it is iterated",
            hint="`gputune watch` says what would help, and `gputune prove RUN` tries that",
        )


class NoLoader(GputuneError):  # noqa: N818 - as above
    """No batch of a DataLoader was seen."""

    def __init__(self, script: str, why: str, hint: str) -> None:
        super().__init__(f"no DataLoader was iterated {why} of `{script}`", hint=hint)


class OnlyEvaluated(GputuneError):  # noqa: N818 - as above
    """Batches came, but none of them to train on."""

    def __init__(self, script: str, when: str, places: Iterable[str], hint: str) -> None:
        named = ", ".join(f"`{clean(place, 60)}`" for place in places)
        super().__init__(
            f"no DataLoader was iterated for training {when} of `{script}`: that at {named} gave its batches with "
            "gradients off or to a model in eval mode",
            hint=hint,
        )


def evaluated(start: Start) -> list[str]:
    """Return where the loaders were built whose batches were for an evaluation, where no others came.

    One that only asks a model (inference) has a loop as well, but no batch to train on.
    """
    seen = [x for p in (start.run.processes if start.run else ()) for x in p.loaders if x.pipeline is None]
    if any(x.training and (start.batches or x.where not in start.apart) for x in seen):
        return []
    return sorted({*start.apart, *(x.where for x in seen if x.batches)} - {""})


@dataclass(slots=True, kw_only=True)
class Profile:
    """The loader that is waited for most, with its work. `measured` is by the clock, as are the ceilings.

    `ceiling`: with batches that cost nothing; None where that was not measured. `unpinned`: the same from pageable
    memory, where page-locked batches were tried beside it (`ceiling` is the greater of the two then); else None.
    """

    run: Features
    outlook: Outlook
    script: LoaderSetting
    limits: Limits
    parts: tuple[float, ...]  # rates of parts of the start
    measured: float
    ranks: int
    epoch: int  # batches of one pass over the data on one rank; 0: not known
    file: str = ""  # the file that `where` is in
    shared: bool = False  # the line that builds it builds other loaders too: what is set there, all of them get
    anew: float = 0.0  # share of passes for which the script builds its loader anew: no worker persists into them
    memory: int | None = None  # B that its processes held
    ceiling: float | None = None
    unpinned: float | None = None
    _played: dict[tuple[int, int, bool], float] = field(default_factory=dict)

    @property
    def loader(self) -> Loader:
        """Return the loader as the script builds it."""
        return self.outlook.loader

    @property
    def batch(self) -> float:
        """Return how many samples a batch has, on average."""
        return self.loader.samples / max(1, self.loader.batches) or 1.0

    @property
    def per_batch(self) -> float:
        """Return the s that a batch takes at the script's own settings, by the clock."""
        return self.batch * self.ranks / max(TINY, self.measured)

    @property
    def spread(self) -> float:
        """Return the coefficient of variation of the time that a batch takes."""
        times = [wait + step for wait, step in zip(self.loader.waits, self.loader.steps, strict=False)]
        middle = mean(times)
        return statistics.pstdev(times) / middle if middle else 0.0

    def rate(self, wanted: LoaderSetting) -> float:
        """Return the predicted samples/s, starts of workers included where the length of an epoch is known.

        Without workers as measured, where that was: by the replay, workers that take turns at CPUs cost nothing.
        """
        if not wanted.num_workers and self.outlook.in_turns is not None:
            return self.measured * self.outlook.in_turns.likely
        now, then = self._seconds(self.script), self._seconds(wanted)
        found = self.measured * in_proportion(self.per_batch, now, then)
        most = self.most(wanted)
        return found if most is None else min(found, max(most, self.measured))

    def most(self, wanted: LoaderSetting) -> float | None:
        """Return samples/s that no setting beats which pins as this one does; None where that was not measured."""
        return self.unpinned if self.unpinned is not None and not wanted.pin_memory else self.ceiling

    @property
    def may_pin(self) -> bool:
        """Return whether copies to a device from pageable memory hold its steps, and could be of page-locked memory."""
        return not self.script.pin_memory and holding(self.outlook) >= NOTABLE

    def limited(self, unpinned: float | None, page_locked: float | None) -> None:
        """Learn the ceilings: with batches as the script has them, and where it `may_pin` with page-locked ones."""
        self._played.clear()
        self.ceiling = unpinned
        if unpinned is not None and page_locked is not None:
            self.ceiling, self.unpinned = max(unpinned, page_locked), unpinned

    def _seconds(self, wanted: LoaderSetting) -> float:
        """Return the s that a batch takes; where an epoch's length is known, with its share of starting workers."""
        workers, prefetch = wanted.num_workers, wanted.prefetch_factor or 1
        key = (workers, prefetch, wanted.pin_memory)
        if key not in self._played:
            job = self._job(wanted)
            ordered = self.loader.in_order
            if self.epoch and workers:
                self._played[key] = job.epoch(workers, prefetch, self.epoch, in_order=ordered) / self.epoch
            else:
                self._played[key] = job.seconds(workers, prefetch, in_order=ordered)
        often = self.anew if wanted.persistent_workers else 1.0
        starts = often * self.outlook.starting(workers) if self.epoch and workers else 0.0
        return self._played[key] + starts / max(1, self.epoch)

    def _job(self, wanted: LoaderSetting) -> LoopSeries:
        """Return the work, with copies from page-locked memory if need be."""
        if not (wanted.pin_memory and self.may_pin):
            return self.outlook.job
        if self.unpinned is None or self.ceiling is None:
            return pinned(self.outlook, saved(self.run, self.outlook.process), measured=False)
        found = self.batch * self.ranks * (1 / self.unpinned - 1 / self.ceiling)
        return pinned(self.outlook, found, measured=True)

    def settings(self) -> Iterator[LoaderSetting]:
        """Yield the whole grid: every setting that nothing forbids, and the script's own."""
        own = self.script
        pins = {own.pin_memory, True} if on_device(self.run, self.outlook.process) else {own.pin_memory}
        lasting = {own.persistent_workers, True} if self.epoch and self.anew < 1.0 else {own.persistent_workers}
        prefetches = sorted({*PREFETCHES, *([own.prefetch_factor] if own.prefetch_factor else [])})
        seen = {own}
        yield own
        for workers in sorted({0, *CANDIDATES, own.num_workers}):
            for prefetch in prefetches if workers else prefetches[:1]:
                for pin in sorted(pins):
                    for persistent in sorted(lasting) if workers else [False]:
                        found = setting(
                            workers, prefetch, pin_memory=pin, persistent=persistent, batch_size=own.batch_size
                        )
                        if found not in seen and not self.limits.refuses(found):
                            seen.add(found)
                            yield found


def profile(start: Start, script: str, where: str = "") -> Profile:
    """Return what a start of the script shows of the loader that it timed.

    Raises NoLoader, OnlyEvaluated, OwnKind, TakenApart, TooShort or TooSlow.
    """
    run = start.run
    found = [(p, x) for p in (run.processes if run else ()) for x in p.loaders if _fits(x, start.where)]
    if run is None or not found or evaluated(start):
        raise _no_loader(start, script, where)
    process, loader = max(found, key=lambda pair: (pair[1].batches, pair[1].wait_total))
    outlook = Outlook(run, process, loader)
    if loader.own_kind:
        raise OwnKind(script, loader.where, loader.own_kind)
    if loader.apart is not None and not outlook.known:
        raise TakenApart(script, loader.where)
    if not start.rates or not outlook.known:
        raise TooSlow(script, start.batches, start.seconds) if start.over else TooShort(script, start.batches)
    own = setting_of(loader)
    told = start.loaders.get(loader.where, {})
    file = str(told.get("file") or "")
    return Profile(
        run=run,
        outlook=outlook,
        script=own,
        limits=limits(outlook, own, start.memory, start.company, start.worker),
        parts=start.rates,
        measured=statistics.harmonic_mean(start.rates),
        ranks=sum(any(_fits(x, loader.where) for x in p.loaders) for p in run.processes),
        epoch=_epoch(loader, told.get("length")),
        file=file,
        shared=start.shared,
        anew=built_anew(loader, file),
        memory=start.memory,
    )


def _fits(loader: Loader, where: str) -> bool:
    return loader.training and loader.pipeline is None and loader.where == where


def _epoch(loader: Loader, told: object) -> int:
    """Return the batches of one epoch: as the loader says, else as they were seen, 0 where that is not known."""
    if isinstance(told, int) and told > 0:
        return told
    return max((e.batches for e in loader.epochs if e.complete), default=0)


NO_DATALOADER = {  # by framework: what was in the run instead, and what to do
    "tf.data": (
        "but pipelines of tf.data were in the run",
        "tf.data tunes itself with `num_parallel_calls=tf.data.AUTOTUNE`; `gputune watch` says what it lacks",
    ),
    "dali": (
        "but iterators of NVIDIA DALI were in the run",
        "their pipelines are built with `num_threads` and `prefetch_queue_depth`; `gputune watch` says what they lack",
    ),
}


def _no_loader(start: Start, script: str, where: str) -> GputuneError:
    loaders = [x for p in start.run.processes for x in p.loaders] if start.run is not None else []
    if pipeline := next((x.pipeline for x in loaders if x.pipeline is not None), None):
        return NoLoader(script, *NO_DATALOADER[pipeline.framework])
    if where and start.loaders:
        return elsewhere(start, script, where)
    if only := evaluated(start):
        return OnlyEvaluated(script, f"in {start.seconds:.0f} s", only, "a sweep is for loops that train")
    return NoLoader(script, "before the end", "see what it does with its time: `gputune watch -- CMD`")


def elsewhere(start: Start, script: str, where: str) -> NoLoader:
    """Return the error that loaders are built, but not at this place."""
    known = ", ".join(f"`{clean(each, 60)}`" for each in start.loaders)
    return NoLoader(script, f"that was built at `{clean(where, 60)}`", f"it builds them at {known}")
