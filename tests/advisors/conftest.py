"""A pretended training run, as features: what a test says of it is the one interesting thing, the rest is healthy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from gputune.core.mounts import Mount
from gputune.features import (
    Device,
    DeviceStep,
    Epoch,
    Features,
    Fetch,
    Filing,
    Frame,
    Loader,
    Machine,
    Place,
    Process,
    Reads,
    Storage,
    SyncRound,
)
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.features.stages import Making, Pipeline, Stage

BATCH = 32


def _epochs(number: int, batches: int, seconds: float, **times: float) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(
            began=i * seconds / number,
            batches=batches // number,
            seconds=seconds / number,
            complete=True,
            **times,
        )
        for i in range(number)
    )


def pretend(
    *,
    num_workers: int = 4,
    prefetch_factor: int = 2,
    cpu: float = 0.0,
    blocked: float = 0.0,
    queued: float = 0.0,
    fetches: Sequence[tuple[float, float]] = (),  # (cpu, blocked) of each, instead of the three above
    step: float = 0.010,
    steps: Sequence[float] = (),
    waits: Sequence[float] = (),  # default: what constant times lead to
    pauses: Mapping[str, Sequence[float]] | None = None,  # parts of `steps`
    between: Mapping[str, float] | None = None,  # s of spans in the loop, but between epochs
    batches: int = 400,
    kept: int = 200,
    epochs: int = 1,
    start: float = 0.0,
    first_wait: float = 0.0,
    shutdown: float = 0.0,
    step_cpu: float | None = None,
    cpus: float = 8.0,
    others: float = 0.0,
    ranks: int = 1,
    shm_free: int | None = None,
    batch_bytes: int | None = None,
    devices: tuple[Device, ...] = (),
    works: tuple[float, ...] = (),
    persistent: bool = False,
    iterable: bool = False,
    training: bool = True,
    places: tuple[Place, ...] = (),
    frames: tuple[Frame, ...] = (),
    before_forward: tuple[float, ...] = (),
    worker_threads: int | None = None,
    collate: float = 0.0,  # s of the making that are spent in collate_fn
    deliveries: Sequence[float] = (),
    early: Sequence[int] = (),
    tensors: int | None = None,
    company: Company = ALONE,
) -> Features:
    """Return a run of `ranks` equal processes with one loader each. Times in s, per batch."""
    made = list(fetches) or [(cpu, blocked)]
    making = sum(c + b for c, b in made) / len(made) + queued
    series = (tuple(steps) or (step,)) * kept
    series = series[:kept]
    mean = sum(series) / kept
    supply = making if num_workers == 0 else max(0.0005, making / num_workers - mean)
    waited = ((tuple(waits) or (supply,)) * kept)[:kept]
    fetched = tuple(Fetch(wall=c + b + queued, cpu=c, queued=queued, collate=collate, samples=BATCH) for c, b in made)
    wait = sum(waited) / kept
    loop = batches * (mean + wait) + epochs * (first_wait + shutdown + start) + sum((between or {}).values())
    in_loop = {"loader.wait": batches * wait, **(between or {})}
    inside = {name: (tuple(values) * kept)[:kept] for name, values in (pauses or {}).items()}
    for name, values in inside.items():
        in_loop[name] = in_loop.get(name, 0.0) + batches * sum(values) / kept
    loader = Loader(
        where="train.py:41",
        num_workers=num_workers,
        prefetch_factor=prefetch_factor if num_workers else None,
        pin_memory=False,
        persistent_workers=persistent,
        batch_size=BATCH,
        iterable=iterable,
        training=training,
        company=company,
        batches=batches,
        samples=batches * BATCH,
        waits=waited,
        steps=series,
        pauses=inside,
        step_cpu=step_cpu,
        fetches=(fetched * kept)[:kept],
        epochs=_epochs(epochs, batches, loop, start=start, first_wait=first_wait, shutdown=shutdown),
        batch_bytes=batch_bytes,
        batch_tensors=tensors,
        worker_threads=worker_threads,
        deliveries=tuple(deliveries),
        early=tuple(early),
        wait_total=batches * wait,
        seconds=loop,
    )
    process = Process(
        pid=100,
        rank=None,
        wall=loop + 1.0,
        ledger={"startup": 1.0, "loader.wait": batches * wait, "step": batches * mean},
        inclusive=in_loop,
        in_loop=in_loop,
        loop=loop,
        batches=batches,
        samples=batches * BATCH,
        optimizer_steps=batches,
        loaders=(loader,),
        places=places,
        frames=frames,
        before_forward=before_forward,
        works=works,
    )
    processes = (process,) if ranks == 1 else tuple(replace(process, pid=100 + r, rank=r) for r in range(ranks))
    return Features(
        command=("python", "train.py"),
        wall=loop + 1.0,
        machine=Machine(cpus=cpus, cpus_seen=int(max(1, cpus)), others=others, shm_free=shm_free, ranks=ranks),
        processes=processes,
        devices=devices,
    )


@pytest.fixture
def run() -> Callable[..., Features]:
    """The builder of pretended runs."""
    return pretend


@pytest.fixture
def device() -> Callable[..., Device]:
    """The builder of pretended devices: an idle-free card of 80 GB, most of it in use, at full clock."""

    def build(**differs: object) -> Device:
        card = Device(
            index="0",
            name="Pretended H200",
            busy=0.95,
            memory_used=60_000_000_000,
            memory_total=80_000_000_000,
            clock=1.98e9,
            clock_max=1.98e9,
        )
        return replace(card, **differs)

    return build


@pytest.fixture
def reading() -> Callable[..., Features]:
    """Add to a pretended run what its batches read, from which disk and mount; per batch, in B and s."""

    def add(
        run: Features,
        *,
        opens: int = 0,
        opening: float = 0.0,
        asked: int | None = 1_000_000,
        stored: int | None = 0,
        direct: bool = False,
        epochs: Sequence[tuple[float, float]] = (),  # (B from storage, s blocked) of each epoch
        asleep: float = 0.0,  # makers of batches that wait for storage at a time
        disk: Storage | None = None,
        samples_in_dataset: int | None = 10_000,
        filing: Filing | None = None,
        mount: Mount | None = None,
        **machine: object,
    ) -> Features:
        process, *others = run.processes
        (loader,) = process.loaders
        one = Reads(wall=0.01, samples=BATCH, opens=opens, opening=opening, asked=asked, stored=stored, direct=direct)
        passes = tuple(
            replace(epoch, asked=asked, stored=part[0], blocked=part[1])
            for epoch, part in zip(loader.epochs, epochs, strict=False)
        )
        loader = replace(
            loader,
            reads=(one,) * 40,
            epochs=passes + loader.epochs[len(passes) :],
            samples_in_dataset=samples_in_dataset,
            filing=filing,
        )
        share = asleep / max(1, loader.num_workers)
        found = disk or Storage(disk="vda", rate=1e8, best=1e9, busy=0.5, queue=1.0, request=4096.0)
        return replace(
            run,
            processes=(replace(process, loaders=(loader,), folders={"0:45": "/data/train"}), *others),
            storage=replace(found, workers_blocked=share, main_blocked=share),
            mounts=(Mount("254:0", "ext4", "/dev/vda", "/"), *([mount] if mount else [])),
            machine=replace(run.machine, **machine),
        )

    return add


ROUNDS = 100


def pretend_job(
    *owns: float | Sequence[float],
    communication: float = 0.001,
    queued: Sequence[float] = (),
    calm: float | None = None,
    hidden: float = 0.0,
    size: int = 10_000_000,
    calls: int = 1,
    update: float = 0.0,
    in_loop: Sequence[dict[str, float]] = (),
    works: Sequence[tuple[float, ...]] = (),
    batches: Sequence[int] = (),
    samples: Sequence[int] = (),
    loops: Sequence[float] = (),
) -> Features:
    """Return a run of ranks with these own times (s) of each round, which end when the last one has come."""
    series = [list(own) if isinstance(own, Sequence) else [own] * ROUNDS for own in owns]
    rounds = len(series[0])
    ends = [max(own[k] for own in series) + communication for k in range(rounds)]
    processes = []
    for rank, own in enumerate(series):
        meetings = tuple(
            SyncRound(
                number=k,
                own=own[k],
                apart=ends[k] - own[k],
                size=size,
                calls=calls,
                ranks=len(series),
                queued=queued[rank] if queued else 0.0,
                calm_queued=calm,
                hidden=hidden,
                update=update,
            )
            for k in range(rounds)
        )
        count = batches[rank] if batches else rounds
        spans = in_loop[rank] if in_loop else {}
        processes.append(
            Process(
                pid=100 + rank,
                rank=rank,
                world_size=len(series),
                wall=sum(ends) + 1,
                ledger={"startup": 1.0, "step": sum(ends)},
                inclusive=spans,
                in_loop=spans,
                loop=loops[rank] if loops else sum(ends),
                batches=count,
                samples=samples[rank] if samples else 32 * count,
                optimizer_steps=count,
                works=works[rank] if works else (),
                meetings=meetings,
            )
        )
    machine = Machine(cpus=8, cpus_seen=8, ranks=len(series))
    return Features(command=("torchrun",), wall=sum(ends) + 1, machine=machine, processes=tuple(processes))


def without_rank(run: Features, rank: int) -> Features:
    """Return the run as it is seen where one rank is not."""
    return replace(run, processes=tuple(p for p in run.processes if p.rank != rank))


@pytest.fixture
def job() -> Callable[..., Features]:
    """The builder of pretended jobs of ranks that meet after every step."""
    return pretend_job


@pytest.fixture
def without() -> Callable[[Features, int], Features]:
    """Takes one rank out of what is seen of a run."""
    return without_rank


def pretend_pipeline(
    *names: str,
    slowest: int = 0,
    making: float = 0.040,
    slow: float | None = None,
    cpu: float = 0.002,
    step: float = 0.010,
    at_once: int = 1,
    most: int = 0,
    python: bool = False,
    training: bool = True,
    readings: int = 10,
    cpus: float = 8.0,
    waits: float | None = None,
    **more: object,
) -> Features:
    """Return a run over a pipeline of tf.data with these stages, of which one is slow; s a batch, `cpu` with the step.

    `cpu` is what the process uses for the making, beside its step, which computes all the time.
    """
    slow = making if slow is None else slow
    stages = tuple(
        Stage(name=name, at_once=at_once if k == slowest else 1, most=most if k == slowest else 0)
        for k, name in enumerate(names)
    )
    made = Making(wall=making, slowest=slow, cpu=cpu + step)
    pipeline = Pipeline(stages=stages, slowest=slowest, makings=(made,) * readings, python=python)
    wait = max(0.0002, making / at_once - step) if pipeline.ahead else making
    run = pretend(
        num_workers=0, waits=[wait if waits is None else waits], step=step, cpus=cpus, training=training, **more
    )
    (process,) = run.processes
    (loader,) = process.loaders
    return replace(run, processes=(replace(process, loaders=(replace(loader, fetches=(), pipeline=pipeline),)),))


@pytest.fixture
def tensorflow() -> Callable[..., Features]:
    """The builder of pretended runs over a pipeline of tf.data."""
    return pretend_pipeline


@pytest.fixture
def clocked() -> Callable[..., Features]:
    """Have the device's own clock say which share of the loop of a run its kernels take, all of it timed."""

    def build(run: Features, compute: float) -> Features:
        each = []
        for process in run.processes:
            whole = process.loop / (process.batches or process.optimizer_steps)
            timed = DeviceStep(
                timed=100,
                whole=whole,
                starved=0.0,
                copying=0.0,
                compute=compute * whole,
                read_waits=0.0,
                copy_waits=0.0,
            )
            each.append(replace(process, device_step=timed))
        return replace(run, processes=tuple(each))

    return build
