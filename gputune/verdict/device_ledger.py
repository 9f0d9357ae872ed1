"""Where the time of a device went, by its own clock: a partition of the training loop that adds up by construction.

It stands beside the ledger of the training thread (`ledger.py`): that one says where the host was, this one what the
device did meanwhile. What could not be told apart is `unknown`: kernels, and the gaps between them, of a step that was
never worked off in one go.
"""

from collections.abc import Mapping

from gputune.features import DeviceStep, Process
from gputune.model.workload import stood

COMPUTE, COPIES, COMMUNICATION, OTHER = "compute", "copies", "communication", "other-device"
HOST_BOUND, STARVED, PAUSED, UNKNOWN = "host-bound", "starved", "paused", "unknown"
PARTS = (COMPUTE, COPIES, COMMUNICATION, OTHER, HOST_BOUND, STARVED, PAUSED, UNKNOWN)


def device_ledger(process: Process) -> Mapping[str, float]:
    """Return part to share of the loop (0 to 1, together 1) of a process's device; nothing where no step was timed.

    `compute`: kernels. `copies`: copies from the host on the step's own stream, nothing else runs there meanwhile.
    `communication`: standing for other ranks and for transfers. `other-device`: the same for other devices of the
    process itself, of which this one is timed. `starved`: no work until the next batch.
    `host-bound`: all other gaps, in which the host queued nothing. `paused`: what evaluations, checkpoints, log lines
    and the like take beyond the work that was queued before, and the start of workers.
    """
    timed = process.device_step
    if timed is None or timed.whole <= 0:
        return {}
    whole = (timed.mean or timed.whole) + timed.paused  # work takes all steps as long as those timed, gaps do not
    left, found = whole, {}
    for part, seconds in [*_work(process, timed), (PAUSED, timed.paused)]:  # in which what was queued goes on
        found[part] = min(left, max(0.0, seconds))
        left -= found[part]
    rest = max(timed.starved, timed.whole - sum(found.values()) + found[PAUSED])
    found[STARVED] = left * timed.starved / rest if rest > 0 else 0.0
    found[HOST_BOUND if timed.compute is not None else UNKNOWN] = left - found[STARVED]
    return {part: found[part] / whole for part in PARTS if found.get(part, 0.0) > 0}


def _work(process: Process, timed: DeviceStep) -> list[tuple[str, float]]:
    """Return the s of a step that any step takes, timed or not, what is sure of them first.

    How late other ranks are is chance: what the sampled rounds tell of it counts only where the timed steps tell none.
    """
    met = timed.standing or stood(process)
    compute = (timed.compute or 0.0) - (0.0 if timed.standing else met)
    return [(COPIES, timed.copying), (OTHER, timed.crossing), (COMPUTE, compute), (COMMUNICATION, met)]
