"""Reporting metrics (TensorBoard, HTTP, sockets) takes a large part of the training loop.

What it sees: the time that TensorBoard writers, experiment trackers, HTTP requests and socket sends spend on the
training thread between the first and the last batch.

Why it matters: a flush waits for the disk and a request for a server, and the device waits for both.

What to do: report every N steps, raise the writer's `flush_secs` and `max_queue`, or report from a thread.

When it is wrong: when the requests fetch the training data itself.

Sources: `torch.utils.tensorboard.SummaryWriter` (max_queue, flush_secs); the checklist of causes in docs/causes.md.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pauses import Words, advise_pause

CHECKLIST = ("metric reporting", "progress reporting", "3.2")

WORDS = Words(
    id="frequent-reporting",
    span="reporting",
    one="a report",
    verb="report",
    change="report_interval",
    least=0.05,  # of the loop; ordinary reporting takes below one percent
)


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is not None:
        yield finding
