"""The training waits for batches, and more DataLoader workers would make them in time.

What it sees: the share of the loop spent in `next()`, how long one batch takes to make (measured inside the worker
that makes it, its CPU time and its blocked time apart) and how long the training's own step takes.

Why it matters: while the training waits in `next()`, the device has nothing to do.

What to do: set `num_workers` to the number named. It is the smallest one that the model finds about as good as any,
for the CPUs that this job may use (affinity, cgroup quota, ranks on the node) and the room in /dev/shm. Where one
line builds several loaders, each of them gets as many: those that live at once share the CPUs and the room. Where
hardly any of the others is waited for, the number is meant for that one alone, which takes an edit of the script:
what gputune sets (`prove`, `sweep-loader`), it sets for all of the line.

A remedy that makes batches cheaper (`heavy-preprocessing`) and surely brings more than workers is named beside them.

Where the training computes on the host with as many threads as there are CPUs (torch's default), workers take these
from it, and each of its operations stands until they give them back: then both numbers are named, of workers and of
threads, where that is worth more than workers alone.

When it is wrong: with one worker or none, when the storage cannot serve more readers at once than it does now, or the
dataset would serialise its workers by a lock that is not seen (of files, of a database; those of `multiprocessing` are,
where they are entered by `with`). Of several workers `serialized-workers` knows that, and speaks instead; where nobody
can tell, this is said with "perhaps". And when each worker's memory does not fit. An `IterableDataset` that does not
share its samples out among the workers returns each of them once a worker: the finding says so unless the dataset asked
`get_worker_info()`.
Where one worker has a slow part of such a dataset, more of them may leave that part whole: nothing is sure then, and
`straggling-worker` says what helps. No forked worker can use a GPU: batches that are made on one are to be made in host
memory first.

TensorFlow: the same of a tf.data pipeline, in its words. The stage that takes most of the time of making a batch maps
a function over one element after the other, or over fewer at once than would help: `num_parallel_calls`. What
TensorFlow runs is judged, not what is written: it makes functions without side effects parallel by itself.
Calls run in a pool of one thread a CPU, so for functions that wait for storage a larger one is named
(`options.threading.private_threadpool_size`), up to which `tf.data.AUTOTUNE` then goes. Silent on functions that
compute in Python (`tf.py_function`), which run one at a time, and where others use more than half of the CPUs. Of a
sequential `interleave` or `flat_map` only the waiting is seen: their time stands in stages that go with each file.

Sources: `torch.utils.data` documentation, "Single- and Multi-process Data Loading"; TensorFlow guide, "Better
performance with the tf.data API"; the model is `gputune/model/replay.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from gputune.core.finding import WAITING, Finding, Speedup
from gputune.features import Features, Loader
from gputune.model.ceiling import with_ceiling
from gputune.model.crowding import WORTH, Narrower, for_more_workers
from gputune.model.flows import Flow, either, flows
from gputune.model.prediction import Outlook, outlooks
from gputune.model.remedies import remedies
from gputune.model.shard_imbalance import heavy_part
from gputune.model.turns import in_company, in_turn, unless_in_line
from gputune.verdict.arbitration import CLOSE
from gputune.verdict.effects import BEYOND_ROUNDING, of_workers

CHECKLIST = ("data loading", "1.4")

QUIET = 0.25  # of the wait for one loader: where the others of its line are waited for no longer, they need no change
NOTABLE = 0.2  # of a step: from here on what it waits for another loader is told
COMPUTES = 0.5  # of the making on a CPU: from here on CPUs, or Python's lock, decide how many calls run at a time
UNSHARED = "copy batches to the GPU in the loop, not in the dataset or collate_fn (no forked worker can use CUDA), and "
CROWD = 0.5  # of the CPUs in use by others: what waits for a CPU then looks as if it waited for storage


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.starving < WAITING or outlook.no_workers is not None:
            continue
        alone = _is_waited_for_alone(outlook)
        workers, persistent, speedup = (outlook.by_itself() if alone else outlook).best_workers()
        speedup = unless_in_line(outlook, speedup)
        in_line = in_turn(outlook) or in_company(outlook)
        stuck = in_line or _only_ordered(outlook, speedup) or heavy_part(outlook.loader)
        fewer = None if stuck or alone else for_more_workers(outlook)
        if fewer and fewer.gain.likely >= WORTH * speedup.likely:
            yield _with_fewer_threads(outlook, replace(fewer, gain=unless_in_line(outlook, fewer.gain)))
        elif workers > outlook.loader.num_workers and not stuck:
            among = _for_one(outlook) if alone else _among(outlook.loader, lasting=persistent)
            found = _finding(outlook, workers, speedup, persistent=persistent, among=among)
            yield with_ceiling(outlook, found)
    for flow, greedy in zip(flows(run), flows(run, greedy=True), strict=True):
        stage = flow.pipeline.culprit
        if flow.waiting < WAITING or stage is None or not stage.maps:
            continue
        calls, speedup = flow.at_once()
        if calls > max(stage.at_once, stage.most) and (_waits(run, greedy) or _has_threads(flow, calls)):
            yield _in_tensorflow(flow, calls, either(speedup, greedy.at_once()[1]))


def _has_threads(flow: Flow, calls: int) -> bool:
    """Return whether TensorFlow's own threads, one a CPU, are enough to compute so many calls at a time."""
    return calls <= flow.job.cpus and not flow.pipeline.python


def _waits(run: Features, greedy: Flow) -> bool:
    """Return whether a mapped function mostly waits, and not for a CPU: its threads' queues are not measured."""
    crowded = (run.machine.others or 0.0) > CROWD * run.machine.cpus
    return not crowded and greedy.making_cpu <= COMPUTES * greedy.making


def _only_ordered(outlook: Outlook, more: Speedup) -> bool:
    """Return whether the workers there are make enough, and about as much is won by taking batches as they come.

    More workers would only lengthen the queue behind a slow batch, each with a share of the memory.
    """
    loader = outlook.loader
    if (
        loader.num_workers < 2
        or outlook.making > loader.num_workers * outlook.stepping
        or not max(loader.early, default=0)
    ):
        return False
    return outlook.out_of_order().likely * CLOSE >= more.likely


def _finding(outlook: Outlook, workers: int, speedup: Speedup, *, persistent: bool, among: str) -> Finding:
    loader = outlook.loader
    making, elsewhere = outlook.making, outlook.elsewhere
    step = outlook.stepping_alone - sum(elsewhere.values())
    keep = persistent and not loader.persistent_workers
    served = _if_served(outlook, workers)
    unshared = loader.batch_on_device and not loader.num_workers and loader.start_method == "fork"
    better = [remedy for remedy in remedies(outlook) if remedy.gain.sure > speedup.high][:1]
    return Finding(
        id="few-workers",
        says=(
            f"{_who_waits(outlook)}: one takes {making * 1e3:.3g} ms to make, "
            f"a step {step * 1e3:.3g} ms{_as_well(outlook, elsewhere)}, and num_workers is {loader.num_workers}"
        ),
        do="".join(
            (
                f"{UNSHARED if unshared else ''}set num_workers={workers}"
                f"{', persistent_workers=True' if keep else ''}{among}{served}",
                *(f"; or {remedy.do} (x{remedy.gain.likely:.2f})" for remedy in better),
            )
        ),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="DataLoader replayed over the measured times of its batches and steps, within the CPUs of this job",
        falsified_by=f"samples/s with num_workers={workers} below x{speedup.low:.2f} of this run's",
        effect=of_workers(loader, workers, persistent=persistent),
        evidence={
            "waiting": outlook.starving,
            "batch_s": making,
            "batch_cpu_s": outlook.making_cpu,
            "step_s": step,
            **({"elsewhere_s": sum(elsewhere.values())} if elsewhere else {}),
            "num_workers": loader.num_workers,
            "cpus": outlook.run.machine.cpus,
            **{f"remedy.{remedy.name}": remedy.gain.likely for remedy in better},
        },
        where=loader.where,
        change={} if unshared else {"num_workers": workers, **({"persistent_workers": True} if keep else {})},
    )


def _if_served(outlook: Outlook, workers: int) -> str:
    """Say on what it rests that several workers wait beside each other, where nobody has seen two of them.

    And of a stream, that there is something to read for so many.
    """
    if outlook.loader.iterable and outlook.loader.num_workers:
        return f", if its dataset has {workers} shards or more to share out"
    if outlook.loader.num_workers > 1 or workers < 2 or outlook.making_cpu > COMPUTES * outlook.making:
        return ""
    return ", if what they wait for serves so many at a time"


def _with_fewer_threads(outlook: Outlook, fewer: Narrower) -> Finding:
    """Say it of a loop whose step has all CPUs: workers would take them from it."""
    with_them = f", and torch.set_num_threads({fewer.threads}) (or OMP_NUM_THREADS={fewer.threads})"
    among = f"{_among(outlook.loader, lasting=False)}{with_them}"
    found = _finding(outlook, fewer.workers, fewer.gain, persistent=False, among=among)
    threads = outlook.process.precision.threads
    return replace(
        found,
        says=f"{found.says}; a step computes on {threads} threads, which stand while a worker has one of their CPUs",
        basis=f"{found.basis}; a step of fewer threads takes between as long and all of its CPU time",
        falsified_by=f"samples/s with both below x{fewer.gain.low:.2f} of this run's",
        effect=found.effect if found.effect in BEYOND_ROUNDING else "changes-rounding",
        evidence={**found.evidence, "threads": float(threads or 1)},
        change={**found.change, "threads": fewer.threads},
    )


def _who_waits(outlook: Outlook) -> str:
    """Say for how much of its time the loop waits; ranks wait for whichever of their batches comes last."""
    if outlook.job.mates:
        return f"the ranks wait {outlook.starving:.0%} of their time for whoever of them has no batch yet"
    return f"the loop waits {outlook.starving:.0%} of its time for batches"


def _as_well(outlook: Outlook, elsewhere: Mapping[str, float]) -> str:
    """Say that a round waits for another loader as well, if for much of the time between two batches of this one."""
    where = max(elsewhere, key=lambda place: elsewhere[place], default="")
    if not where or elsewhere[where] < NOTABLE * outlook.stepping:
        return ""
    which = "another loader of that line" if where == outlook.loader.where else f"the loader at {where}"
    return f" beside {elsewhere[where] * 1e3:.3g} ms of waiting for {which}"


def _is_waited_for_alone(outlook: Outlook) -> bool:
    """Return whether of several loaders that one line builds, and that live at once, hardly any other is waited for."""
    others = sum(other.wait_total for other in outlook.beside)
    side_by_side = bool(outlook.beside) and outlook.loader.company.iterated > 1
    return side_by_side and others <= QUIET * outlook.loader.wait_total


def _for_one(outlook: Outlook) -> str:
    """Say which of the loaders of its line it is: by as few as can be of what tells it from each other one."""
    mine, others = _marks(outlook.loader), [_marks(other) for other in outlook.beside]
    picks = (pick for count in range(1, len(mine) + 1) for pick in combinations(range(len(mine)), count))
    telling = next((pick for pick in picks if all(any(mine[i] != o[i] for i in pick) for o in others)), ())
    which = f", the one with {' and '.join(mine[i] for i in telling)}" if telling else ""
    return f" for one of the {len(others) + 1} loaders of that line{which}; the others are hardly waited for"


def _marks(loader: Loader) -> tuple[str, ...]:
    """Return what is seen of a loader in the script, or by its length."""
    return (
        f"a dataset of {loader.dataset}",
        f"num_workers={loader.num_workers}",
        f"batch_size={loader.batch_size}",
        f"{loader.length} batches",
    )


def _among(loader: Loader, lasting: bool) -> str:  # noqa: FBT001 - a setting, handed through
    """Say of a line that builds several loaders how many of them have these workers at once."""
    at_once = loader.company.built if lasting else loader.company.iterated
    return f" (that line builds {at_once} loaders that live at once: each of them gets as many)" if at_once > 1 else ""


def _in_tensorflow(flow: Flow, calls: int, speedup: Speedup) -> Finding:
    """Say it of a pipeline of tf.data, in its own words."""
    pipeline, loader = flow.pipeline, flow.loader
    at_once = pipeline.stages[pipeline.slowest].at_once
    tuned = calls <= flow.job.cpus
    asked = "num_parallel_calls=tf.data.AUTOTUNE"
    pool = "" if tuned else f" and options.threading.private_threadpool_size={calls}"
    why = "" if tuned else ": the function mostly waits, and TensorFlow's own pool has a thread a CPU"
    place = f" at {pipeline.where}" if pipeline.where and pipeline.where != loader.where else ""
    return Finding(
        id="few-workers",
        says=(
            f"the loop waits {flow.waiting:.0%} of its time for batches of tf.data: one takes "
            f"{flow.making * 1e3:.3g} ms to make, a step {flow.stepping * 1e3:.3g} ms, "
            f"and map{place} works on {at_once} at a time"
        ),
        do=f"map(..., {asked}){pool}{why}",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="stages replayed over the times that TensorFlow's own model of the pipeline measured, within the CPUs",
        falsified_by=f"samples/s with {asked}{pool} below x{speedup.low:.2f} of this run's",
        effect="same-order",
        evidence={
            "waiting": flow.waiting,
            "batch_s": flow.making,
            "batch_cpu_s": flow.making_cpu,
            "step_s": flow.stepping,
            "at_once": at_once,
            "cpus": flow.run.machine.cpus,
        },
        where=loader.where,
        change={"num_parallel_calls": "tf.data.AUTOTUNE", **({} if tuned else {"private_threadpool_size": calls})},
    )
