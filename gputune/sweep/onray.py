"""The trials of a sweep on the user's own Ray cluster, each with its resources declared.

The search thinks here; every start of the script is a process that an actor holds there (`faraway.py`). All of a sweep
that is compared runs on one node, and batch sizes, whose data costs nothing, on nodes like it. By default a trial asks
for all CPUs of a node, so that by Ray's account nobody runs beside it: a time that was measured in company says little.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.budget import Budget
from gputune.experiment.living import StartPlan, new_log
from gputune.experiment.remote import Heard, Holder, Lost
from gputune.experiment.starting import Judge, Start, State
from gputune.experiment.writable import opened
from gputune.host import clusters
from gputune.host.clusters import RayNode
from gputune.sweep.apart import gone
from gputune.sweep.faraway import GIVES_UP, GOES_ON, REPORT, RUNGS, FarReport, FarStart, errand
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.starter import Starter
from gputune.verdict.document import alike

LOOK_S = 0.5  # s between looks whether somebody wants to leave

Tell = Callable[[str], None]


class NoTrial(GputuneError):  # noqa: N818 - named for what happened
    """A node could not start the script at all."""

    def __init__(self, node: str, why: str, hint: str = "") -> None:
        hint = (
            hint or "gputune and what the script needs have to be installed on the nodes, in the Python that runs Ray"
        )
        super().__init__(f"a trial on node `{clean(node, 64)}` came to nothing: {clean(why, 300)}", hint=hint)


class TooMuch(BadUsage):
    """No node has what each trial is to ask for."""

    def __init__(self, cpus: float | None, gpus: float | None, nodes: Sequence[RayNode]) -> None:
        asked = [f"{n:g} {what}s" for n, what in ((cpus, "CPU"), (gpus, "GPU")) if n is not None]
        most = max(nodes, key=lambda node: (node.gpus, node.cpus), default=None)
        has = f"the largest has {most.cpus:g} CPUs and {most.gpus:g} GPUs" if most else "there is none"
        super().__init__(f"no node of the cluster has {' and '.join(asked) or 'a CPU'}: {has}", hint="ask for less")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResources:
    """What a trial asks for. None: all CPUs of its node, and one GPU where it has any."""

    cpus: float | None = None
    gpus: float | None = None

    def of(self, node: RayNode) -> tuple[float, float]:
        """Return the CPUs and GPUs that a trial on this node declares."""
        return self.cpus or node.cpus, min(1.0, node.gpus) if self.gpus is None else self.gpus

    def times(self, node: RayNode) -> int:
        """Return how many such trials a node holds at once."""
        cpus, gpus = self.of(node)
        fits = [n for n in (_times(node.cpus, cpus), _times(node.gpus, gpus)) if n is not None]
        return min(fits, default=0)


def _times(whole: float, part: float) -> int | None:
    return int(whole / part + clusters.LESS) if part > 0 else None


class Cluster:
    """A cluster that is connected. `tell` says a sentence; `stopping` is set by who wants to leave."""

    def __init__(self, ray: Any, share: TrialResources, tell: Tell) -> None:
        self._ray = ray
        self._share = share
        self.tell = tell
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._told_of_waiting = False
        self.stopping = threading.Event()
        live = clusters.nodes(ray)
        self.nodes = [node for node in live if share.times(node)]
        if not self.nodes:
            raise TooMuch(share.cpus, share.gpus, live)

    def alike(self, node: RayNode) -> list[RayNode]:
        """Return the nodes on which the same takes the same time, this one first."""
        return sorted((other for other in self.nodes if other.is_like(node)), key=lambda other: other.id != node.id)

    def places(self, nodes: Sequence[RayNode]) -> int:
        """Return how many trials these nodes hold at once."""
        return max(1, sum(self._share.times(node) for node in nodes))

    @contextmanager
    def place(self, nodes: Sequence[RayNode]) -> Iterator[RayNode]:
        """Lend the node on which fewest trials of ours run."""
        with self._lock:
            node = min(nodes, key=lambda one: self._running[one.id])
            self._running[node.id] += 1
        try:
            yield node
        finally:
            with self._lock:
                self._running[node.id] -= 1

    def run(
        self, node: RayNode, order: FarStart, log: Path, judge: Judge | None, budget: Budget | None
    ) -> FarReport | None:
        """Run a start on a node, and wait for it, its log kept here; None where the budget was over first.

        Raises NoTrial, Gone, or KeyboardInterrupt where somebody leaves.
        """
        cpus, gpus = self._share.of(node)
        asks, held = {"CPU": cpus, "GPU": gpus}, Holder(self._ray)
        held.start(errand(order), asks, clusters.pinned(self._ray, node))
        began, told = time.monotonic(), 0
        try:
            while not self.stopping.is_set():
                if budget is not None and budget.over:  # it may not even have begun
                    return None
                news = self._news(held)
                # 20.0 s after which it is said that a trial waits for its turn in the cluster
                if not held.has_begun and time.monotonic() - began > 20.0:
                    self._say_busy(node, asks)
                _keep(log, news.log)
                rungs = news.files.get(RUNGS, "").splitlines()
                for rung in rungs[told:]:
                    goes_on = judge is None or judge(*json.loads(rung))
                    held.say(GOES_ON if goes_on else GIVES_UP)
                told = len(rungs)
                if news.over:
                    return _reported(news)
                self.stopping.wait(LOOK_S)
            raise KeyboardInterrupt
        except Lost as lost:
            raise Gone(node.name, str(lost)) from lost
        finally:
            held.let_go(held.closing() if held.has_begun else None)

    def _news(self, held: Holder) -> Heard:
        """Return what is new, nothing where it does not answer yet. Raises Lost."""
        if self._ray.wait([held.awaited()], timeout=LOOK_S)[0]:
            return held.took()
        held.check()
        return Heard()

    def _say_busy(self, node: RayNode, asked: Mapping[str, float]) -> None:
        """Say once that a trial waits, where nobody of ours is what it waits for."""
        if self._running[node.id] > 1 or self._told_of_waiting:
            return
        self._told_of_waiting = True
        short = clusters.missing(self._ray, asked)
        self.tell(f"the cluster is busy{f', {short}' if short else ''}: a trial waits for its turn on {node.name}")

    def close(self) -> None:
        """Let go of the cluster: what still runs of ours ends."""
        self.stopping.set()
        self._ray.shutdown()


class Gone(NoTrial):
    """Ray has lost it, or could not begin it."""


def _reported(news: Heard) -> FarReport:
    """Return the report of a process that has ended. Raises Lost where it left none."""
    if REPORT not in news.files:
        said = news.said.strip().splitlines()[-1:]
        raise Lost(f"a trial ended without a word{f': {said[0]}' if said else ''}")
    return msgspec.json.decode(news.files[REPORT], type=FarReport)


def _keep(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


@dataclass(slots=True, kw_only=True)
class FarStarter(Starter):
    """Starts the script on `node`, and where it may run anywhere on nodes that are like it."""

    cluster: Cluster
    node: RayNode
    _seen: bool = field(default=False)  # something ran there: what fails from here on is a row
    _open: str = field(default="")  # why a node does not refuse what cannot be kept apart
    _missed: dict[str, str] = field(default_factory=dict)  # log to what a script has missed

    @property
    def at_once(self) -> int:
        """Return how many trials may run side by side: on other nodes, or on one that is to be parted."""
        return self.cluster.places(self.cluster.alike(self.node))

    def apart(self) -> str:
        """Return in a sentence what of the trials' writing was kept apart: its folder is gone with the trial."""
        return gone(self._open)

    def before(self) -> str:
        """Return nothing: a node tells of itself with its first trial."""
        return ""

    def missed(self, log: Path | str) -> str:
        """Return in words what a script that failed has missed, as its node has said it."""
        return self._missed.get(str(log), "")

    def start(
        self,
        plan: StartPlan,
        name: str,
        wanted: LoaderSetting | None = None,
        *,
        judge: Judge | None = None,
        spread: bool = False,
        **special: Json,
    ) -> Start:
        """Start the script on a node, and wait for its end. Raises NoTrial where no trial could begin there."""
        order = alike(
            FarStart,
            self,
            command=plan.command,
            cwd=plan.cwd,
            name=name,
            seconds=plan.seconds,
            batches=plan.batches,
            wanted=wanted,
            replay=bool(special.get("replay")),
            judged=judge is not None,
        )
        nodes = self.cluster.alike(self.node) if spread else [self.node]
        log, descriptor = new_log(self.folder, name)
        os.close(descriptor)
        with self.cluster.place(nodes) as node:
            try:
                report = self.cluster.run(node, order, log, judge, plan.budget)
            except Gone as gone:
                if not self._seen:
                    raise
                return Start(state=State.FAILED, log=str(log), why=str(gone.args[0]), node=node.name)
        if report is None:
            why = plan.budget.words() if plan.budget is not None else ""
            return Start(state=State.FAILED, log=str(log), why=why, node=node.name)
        return self._taken(report, node, log)

    def _taken(self, report: FarReport, node: RayNode, log: Path) -> Start:
        """Return the start in a report. Raises NoTrial where there is none."""
        if report.start is None:
            raise NoTrial(node.name, report.error, report.hint)
        self._seen = True
        if report.open and not self._open:
            self._open = report.open
            self.cluster.tell(f"on {clean(node.name, 64)}: {opened(clean(report.open, 200))}")
        self._missed[str(log)] = report.missed
        return msgspec.structs.replace(report.start, log=str(log), node=node.name).start(report.run())
