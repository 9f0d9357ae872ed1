"""The part of the gatherer that listens to stacks: what the training thread did where no span covers it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gputune.core.sample import Stack
from gputune.features import Frame
from gputune.gathering.afterwork import Behind, Paths, kind_of, place_of
from gputune.gathering.interpreted import InterpretedStacks, Looks
from gputune.gathering.making import FETCHER, Makings
from gputune.gathering.sampled import Sampled, part, word

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
PLACES_KEPT = 4000  # different places kept

Place: TypeAlias = tuple[str, str, bool]  # where, function, computes
Line: TypeAlias = tuple[str, str]  # where, function
Parts: TypeAlias = list[tuple[str, str, str]]  # function, file, line


@dataclass(slots=True)
class _Pile:
    """Stacks of one process: how many in all, and by place in the user's code."""

    total: int = 0
    places: dict[Place, int] = field(default_factory=dict)
    asking: set[Line] = field(default_factory=set)  # those that ask for batches
    bare: dict[Line, int] = field(default_factory=dict)  # with nothing under them

    def add(self, found: Place, count: int, *, bare: bool = False) -> None:
        self.total += count
        if found in self.places or len(self.places) < PLACES_KEPT:
            self.places[found] = self.places.get(found, 0) + count
            if bare:
                self.bare[found[:2]] = self.bare.get(found[:2], 0) + count

    def asks(self, line: Line) -> None:
        if len(self.asking) < PLACES_KEPT:
            self.asking.add(line)

    @property
    def letting_go(self) -> float:
        """Return the share at lines that ask for batches, with nothing under them.

        There the loop's variables are bound to the next batch, and the last one goes, which takes long for a large one.
        """
        return sum(self.bare.get(line, 0) for line in self.asking) / self.total if self.total else 0.0

    def frames(self) -> Iterator[Frame]:
        for (where, function, computes), count in sorted(self.places.items(), key=lambda item: -item[1])[:20]:
            asks = (where, function) in self.asking
            yield Frame(where=where, function=function, share=count / self.total, compute=computes, asks=asks)


def _split(frame: str) -> tuple[str, str, str]:
    match = FRAME.match(frame)
    if match is None:
        return frame, "", ""
    return match["function"], match["file"], match["line"] or ""


def place(frames: tuple[str, ...]) -> Place | None:
    """Return (where, function, computes) of the innermost frame in the user's own code.

    None for a stack that says nothing about the loop's own work: inside next(), inside a span that the ledger
    has, or outside of any user code.
    """
    parts = [_split(f) for f in frames]
    return None if _is_spanned(parts) else _innermost(parts)


def _is_spanned(parts: Parts) -> bool:
    return any(mark in file for _, file, _ in parts for mark in LOADING + SPANNED)


def _innermost(parts: Parts) -> Place | None:
    index = _users(parts)
    if index < 0:
        return None
    computes = any(mark in file for _, file, _ in parts for mark in COMPUTE)
    return place_of(parts[index]), parts[index][0], computes


def _users(parts: Parts) -> int:
    """Return the index of the innermost frame in the user's own code, -1 where there is none."""
    for index in range(len(parts) - 1, -1, -1):
        file = parts[index][1]
        if file and not any(mark in file for mark in FOREIGN):
            return index
    return -1


def is_scripts(frame: str) -> bool:
    """Return whether a frame, `function (file:line)`, is in the user's own code."""
    return _users([_split(frame)]) >= 0


class Stacks:
    """Piles of stacks, by pid: those of the loop's own work, and all of them."""

    def __init__(self) -> None:
        self._own: dict[int, _Pile] = {}
        self._early: dict[int, _Pile] = {}  # likewise, before the loop
        self._all: dict[int, _Pile] = {}
        self._paths: dict[int, Paths] = {}
        self._sampled: dict[int, Sampled] = {}
        self._makings: dict[int, Makings] = {}
        self._looks: dict[int, Looks] = {}
        self._picks: dict[int, Counter[str]] = {}  # lines of batch samplers
        self.taken = 0
        self._cells: dict[str, str] = {}

    def learn(self, cells: Mapping[str, object]) -> None:
        """Learn the numbers of a notebook's cells, by the files that IPython compiles them under."""
        self._cells.update({file: f"In[{number}]" for file, number in cells.items()})

    def _named(self, frame: str) -> tuple[str, str, str]:
        function, file, line = _split(frame)
        return function, self._cells.get(file, file), line

    def take(self, stack: Stack, *, looping: bool = True) -> None:
        """Take one stack, counted as often as it was seen; those taken before the loop say nothing of its lines."""
        parts = [self._named(f) for f in stack.frames]
        asked = next((i for i, (_, file, _) in enumerate(parts) if any(mark in file for mark in LOADING)), None)
        spanned = _is_spanned(parts)
        kind = kind_of(parts, "next" if asked is not None else "span" if spanned else "")
        user = _users(parts)
        if looping:
            self._looks.setdefault(stack.pid, Looks()).add(parts, stack.count, kind=kind, user=user, held=stack.held)
        if stack.held:
            return
        self.taken += stack.count
        self._sampled.setdefault(stack.pid, Sampled()).add(stack.t, word(parts), stack.count, part(parts))
        self._makings.setdefault(stack.pid, Makings()).add(parts, stack.count)
        found = _innermost(parts)
        if found is None:
            return
        self._all.setdefault(stack.pid, _Pile()).add(found, stack.count)
        own = (self._own if looping else self._early).setdefault(stack.pid, _Pile())
        if not spanned:
            own.add(found, stack.count, bare=user == len(parts) - 1)
        if asked is not None and user > asked and not any(FETCHER in file for _, file, _ in parts):
            picks = self._picks.setdefault(stack.pid, Counter())
            picks[place_of(parts[user])] += stack.count
        asker = _innermost(parts[:asked]) if asked is not None else None
        if asker is not None:
            own.asks(asker[:2])
        if looping:
            self._paths.setdefault(stack.pid, Paths()).add(parts, stack.count, kind=kind, user=_users(parts[:asked]))

    def sampled(self, pid: int) -> Sampled:
        """Return where the time of a process went as its stacks tell it."""
        return self._sampled.get(pid, Sampled())

    def afterwork(self, pid: int, *, loaderless: bool = False) -> Behind:
        """Return what a process's stacks show after the optimizer's step; `loaderless` if it asks for no batches."""
        paths = self._paths.get(pid)
        return Behind() if paths is None else paths.lines(loaderless=loaderless)

    def interpreted(self, pid: int) -> InterpretedStacks:
        """Return which lines of a process's step run plain Python, and which wait at a queue of its own."""
        looks = self._looks.get(pid)
        return InterpretedStacks() if looks is None else looks.told()

    def making(self, pids: Iterable[int]) -> Makings:
        """Return what processes that make the batches of one loop do for them, as far as their stacks show it."""
        found = Makings()
        for pid in pids:
            found = found.merged(self._makings.get(pid, Makings()))
        return found

    def picking(self, pid: int) -> str:
        """Return the line of the user's that a process is at most, as it says which samples come next; empty: none."""
        picks = self._picks.get(pid)
        return picks.most_common(1)[0][0] if picks else ""

    def letting_go(self, pid: int) -> float:
        """Return the share of a process's stacks outside of spans in which the last batch goes."""
        return self._own[pid].letting_go if pid in self._own else 0.0

    def of(self, pid: int, *, everywhere: bool = False) -> tuple[tuple[Frame, ...], int]:
        """Return the places of a process by their share of its stacks outside of spans, and how many there were.

        Those of its loop, once there are any.
        With `everywhere` also inside of spans and of next(): of a process that no guest spoke from, no span is known.
        """
        pile = self._all.get(pid) if everywhere else self._own.get(pid) or self._early.get(pid)
        return ((), 0) if pile is None else (tuple(pile.frames()), pile.total)
