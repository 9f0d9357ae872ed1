"""The workers make batches fast enough on average, but a burst of slow ones empties the queue.

What it sees: waits in `next()` although the workers' mean capacity exceeds the training's need, and how much the
times of batches and steps vary. The model finds that a longer queue would hide the bursts.

Why it matters: each worker may only be `prefetch_factor` batches ahead; once these are used up, the device waits for
one slow batch while the other workers stand still.

What to do: set `prefetch_factor` to the number named. It costs memory (/dev/shm): workers x prefetch_factor x batch
size.

When it is wrong: when the slow batches come more and more often; then capacity is missing after all.

TensorFlow: of a tf.data pipeline it says that nothing works ahead: no stage down to the slowest one is a prefetch or
parallel, so each batch is made while the training waits, and `Dataset.prefetch` is missing. What TensorFlow runs is
judged, and where it has added a prefetch by itself nothing is said.

Sources: `torch.utils.data.DataLoader`, `prefetch_factor` (default 2 a worker); "Better performance with the tf.data
API", TensorFlow guide; the model is `gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.finding import WAITING, Finding
from gputune.features import Features
from gputune.model.ceiling import with_ceiling
from gputune.model.flows import Flow, either, flows
from gputune.model.prediction import outlooks

CHECKLIST = ("data loading", "1.5")


def advise(run: Features) -> Iterator[Finding]:
    for flow, greedy in zip(flows(run), flows(run, greedy=True), strict=True):
        if flow.waiting >= WAITING and not flow.pipeline.ahead:
            yield _in_tensorflow(flow, greedy)
    for outlook in outlooks(run):
        loader = outlook.loader
        if outlook.starving < WAITING or not loader.num_workers:
            continue
        prefetch, speedup = outlook.best_prefetch()
        if prefetch <= outlook.now.prefetch:
            continue
        capacity = loader.num_workers / outlook.making if outlook.making else 0.0
        found = Finding(
            id="low-prefetch",
            says=(
                f"{loader.num_workers} workers make up to {capacity:.3g} batches/s, yet the loop waits "
                f"{outlook.starving:.0%} of its time: bursts empty a queue of prefetch_factor={outlook.now.prefetch}"
            ),
            do=f"set prefetch_factor={prefetch}",
            share_lost=1 - 1 / speedup.likely,
            speedup=speedup,
            basis="DataLoader replayed over the measured times of its batches and steps, with a longer queue",
            falsified_by=f"samples/s with prefetch_factor={prefetch} below x{speedup.low:.2f} of this run's",
            effect="identical",
            evidence={
                "waiting": outlook.starving,
                "batches_per_s": capacity,
                "batch_s": outlook.making,
                "longest_batch_s": max(f.wall for f in loader.fetches),
                "step_s": outlook.stepping,
                "longest_step_s": max(loader.steps),
            },
            where=loader.where,
            change={"prefetch_factor": prefetch},
        )
        yield with_ceiling(outlook, found)


def _in_tensorflow(flow: Flow, greedy: Flow) -> Finding:
    """Say it of a pipeline of tf.data, in its own words."""
    speedup = either(flow.ahead(), greedy.ahead())
    return Finding(
        id="low-prefetch",
        says=(
            f"the loop waits {flow.waiting:.0%} of its time for batches of tf.data: one takes "
            f"{flow.making * 1e3:.3g} ms to make, a step {flow.stepping * 1e3:.3g} ms, "
            "and nothing is made ahead of the step"
        ),
        do="end the pipeline with .prefetch(tf.data.AUTOTUNE)",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="stages replayed over the times that TensorFlow's own model of the pipeline measured, one batch ahead",
        falsified_by=f"samples/s with .prefetch(tf.data.AUTOTUNE) below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={"waiting": flow.waiting, "batch_s": flow.making, "step_s": flow.stepping},
        where=flow.loader.where,
        change={"prefetch": "tf.data.AUTOTUNE"},
    )
