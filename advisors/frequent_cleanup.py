"""Cleaning up memory takes a large part of the training loop: collecting garbage, or emptying torch's cache.

What it sees: the time that `gc.collect()` and `torch.cuda.empty_cache()` take on the training thread between the first
and the last batch, where the script calls them.

Why it matters: a full collection walks every object of Python that lives, some 10 to 100 ms with torch and a few
libraries imported. `empty_cache` waits for the device, gives memory back to it that the next step asks for again, and
each such request stops the device once more. Neither frees anything that is in use.

What to do: leave both out, or call them every few hundred steps, and after an evaluation. Tensors go as soon as nobody
holds them, and what torch's allocator keeps it uses again. Against memory that comes to lie in pieces
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` helps; against memory that grows, `memory-growth` says what holds it.

When it is wrong: when cycles of large objects pile up between collections, so that memory runs out.

Sources: CPython's `gc`; PyTorch, "CUDA semantics", memory management.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pauses import Words, advise_pause

WORDS = Words(
    id="frequent-cleanup",
    span="cleanup",
    one="cleaning up memory",
    verb="do it",
    change="cleanup_interval",
    least=0.05,  # of the loop
)


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is not None:
        yield finding
