"""Saving the model takes a large part of the training loop.

What it sees: the time that `torch.save`, `torch.jit.save`, `torch.distributed.checkpoint`, safetensors, `numpy.savez`
and its like, `pickle.dump` into a file and the syncing of what they wrote spend on the training thread between the
first and the last batch, and how often.

Why it matters: the device has nothing to do while the training thread writes a file.

What to do: save less often (every N steps, or once an epoch), to a faster disk, or in the background
(`torch.distributed.checkpoint.async_save`). A checkpoint should cost about one percent of the loop; what is lost at a
crash is the work since the last one.

When it is wrong: on machines that are preempted often, where rare checkpoints lose more work than they save; where what
is saved are the results that the run is for.

Sources: Young, "A first order approximation to the optimum checkpoint interval", 1974.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pauses import Words, advise_pause

CHECKLIST = ("model saving", "3.1")

WORDS = Words(
    id="frequent-checkpoint",
    span="checkpoint",
    one="a checkpoint",
    verb="save",
    change="checkpoint_interval",
    least=0.05,  # of the loop; five times what a checkpoint should cost
)


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is not None:
        yield finding
