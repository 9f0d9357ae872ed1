"""Printing and logging take a large part of the training loop.

What it sees: the time that `print`, `logging` handlers, progress bars and `fsync` spend on the training thread
between the first and the last batch.

Why it matters: a line a step looks free, but a flush to a slow disk, a pipe that nobody reads fast enough or a
formatted tensor (which makes the device wait) is paid at every step.

What to do: log every N steps, and let the file be flushed by its buffer.

When it is wrong: when the time is in computing what is logged: then move that too.

Sources: the checklist of causes in docs/causes.md (log printing, progress reporting).
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pauses import Words, advise_pause

CHECKLIST = ("log printing", "progress reporting", "3.3")

WORDS = Words(
    id="frequent-logging",
    span="logging",
    one="a log line",
    verb="log",
    change="log_interval",
    least=0.05,  # of the loop; ordinary logging takes below one percent
)


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is not None:
        yield finding
