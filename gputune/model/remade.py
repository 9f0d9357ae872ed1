"""What it would buy if batches were made, pinned or handed over otherwise: prepared, in fewer pieces or bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputune.core.figures import TINY, mean
from gputune.core.finding import Speedup
from gputune.features import Epoch, Fetch, Loader
from gputune.model import storage
from gputune.model.minimum_samples import LEAST_SAMPLED
from gputune.model.prediction import FIRST_S, Outlook, Setting
from gputune.model.replay import DELIVERY_S, LoopSeries, Work

PREPARED = 0.05  # of a batch's CPU time: reading and passing it on is never free
PREPARED_S = 0.00003  # s of CPU to read one sample that was prepared, out of memory or a pack (measured: 5 to 60 µs)


def without_waiting(outlook: Outlook) -> Speedup:
    """Return what samples that were prepared offline would buy: about the bound of all that can be done to them.

    They lie in as many files as before: what it takes to open these stays, and so does putting them together.
    Without workers, a worker may make them, or the training itself: to hand over small ones takes longer.
    """
    wanted = storage.demand(outlook.run, outlook.loader)
    files = wanted.handling if wanted else 0.0
    pairs = zip(outlook.job.fetches, outlook.loader.fetches, strict=True)
    prepared = tuple(Work(min(work.cpu, files + _ready(outlook.loader, fetch)), 0.0) for work, fetch in pairs)
    job = replace(_handing(outlook.job, min(outlook.handing, DELIVERY_S)), fetches=prepared)
    numbers = {outlook.now.workers, max(1, outlook.now.workers)}
    gains = [outlook.gain(Setting(n, outlook.now.prefetch, persistent=True), job) for n in sorted(numbers)]
    return max(gains, key=lambda gain: gain.likely)


def _ready(loader: Loader, fetch: Fetch) -> float:
    """Return the CPU s of a batch whose samples are prepared: reading each of them, and collating as now."""
    samples = fetch.samples or loader.batch_size or 1
    return PREPARED_S * samples + (loader.batch_bytes or 0) / storage.CACHE_RATE + _running(fetch) * fetch.collate


def cheaper(outlook: Outlook, share: float) -> Speedup:
    """Return what it would buy to make each batch with only `share` of its CPU time."""
    fetches = tuple(replace(f, cpu=f.cpu * share) for f in outlook.job.fetches)
    return lightened(outlook, replace(outlook.job, fetches=fetches))


def lightened(outlook: Outlook, job: LoopSeries) -> Speedup:
    """Return what it would buy to have less to make, as in `job`.

    At the least what it would if strangers on the CPUs gave way: what is lost to them is no fault of the work.
    """
    now, then = (outlook.altered(replace(each, others=0.0)).loop(outlook.now) for each in (outlook.job, job))
    return outlook.gain(outlook.now, job).down_to(outlook.compared(now, then))


def pinned_less(
    outlook: Outlook, share: float, copied: tuple[float, float] = (0.0, 0.0), *, smaller: bool = True
) -> Speedup:
    """Return what it would buy to pin only `share` of each batch: it is `smaller`, or the rest is pinned for good.

    `copied` are the s of a step, sure and at the most, that the device has the less to copy then: likely is their
    geometric mean. Fresh memory for the first of smaller batches is the less as well.
    """
    pins = tuple(Work(pin.cpu * share, pin.blocked * share) for pin in outlook.job.pins)
    fresh = outlook.loader.fresh * (1 - share) if smaller else 0.0

    def gain(seconds: float) -> Speedup:
        job = _copying_less(outlook, replace(outlook.job, pins=pins), seconds)
        return outlook.compared(outlook.loop(outlook.now), max(TINY, outlook.altered(job).loop(outlook.now) - fresh))

    sure, most = copied
    found = gain(math.sqrt(sure * most)).down_to(gain(sure))
    return replace(found, high=max(found.high, gain(most).high))


def _copying_less(outlook: Outlook, job: LoopSeries, seconds: float) -> LoopSeries:
    """Return a job whose device copies for so many s less a step; steps are shorter where they wait for it."""
    waits = mean(outlook.loader.pauses.get("sync", ()))
    steps = tuple(replace(step, blocked=step.blocked - min(step.blocked, seconds, waits)) for step in job.steps)
    return replace(job, floor=max(0.0, job.floor - seconds), steps=steps)


@dataclass(frozen=True, slots=True)
class Lighter:
    """A batch that is put together and handed over otherwise.

    Of the time in `collate_fn` the share `excess` goes, the batch arrives in `delivery` s, of a step's CPU time the
    share `step` goes as well, since it handles fewer tensors then, and of the tensors the share `tensors` is left: each
    waits for a maker that is at work. Not `prompt`: they are late by as much as they are now.
    """

    excess: float
    delivery: float
    step: float = 0.0
    tensors: float = 1.0
    prompt: bool = True


def handed_over(outlook: Outlook, what: Lighter) -> Speedup:
    """Return what it would buy to hand such batches over.

    What a batch is late by on average, beyond what it takes the training to open it, holds up each step now, and then
    as well if it is not `prompt`; but not what it is late by because the CPUs are crowded, which stretches its making
    too: the replay has that. Where a thread pins the batches it is that one which is held up, and not the step.
    """
    loader, job, free = outlook.loader, outlook.job, 1 - outlook.queued * _crowded(outlook)
    usual = outlook.handing - (1 - free) * max(0.0, outlook.handing - what.delivery)
    job = _handing(job, usual)
    held = loader.num_workers and not job.pins
    longer = max(0.0, mean(_handovers(loader)) * free - usual) if held else 0.0
    later = min(longer, max(0.0, what.delivery - usual)) if what.prompt else longer
    now = outlook.altered(replace(job, steps=tuple(_later(step, longer) for step in job.steps)))
    pairs = zip(job.fetches, loader.fetches, strict=True)
    lighter_job = replace(
        _handing(job, min(what.delivery, usual)),
        fetches=tuple(_collated(work, fetch, what.excess) for work, fetch in pairs),
        steps=tuple(_later(replace(s, cpu=s.cpu * (1 - what.step)), later) for s in job.steps),
        late=job.late * what.tensors,
    )
    collating = sum(f.collate for f in loader.fetches) / max(TINY, sum(f.wall for f in loader.fetches))
    left = min(what.tensors, 1 - max(0.0, what.excess) * collating)
    epochs = tuple(_sooner(outlook, epoch, left) for epoch in loader.epochs)
    then = outlook.altered(lighter_job, replace(loader, epochs=epochs))
    return outlook.compared(now.loop(outlook.now), then.loop(outlook.now))


def _crowded(outlook: Outlook) -> float:
    """Return how many of workers, training and strangers have no CPU, up to one. Workers want one while they make.

    Else what queues are the threads that take turns to hand a batch over: that is a part of handing it over.
    """
    wanted = mean(f.cpu + f.queued for f in outlook.loader.fetches) / max(TINY, outlook.per_batch)
    wanted = min(wanted, outlook.loader.num_workers) + 1 + outlook.job.others
    return min(1.0, max(0.0, wanted - outlook.job.cpus))


def _sooner(outlook: Outlook, epoch: Epoch, left: float) -> Epoch:
    """Return a pass whose first batches are late by a share of what they are now: it goes with all that goes."""
    usual, late = outlook.arriving + FIRST_S, outlook.one_by_one(epoch)
    return replace(
        epoch,
        first_wait=min(epoch.first_wait, usual + left * (epoch.first_wait - usual)),
        others_first=epoch.others_first - (1 - left) * late,
    )


def _handovers(loader: Loader) -> Sequence[float]:
    """Return the s of handovers in which the maker of the batch did nothing else; of all where that is not known."""
    if len(loader.unhindered) >= LEAST_SAMPLED:
        return loader.unhindered
    return () if loader.hindered or loader.freed else loader.deliveries


def _handing(job: LoopSeries, seconds: float) -> LoopSeries:
    """Return a job in which a batch that is made is gotten in so many s by whoever gets it."""
    return replace(job, taking=seconds) if job.pins else replace(job, delivery=seconds)


def _later(step: Work, seconds: float) -> Work:
    """Return a step before which the training is held up for that long."""
    return replace(step, blocked=step.blocked + seconds)


def _collated(work: Work, fetch: Fetch, excess: float) -> Work:
    """Return the making of a batch without a share of its `collate_fn`."""
    saved = excess * fetch.collate * _running(fetch)
    return replace(work, cpu=max(PREPARED * work.cpu, work.cpu - saved))


def _running(fetch: Fetch) -> float:
    """Return the share of the time in which the maker of a batch wanted a CPU that it had one."""
    wanted = fetch.cpu + fetch.queued
    return fetch.cpu / wanted if wanted else 1.0
