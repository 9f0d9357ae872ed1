"""Where the time of a device went, by its own clock: a partition of the training loop that adds up by construction.

It stands beside the ledger of the training thread (`ledger.py`): that one says where the host was, this one what the
device did meanwhile. What could not be told apart is `unknown`: kernels, and the gaps between them, of a step that was
never worked off in one go.
"""

from collections.abc import Mapping

from gputune.features import Process
from gputune.model.workload import stood

COMPUTE, COPIES, COMMUNICATION, OTHER = "compute", "copies", "communication", "other-device"
HOST_BOUND, STARVED, UNKNOWN = "host-bound", "starved", "unknown"
PARTS = (COMPUTE, COPIES, COMMUNICATION, OTHER, HOST_BOUND, STARVED, UNKNOWN)


def device_ledger(process: Process) -> Mapping[str, float]:
    """Return part to share of the loop (0 to 1, together 1) of a process's device; nothing where no step was timed.

    `compute`: kernels. `copies`: copies from the host on the step's own stream, nothing else runs there meanwhile.
    `communication`: standing for other ranks and for transfers. `other-device`: the same for other devices of the
    process itself, of which this one is timed. `starved`: no work until the next batch.
    `host-bound`: all other gaps, in which the host had queued nothing.
    """
    timed = process.device_step
    if timed is None or timed.whole <= 0:
        return {}
    whole = timed.mean or timed.whole  # work takes those that were timed as long as all others, gaps do not
    left, found = whole, {}
    met = stood(process) or timed.standing  # the steps timed are mostly the first, in which others may be late less
    wanted = [(COPIES, timed.copying), (COMMUNICATION, met), (OTHER, timed.crossing)]
    if timed.compute is not None:
        wanted.append((COMPUTE, timed.compute if timed.standing else timed.compute - met))
    for part, seconds in wanted:
        found[part] = min(left, max(0.0, seconds))
        left -= found[part]
    rest = max(timed.starved, timed.whole - sum(found.values()))
    found[STARVED] = left * timed.starved / rest if rest > 0 else 0.0
    found[HOST_BOUND if timed.compute is not None else UNKNOWN] = left - found[STARVED]
    return {part: found[part] / whole for part in PARTS if found.get(part, 0.0) > 0}
