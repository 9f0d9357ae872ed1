"""A loop without a DataLoader: what it does between the optimizer's step and the model, and on which side of the step.

Nobody asks for a batch there, so nothing in the guest's records parts the end of one round from the start of the next.
The stacks do, by their lines: what stands below the step's line comes after it, what stands above makes the batch.
"""

import math

from gputune.core.figures import NORMAL, mean
from gputune.core.finding import HALF
from gputune.features import Process

LEAST = 20  # stacks of the loop's own work: below it, nobody knows where it lies

BEHIND, AHEAD, UNKNOWN = "behind", "ahead", "unknown"


def unattended(process: Process) -> float:
    """Return the s of a step before its first module call, less what is known to be no work of the loop's own there.

    That is torch's on the weights or the device, and waiting at a queue.
    """
    own = mean(process.before_forward) * max(0.0, 1 - (process.on_weights or 0.0) - process.on_device)
    steps = max(1, process.steps)
    return max(0.0, own - sum(line.share for line in process.queues) * process.loop / steps)


def on_weights(process: Process) -> float:
    """Return the share of the loop in which torch works on the weights before a step's first module call."""
    steps = process.steps
    return mean(process.before_forward) * (process.on_weights or 0.0) * steps / process.loop


def behind(process: Process) -> float:
    """Return the share of the loop's stacks that lie behind the step, less what torch works on the weights there."""
    return max(0.0, process.plain[0] - on_weights(process))


def side(process: Process) -> str:
    """Return where most of the loop's own work surely stands, by its stacks: `BEHIND` the step's line or `AHEAD` of it.

    Where nobody looked whether torch works on the weights, a moving average of them may stand behind: `UNKNOWN`.
    """
    own = behind(process) + process.plain[1]
    count = own * process.loop_stacks
    if count < LEAST:
        return UNKNOWN
    share = behind(process) / own
    margin = NORMAL * math.sqrt(share * (1 - share) / count)
    if share + margin < HALF:  # half of that work, surely: then it is told by where most of it is
        return AHEAD
    return BEHIND if share - margin > HALF and process.on_weights is not None else UNKNOWN
