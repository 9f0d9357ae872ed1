"""The training waits at a queue of the script's own: whoever fills it is too slow.

What it sees: stacks of the training thread inside `get()` of a `queue.Queue`, a `multiprocessing.Queue` or a pipe, or
where it waits for what a pool of threads or processes was told to do (`Future.result()`, `imap`), below the script's
own code and outside of any DataLoader, and their share of the loop.

Why it matters: a thread that prepares batches takes turns with the training at the interpreter, and one thread or
process makes one batch at a time. The training waits for it as it would for a DataLoader with too few workers.

What to do: let a DataLoader with `num_workers` do it, or several processes fill the queue. More threads help only with
work that lets go of the interpreter (reading files, decoding images, most of numpy). A longer queue does not help.
Where the CPUs are full, more of them do not help either: then batches have to become cheaper.

When it is wrong: when the queue brings what no worker can make ahead (rollouts of the current policy, results of a
simulator), or the one who fills it waits for something else. Several threads that fill it may all wait for one server
or lock: how more of them would do nobody has seen, and it is said with "perhaps". The work stays the same however many
do it: the gain is what the waiting takes, and no more than the CPUs have left for it. How many would do is not known:
likely is one for each CPU, which makes so many times the batches, and with all of the waiting gone the high end.

Sources: the checklist of causes in docs/causes.md (no parallel reading).
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import wilson
from gputune.core.finding import HALF, Finding
from gputune.features import Features, Process
from gputune.model.minimum_samples import LEAST_LOOKS
from gputune.model.offload import made_by_more, share_left_out
from gputune.model.prediction import interval

CHECKLIST = ("1.4",)

NOTABLE = 0.15  # of the loop: a queue that is always full makes its reader wait now and then, too
SEVERAL = 2  # threads beside the training's: whether more of them would be any better, nobody has seen
TWICE = 2  # times as fast: what is likely of batches that become cheaper; of more who make them, one for each CPU
WORTH = 1.1  # times the pace that the CPUs must have room for, for more of them to be the advice


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        if process.steps and process.loop and process.looked >= LEAST_LOOKS and process.queues:
            share = process.queues[0].share
            low, _ = wilson(share, process.looked)
            if low >= NOTABLE:
                yield _finding(run, process, (low, share))


def _do(*, full: bool, many: bool) -> str:
    if full:
        return "make batches cheaper (prepared once, as whole arrays, on the device): hardly a CPU is left to make more"
    if many:
        return (
            "see what these threads wait for: a DataLoader with num_workers, or more of them, help as far as it serves "
            "several at a time"
        )
    return "let a DataLoader with num_workers make the batches, or several processes fill the queue"


def _finding(run: Features, process: Process, shares: tuple[float, float]) -> Finding:
    low, share = shares
    most, gain = made_by_more(run, process, share)
    full = most < WORTH
    if full:
        gain = share_left_out(run, process, share)
    fillers = TWICE if full else max(TWICE, math.floor(run.machine.cpus))
    # half of the waiting that is surely gone with twice as many who fill it, if there are CPUs for them
    gain = gain.down_to(share_left_out(run, process, low * HALF))
    gain = replace(gain, likely=max(gain.low, min(gain.likely, fillers)))
    many = process.fillers >= SEVERAL and not full
    if many:
        gain = gain.down_to(interval(1.0, 0.0))
    line = process.queues[0]
    used = (run.machine.job or process.cpu or 0.0) + (run.machine.others or 0.0)
    cpus = f"; {used:.2g} of the {run.machine.cpus:g} CPUs are in use" if math.isfinite(most) else ""
    return Finding(
        id="slow-producer",
        says=(
            f"the training waits {share:.0%} of the loop at {line.where} (in {line.function}) for its own queue: "
            f"whoever fills it is too slow{cpus}{f'; {process.fillers} threads are at work beside it' if many else ''}"
        ),
        do=_do(full=full, many=many),
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis=(
            f"batches made {fillers} times as fast, and no more than that waiting taken off the loop; low: half of it"
            if full or not math.isfinite(most) or fillers <= most
            else f"that waiting taken off the loop, down to the x{most:.2f} that the CPUs can make; low: half of either"
        ),
        falsified_by=f"samples/s with twice as many who fill it below x{gain.low:.2f} of this run's",
        effect="changes-order",
        because="if several fill it, in whatever order they are ready",
        evidence={
            "share": share,
            "waits_s": share * process.loop / process.steps,
            "stacks": float(process.looked),
            **({"cpus_allow": most} if math.isfinite(most) else {}),
        },
        where=line.where,
    )
