"""Data work runs in the training loop itself, between getting a batch and the step, or without any DataLoader.

What it sees: the time from the return of `next()` (or, in a loop without a DataLoader, from the end of the optimizer's
step) to the first call of a torch module, measured in the training process on sampled steps, and the stacks of that
time. What it takes to let the last batch go, at the line that asks for the next one, is left out: a large one is
unmapped from shared memory then, whatever the loop does. In a loop without a DataLoader, work on the weights (a moving
average of them, clipping, their gradients) lies there, too: torch tells in some of the first steps how much of the time
it is, and that is left out.

Why it matters: this work runs one after the other with the step: no worker does it ahead of time, and the device
waits.

What to do: move it into the dataset's `__getitem__` or `collate_fn` and give the DataLoader workers; or, for a loop
that draws its own batches (`get_batch`), prepare the next batch in a thread or process while the step runs.

When it is wrong: when the work needs the model's last output (hard-negative mining; of a loop that is seen to step
environments, reinforcement learning, it is silent: `slow-rollouts`). In a loop without a DataLoader also when what is
done there makes no batch and is no work on the weights either, like a step of a simulator; what the stacks surely show
below the line of the optimizer's step is `work-after-step`'s. With torch before 2.0, or under a TorchFunctionMode of
the script's own (a default device is one), torch tells nothing of that work: then it is silent where the stacks show a
function that goes through a model.
Of a loop that a library's trainer runs it is silent: hooks and progress bars are nothing to move into a dataset.
Where workers and step fill all CPUs, no two hours are alike on virtual ones: the lower end may be the likelier one.

Sources: the checklist of causes in docs/causes.md (preprocessing coupled with training).
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.finding import Finding
from gputune.features import Features, Process
from gputune.model.loaderless import AHEAD, BEHIND, on_weights, side, unattended
from gputune.model.minimum_samples import sure
from gputune.model.offload import NOTABLE, left_out, moved_to_workers
from gputune.verdict.effects import of_moved_work

CHECKLIST = ("preprocessing", "2.1")

LEAST = 20  # sampled steps: below it, nothing is predicted
RELEASED = 4e9  # B/s at which a batch goes, without any stacks
SLOWEST = 2e9  # B/s at the least

AFTER_NEXT = ("after next()", "move it into the dataset or collate_fn")
WITHOUT_LOADER = (
    "from the optimizer on, without a DataLoader,",
    "if it makes the batch, have a DataLoader do it ahead",
)
ELSE = "else do it less often"  # where nobody knows which it is


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        steps = process.steps
        if not steps or not process.loop or not _known(process, process.loop / steps):
            continue
        if (not process.batch_gotten and side(process) == BEHIND) or process.librarys or process.acting is not None:
            continue
        each = max(0.0, unattended(process) - _letting_go(process, steps))
        # so much of the loop before the first module call: optimizer.zero_grad, counters and a progress bar take less
        if each * steps / process.loop >= NOTABLE and not _through_a_model(process):
            yield _finding(run, process, each, steps)


def _known(process: Process, step: float) -> bool:
    """Return whether enough steps, of `step` s, were sampled."""
    return len(process.before_forward) >= LEAST or sure(process.before_forward, of=step)


def _letting_go(process: Process, steps: int) -> float:
    """Return the s of a step in which the last batch goes, since the next one is bound to the loop's variables.

    As the stacks at that line have it, but no more than its bytes explain: what calls C there has no frame either.
    """
    size = max((loader.batch_bytes or 0 for loader in process.loaders if loader.training), default=0)
    if not process.batch_gotten or not process.stack_samples:
        return size / RELEASED if process.batch_gotten else 0.0
    spans = sum(seconds for name, seconds in process.in_loop.items() if name != "step")
    return min(process.letting_go * max(0.0, process.loop - spans) / steps, size / SLOWEST)


def _through_a_model(process: Process) -> bool:
    """Return whether the work after an optimizer's step is on the model, by the stacks, where torch did not tell.

    After a next() there is a batch to work on. After an optimizer's step it may be either: a function beside the loop's
    own whose stacks are now in torch's modules and now not goes through a model, and no worker can do that.
    """
    if process.batch_gotten or process.on_weights is not None:
        return False
    worked = next((f.function for f in process.frames if not f.compute), None)
    computing = dict.fromkeys((frame.function for frame in process.frames), 0.0)
    for frame in process.frames:
        computing[frame.function] += frame.share if frame.compute else 0.0
    return worked is not None and 0.0 < computing[worked] < max(computing.values())


def _finding(run: Features, process: Process, each: float, steps: int) -> Finding:
    workers, speedup = moved_to_workers(run, process, each)
    own = [f for f in process.frames if not f.compute and f.share > on_weights(process)]  # else: that
    frame = min(own, key=lambda f: f.asks, default=None)
    place = f", mostly in {frame.function}" if frame else ""
    since, move = AFTER_NEXT if process.batch_gotten else WITHOUT_LOADER
    do = f"{move}, with num_workers={workers}"
    if not process.batch_gotten and side(process) != AHEAD:  # it may be left out as well as made ahead
        speedup = replace(speedup, high=max(speedup.high, left_out(run, process, each).high))
        do = f"{do}; {ELSE}"
    share = each * steps / process.loop
    return Finding(
        id="preprocessing-in-loop",
        says=f"the loop works {each * 1e3:.3g} ms a step {since} before the model ({share:.0%} of its time){place}",
        do=do,
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="that work moved to workers, replayed within the CPUs of this job",
        falsified_by="samples/s that stay the same when one prepared batch is used again and again",
        effect=of_moved_work(next((x for x in process.loaders if x.training), None), workers),
        because="where that work draws random numbers, or makes the batch itself",
        evidence={"share": share, "before_forward_s": each, "steps": steps, "workers": workers, **_left_out(process)},
        where=frame.where if frame else "",
    )


def _left_out(process: Process) -> dict[str, float]:
    """Return the share of that time in which torch worked on the weights, where it is known."""
    return {} if process.on_weights is None else {"on_weights": process.on_weights}
