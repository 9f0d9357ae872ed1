"""The part of the gatherer that listens to stacks: what the training thread did where no span covers it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gputune.features import Frame
from gputune.sample import Stack

FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")
LOADING = ("torch/utils/data/dataloader.py", "torch/utils/data/_utils/")
COMPUTE = (
    "torch/nn/modules/",
    "torch/nn/functional",
    "torch/nn/parallel/",
    "torch/autograd/",
    "torch/_tensor.py",
    "torch/optim/",
    "torch/_dynamo/",
    "torch/amp/",
    "torch/distributed/",
    "torch/cuda/",
)
SPANNED = ("torch/serialization.py", "/logging/__init__.py", "torch/utils/tensorboard/", "gputune_guest/")
FOREIGN = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen", "<string>", "gputune_guest/")
MOST = 4000  # different places kept


@dataclass(slots=True)
class _Pile:
    """Stacks of one process: how many in all, and by place in the user's code."""

    total: int = 0
    places: dict[tuple[str, str, bool], int] = field(default_factory=dict)


def _split(frame: str) -> tuple[str, str, str]:
    match = FRAME.match(frame)
    if match is None:
        return frame, "", ""
    return match["function"], match["file"], match["line"] or ""


def place(frames: tuple[str, ...]) -> tuple[str, str, bool] | None:
    """Return (where, function, computes) of the innermost frame in the user's own code.

    None for a stack that says nothing about the loop's own work: inside next(), inside a span that the ledger
    has, or outside of any user code.
    """
    parts = [_split(f) for f in frames]
    if any(mark in file for _, file, _ in parts for mark in LOADING + SPANNED):
        return None
    computes = any(mark in file for _, file, _ in parts for mark in COMPUTE)
    for function, file, line in reversed(parts):
        if file and not any(mark in file for mark in FOREIGN):
            return f"{file.rpartition('/')[2]}:{line}", function, computes
    return None


class Stacks:
    """Piles of stacks, by pid."""

    def __init__(self) -> None:
        self._piles: dict[int, _Pile] = {}

    def take(self, stack: Stack) -> None:
        """Take one stack, counted as often as it was seen."""
        found = place(stack.frames)
        if found is None:
            return
        pile = self._piles.setdefault(stack.pid, _Pile())
        pile.total += stack.count
        if found in pile.places or len(pile.places) < MOST:
            pile.places[found] = pile.places.get(found, 0) + stack.count

    def of(self, pid: int) -> tuple[tuple[Frame, ...], int]:
        """Return the places of a process by their share of its stacks outside of spans, and how many there were."""
        pile = self._piles.get(pid)
        if pile is None:
            return (), 0
        return tuple(self._frames(pile)), pile.total

    def _frames(self, pile: _Pile) -> Iterator[Frame]:
        for (where, function, computes), count in sorted(pile.places.items(), key=lambda item: -item[1])[:20]:
            yield Frame(where=where, function=function, share=count / pile.total, compute=computes)
