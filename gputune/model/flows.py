"""The loop around a pipeline of tf.data, and what it would gain if more of its stages worked at the same time.

A stage that makes n elements at once, or one behind a prefetch, is to the training what n workers (or one) of a
DataLoader are: it works ahead, and takes CPUs. So it is replayed like them, over what TensorFlow's own model of the
pipeline measured of its stages.
"""

from dataclasses import replace

from gputune.core.figures import TINY, mean
from gputune.core.finding import Speedup
from gputune.features import Features, Fetch, Loader, Process
from gputune.features.stages import Making, Pipeline
from gputune.model.minimum_samples import enough
from gputune.model.prediction import Outlook, Setting
from gputune.model.replay import TYPICAL_PREFETCH, LoopSeries, Work
from gputune.model.workload import device_floor

LEAST_READINGS = 3  # of the stages; each is a mean of at least four batches


class Flow(Outlook):
    """The outlook of one pipeline. How its CPU time divides between stages and step is not measured.

    `greedy` gives to the stages what it can, which makes more of them at once worth less.
    """

    def __init__(self, run: Features, process: Process, loader: Loader, *, greedy: bool = False) -> None:
        self.pipeline = loader.pipeline or Pipeline()
        stage = self.pipeline.culprit
        workers = max(1, stage.at_once if stage is not None and stage.maps else 1) if self.pipeline.ahead else 0
        step = mean(loader.steps)
        fetches = tuple(_fetch(making, step, greedy=greedy) for making in self.pipeline.makings)
        settings = replace(
            loader,
            num_workers=workers,
            prefetch_factor=TYPICAL_PREFETCH,
            persistent_workers=True,  # threads: no epoch starts them anew
            fetches=fetches,
        )
        super().__init__(run, process, settings, _job(run, process, loader, fetches))

    @property
    def known(self) -> bool:
        """Return whether enough was measured to predict anything."""
        seen = enough(self.loader) and len(self.pipeline.makings) >= LEAST_READINGS
        return seen and self.pipeline.culprit is not None and self.process.loop > 0

    @property
    def in_line(self) -> float:
        """Return the s that the stages other than the slowest take for one batch, one after the other."""
        return mean(max(0.0, making.wall - making.slowest) for making in self.pipeline.makings)

    def starting(self, workers: int) -> float:  # noqa: ARG002 - threads cost nothing that counts
        """Return what an epoch pays to start threads: nothing that counts."""
        return 0.0

    def queued_batches(self) -> float:
        """Return how many finished batches find room: they stay in the process."""
        return 1e9  # batches: what is made ahead is bounded by its stages, not by /dev/shm

    def at_once(self) -> tuple[int, Speedup]:
        """Return how many elements the slowest stage should make at once, and what that would buy."""
        workers, _persistent, speedup = self.best_workers()
        return workers, self._bounded(speedup)

    def ahead(self) -> Speedup:
        """Return what it would buy to make batches while the training works, one after the other."""
        return self.gain(Setting(max(1, self.now.workers), TYPICAL_PREFETCH, persistent=True))

    def _bounded(self, found: Speedup) -> Speedup:
        """Bound a gain by the stages that stay as they are, and by Python, which computes one call at a time."""
        alone = max(self.in_line, self.making_cpu if self.pipeline.python else 0.0)
        most = max(1.0, self.per_batch / max(TINY, alone))
        low, likely, high, steady = (min(end, most) for end in (found.low, found.likely, found.high, found.steady))
        return Speedup(low=low, likely=likely, high=high, steady=steady)


def _fetch(making: Making, step: float, *, greedy: bool) -> Fetch:
    cpu = min(making.wall, making.cpu if greedy else max(0.0, making.cpu - step))
    return Fetch(wall=making.wall, cpu=cpu, queued=0.0, collate=0.0, samples=0)


def _job(run: Features, process: Process, loader: Loader, fetches: tuple[Fetch, ...]) -> LoopSeries:
    pipeline = loader.pipeline or Pipeline()
    step, cpus = mean(loader.steps), max(0.1, run.machine.cpus / run.machine.ranks)
    rest = mean(making.cpu for making in pipeline.makings) - mean(fetch.cpu for fetch in fetches)
    share = min(1.0, rest / step / cpus) if step and rest > 0 else 0.0  # of the CPUs, that steps keep busy
    width = max(1.0, share * cpus)
    busy = min(1.0, share * cpus)
    return LoopSeries(
        fetches=tuple(Work(fetch.cpu, fetch.wall - fetch.cpu) for fetch in fetches) or (Work(0.0, 0.0),),
        steps=tuple(Work(s * busy, s * (1 - busy), width, tied=False) for s in loader.steps) or (Work(0.0, 0.0),),
        cpus=cpus,
        others=(run.machine.others or 0.0) / run.machine.ranks,
        delivery=0.0,
        floor=device_floor(run, process, (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))),
    )


def flows(run: Features, *, greedy: bool = False) -> list[Flow]:
    """Return an outlook for every training pipeline of which enough is known, the most waited-for first, each once."""
    found = [
        Flow(run, process, loader, greedy=greedy)
        for process in run.processes
        for loader in process.loaders
        if loader.training and loader.pipeline is not None
    ]
    first: dict[str, Flow] = {}
    for flow in sorted((f for f in found if f.known), key=lambda f: -f.loader.wait_total):
        first.setdefault(flow.loader.where, flow)
    return list(first.values())


def either(likely: Speedup, other: Speedup) -> Speedup:
    """Return an interval that holds two predictions of one change, with what the first one takes for likely."""
    low, high = min(likely.low, other.low), max(likely.high, other.high)
    return Speedup(low=low, likely=max(low, likely.likely), high=high)
