"""When memory that grows says something: not while torch still fills its list of tensors that went between processes.

Who sends or receives a tensor keeps a weak reference to its storage, up to 128 of them before the dead ones are let go
(`torch/multiprocessing/reductions.py`, `SharedCache`). Each pins a small piece of the heap, and what is allocated and
freed around it cannot be joined again: the heap of a training with workers grows by some megabytes a batch, and no
further once the list was full. Measured: from 250 to 530 MB over 130 batches of one tensor, then flat.
"""

REFERENCES = 128  # `SharedCache.limit` as torch has it; a batch of several tensors fills the list sooner


class Settling:
    """Counts the batches that went from workers to the training, until each of `processes` has met enough of them."""

    def __init__(self, processes: int = 1) -> None:
        self._enough = REFERENCES * processes
        self._count = 0
        self._since = 0

    def take(self, t: int) -> None:
        """Take one batch, which came at `t` (ns)."""
        self._count += 1
        if self._count == self._enough:
            self._since = t

    @property
    def since(self) -> int | None:
        """Return from when on growth counts, in ns: 0, always, where no batch came; None: it has not settled yet."""
        return self._since if not self._count or self._count >= self._enough else None
