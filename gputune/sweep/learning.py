"""What another batch size does to what is learnt, and what keeps it as it was.

Sources: Goyal et al., "Accurate, Large Minibatch SGD", 2017 (linear scaling with a warm-up, for SGD); Krizhevsky, "One
weird trick", 2014, and Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", 2022 (square
root, for Adam and its like).
"""

from math import sqrt

from gputune.features import Process


def accumulated(process: Process) -> int:
    """Return over how many batches the script accumulates gradients before a step; 1 where it does not."""
    if not process.optimizer_steps:
        return 1
    return max(1, round(process.batches / process.optimizer_steps))


def stepped(process: Process, own: Process) -> bool:
    """Return whether it steps its optimizer as often a batch as its `own` run did, or nobody can tell.

    A loop that catches an error of memory and goes on with the next batch is fast, and learns nothing.
    """
    expected = process.batches * own.optimizer_steps / max(1, own.batches)
    # Where fewer than 4 steps are expected, too few batches were seen to miss any
    return expected < 4 or process.optimizer_steps >= expected / 2


def advice(before: int, after: int, accumulating: int) -> str:
    """Return in a sentence or two what going from a batch size to another asks of the script."""
    times = after / before
    if times == 1:
        return ""
    if times < 1:
        return (
            f"learning changes with the batch size: accumulate gradients over {accumulating / times:.3g} batches "
            f"instead of {accumulating} to keep the effective batch of {before * accumulating}"
        )
    rule = f"scale the learning rate ×{times:.3g} for SGD, with a warm-up, or ×{sqrt(times):.3g} for Adam and its like"
    if accumulating > 1 and accumulating * before % after == 0:
        return (
            f"learning stays as it is if gradients are accumulated over {accumulating * before // after} batches "
            f"instead of {accumulating}; else {rule}"
        )
    return f"learning changes with the batch size: {rule}, and there are {times:.3g} times fewer steps in an epoch"
