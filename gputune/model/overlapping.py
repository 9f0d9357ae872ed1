"""What a step would take if the host did not stand in its device's way.

A device works behind the host: the host queues kernels and goes on. A result that is read joins the two: the host waits
until the device is done, and the device idles until the host has queued something again. And a host that takes longer
to queue its kernels than the device to run them keeps the device waiting at any rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gputune.core.events import STOPPING
from gputune.core.figures import TINY, mean
from gputune.core.finding import Speedup
from gputune.features import Features, Loader, Process
from gputune.model.minimum_samples import LEAST_SAMPLED
from gputune.model.pinning import pinning_rate
from gputune.model.prediction import ERROR, Outlook
from gputune.model.workload import device_work

OTHER = (*STOPPING, "collective", "between")  # pauses that neither advisor is about
RARE = 0.05  # of the steps, those that wait longest, are left out: evaluations, a log line in twenty steps
LEAST_STACKS = 20  # below it, they say nothing about where a step's time goes


@dataclass(frozen=True, slots=True)
class OverlapStep:
    """One ordinary step of the loop, in s: in all, and the parts of it.

    `synced` is the host's waiting for results, `copying` its waiting for copies; `launching` its computing under the
    model, the backward pass and the optimizer; `computing` all of its computing. `device` is the device's work, and
    no step is shorter than `least`, in which the loader makes a batch; `pinned` is the same where a thread pins what
    comes from pageable memory now. Of both there are two: if the CPUs were the loader's alone, and beside the host.
    """

    step: float
    synced: float
    copying: float
    waiting: float
    computing: float
    launching: float
    device: float
    least: tuple[float, float]
    pinned: tuple[float, float]

    def without(self, saved: float, *, spared: float = 0.0, pinned: bool = False, alone: bool = False) -> float:
        """Return how long a step takes with so many s less on the host: never less than the device works.

        `spared` s of them the host computes now: that CPU is the loader's then; where this is `alone`, all of them are.
        With `pinned` memory for all copies.
        """
        undisturbed, beside = self.pinned if pinned else self.least
        left = 0.0 if alone else 1 - min(1.0, spared / max(TINY, self.computing))
        return min(self.step, max(self.step - saved, self.device, undisturbed + left * (beside - undisturbed), TINY))


def lanes(run: Features, process: Process) -> OverlapStep | None:
    """Return an ordinary step of a process; None where nothing is known of its device, or of its steps."""
    steps = process.steps
    known = bool(process.works) or any(d.busy is not None for d in run.devices)
    if not steps or process.loop <= 0 or not known:
        return None
    whole = process.loop / steps
    aside = sum(process.in_loop.get(name, 0.0) for name in OTHER) / steps
    step = max(TINY, whole - aside)
    loader = max((x for x in process.loaders if x.training), key=lambda x: x.batches, default=None)
    held = [c for c in process.copies if min(c.pinned, c.non_blocking) < 1]
    outlooks = [Outlook(run, process, x) for x in process.loaders if x.training and x.num_workers]
    outlooks = [outlook for outlook in outlooks if outlook.known]
    synced, waiting = _synced(process, loader, steps), process.in_loop.get("loader.wait", 0.0) / steps
    copying = sum(c.seconds * (1 - min(c.pinned, c.non_blocking)) for c in held) / steps
    computing = min(step, _computing(process, loader, steps))
    working = max(0.0, min(computing, step - synced - waiting))  # a wait may spin
    apart = max(0.0, working - copying)
    rate = pinning_rate(run, held)
    return OverlapStep(
        step=step,
        synced=min(step, synced),
        copying=min(step, copying),
        waiting=min(step, waiting),
        computing=computing,
        launching=min(computing, _launching(process, step - synced - waiting - copying, steps)),
        device=device_work(run, process, whole) * step / whole,
        least=(_fastest(outlooks) / steps, _fastest(outlooks, computing=working) / steps),
        pinned=(_fastest(outlooks, rate) / steps, _fastest(outlooks, rate, apart) / steps),
    )


def _fastest(outlooks: Sequence[Outlook], rate: float = 0.0, computing: float = 0.0) -> float:
    return max((outlook.fastest(rate, computing) for outlook in outlooks), default=0.0)


def _synced(process: Process, loader: Loader | None, steps: int) -> float:
    """Return the s that an ordinary step waits for results, without those rare ones that wait for much more.

    Where several loaders take turns, what lies between two batches of one of them holds batches of the others.
    """
    if loader is None:
        return process.read_waits / steps
    series = loader.pauses.get("sync", ())
    ordinary = sorted(series)[: max(1, round(len(series) * (1 - RARE)))]
    return mean(ordinary) * loader.batches / steps


def _computing(process: Process, loader: Loader | None, steps: int) -> float:
    """Return the CPU s that the process has in a step of its own."""
    if loader is not None and len(loader.step_cpus) >= LEAST_SAMPLED:
        return mean(loader.step_cpus) * loader.batches / steps
    return (process.cpu or 0.0) * process.loop / steps


def _launching(process: Process, own: float, steps: int) -> float:
    """Return the s in a step that the host is under torch's modules, its backward pass or its optimizer.

    By the stacks, which are taken of the time that no span covers, `own` s of a step; where there are none (ptrace is
    refused in many containers), only the backward pass is sure; but of a device whose work was measured without its
    gaps it is known that it waits for its host, which is then between the first module and the end of the optimizer.
    What torch queues for the device before a module is called comes on top.
    """
    first = mean(process.before_forward)
    ahead = first * process.on_device
    if process.stack_samples < LEAST_STACKS:
        between = own - first - mean(process.after_step) + ahead
        return max(ahead + process.backward / steps, between if process.kernels is not None else 0.0)
    return max(0.0, own) * min(1.0, sum(frame.share for frame in process.frames if frame.compute)) + ahead


def gain(process: Process, now: float, low: float, likely: float, high: float) -> Speedup:
    """Return what the loop gains if its ordinary steps take that long instead of `now` s: longest first."""
    steps = process.steps
    ratios = [process.loop / max(TINY, process.loop - steps * (now - then)) for then in (low, likely, high)]
    return Speedup(
        low=min(ratios) * (1 - ERROR),
        likely=sorted(ratios)[1],
        high=max(ratios) * (1 + ERROR),
    )
