"""The part of the gatherer that tells which lines of a training step run plain Python, and which wait at a queue.

A call of torch's in C shows no frame of its own, so that a stack cannot tell `x = x.mean()` from `n += 1`. But torch
lets go of the interpreter while it works, and looks at who holds it show whoever runs Python, or a library that does
not let go. A line is plainly Python where about as many of these looks show it as of all the others.

Of such lines it is told whether only a step can run them: inside of a model, or between the last forward pass of a
round and its backward pass or optimizer's step. What comes before the model or behind the step others measure by the
clock, and what lies elsewhere (a simulator that is played in, say) may be what the training is about.

Beside them it tells the script's own lines that train nothing by themselves, whatever they run: neither in nor on the
way to a module's call, a backward pass or an optimizer's step, with nothing under them but torch's plain functions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gputune.features import Interpreted
from gputune.gathering.afterwork import LINES, TORCH, Part, Path, foreign, last_of_torch, number, place_of

T = TypeVar("T")

PATHS_KEPT = 2000  # different paths kept
PURE = 0.7  # of all looks at a line, in which it holds the interpreter: small tensors' functions come to 0.3
MIXED = 0.1  # of the stacks below a line that may show torch
ENTRY, MODULES = ("_call_impl", "_wrapped_call_impl", "__call__"), "torch/nn/modules/module.py"  # of a module
BACK = ("backward", "_engine_run_backward", "grad")
TRACE = "torch/fx/traceback.py"  # whom torch asks for the stack at each function, to tell an anomaly's origin
GETS = (
    ("/queue.py", "get"),
    ("multiprocessing/queues.py", "get"),
    ("multiprocessing/connection.py", "recv"),
    ("multiprocessing/connection.py", "recv_bytes"),
    ("multiprocessing/connection.py", "poll"),
    ("multiprocessing/connection.py", "wait"),
    ("concurrent/futures/_base.py", "result"),
    ("multiprocessing/pool.py", "get"),
    ("multiprocessing/pool.py", "next"),
)
INSIDE, BETWEEN = "inside", "between"
AHEAD, BEHIND = "ahead", "behind"  # of the backward passes, of the steps of optimizers
# What torch's plain functions show under the line that calls them: nothing of a model, of training or of a library.
PLAIN = re.compile(r"/torch/(\w+|utils/_contextlib)\.py$")


class InterpretedStacks(NamedTuple):
    """What the looks at one process tell."""

    lines: tuple[Interpreted, ...] = ()
    looks: int = 0  # at who holds the interpreter
    gets: tuple[Interpreted, ...] = ()  # where it waits at a queue of the script's own
    aside: tuple[Interpreted, ...] = ()  # lines that train nothing by themselves: shares of all stacks of the loop
    traces: float = 0.0  # share of the stacks in which torch writes down where each function was called
    stacks: int = 0  # that the shares of these three are of
    torch: float = 0.0  # share of the looks in which torch's own Python holds it; of next(), pauses and steps of the
    #                      optimizer none


@dataclass(slots=True)
class Looks:
    """The stacks of one process down to the user's innermost frame, all of them and those that hold the interpreter."""

    all: int = 0
    held: int = 0
    _torch: int = 0
    _seen: Counter[tuple[Path, int]] = field(default_factory=Counter)  # with the index of torch's innermost frame
    _python: Counter[Path] = field(default_factory=Counter)
    _forward: set[Path] = field(default_factory=set)
    _back: set[Path] = field(default_factory=set)  # backward passes, and optimizers' steps
    _steps: set[Path] = field(default_factory=set)  # the latter alone
    _aside: Counter[Path] = field(default_factory=Counter)
    _gets: Counter[Part] = field(default_factory=Counter)
    _traces: int = 0
    _told: InterpretedStacks | None = (
        None  # since the latest stack: they come now and then, and are asked for all the time
    )

    def add(self, parts: Sequence[Part], count: int, *, kind: str, user: int, held: bool) -> None:
        """Take a stack; `user` is the index of the user's innermost frame in it, `kind` as `afterwork` has it.

        `held`: of looks at who holds the interpreter.
        """
        self._told = None
        path = tuple(parts[: user + 1])
        own = kind == "" and user >= 0
        if held:
            self.held += count
            if own and last_of_torch(parts) <= user:
                _count(self._python, path, count)
            elif own and last_of_torch(parts) > user:
                self._torch += count
            return
        self.all += count
        self._traces += count if any(file.endswith(TRACE) for _, file, _ in parts) else 0
        _count(self._seen, (path, last_of_torch(parts)), count)
        if own and any(_gets(part) for part in parts[user + 1 :]):
            _count(self._gets, parts[user], count)
        if kind == "step" or _back(parts):
            _note(self._back, path)
            if kind == "step":
                _note(self._steps, path)
        elif any(_is_entry(part) for part in parts):
            _note(self._forward, path)
        elif own and all(PLAIN.search(file) for _, file, _ in parts[user + 1 :]):
            _count(self._aside, path, count)

    def told(self) -> InterpretedStacks:
        """Return what is known by now."""
        if self._told is None:
            self._told = self._counted()
        return self._told

    def _counted(self) -> InterpretedStacks:
        gets = tuple(
            Interpreted(where=place_of(part), function=part[0], share=count / self.all)
            for part, count in self._gets.most_common(LINES)
        )
        traces = self._traces / self.all if self.all else 0.0
        torch = self._torch / self.held if self.held else 0.0
        return InterpretedStacks(
            lines=self._lines() if self.held else (),
            looks=self.held,
            gets=gets,
            aside=self._lines_aside(),
            traces=traces,
            stacks=self.all,
            torch=torch,
        )

    def _lines_aside(self) -> tuple[Interpreted, ...]:
        """Return the lines that train nothing by themselves, where it was seen what trains."""
        found = Counter[tuple[Part, str]]()
        if self._forward and self._back:
            way = {start for path in self._forward | self._back for start in _starts(path)}
            for path, count in self._aside.items():
                if path not in way:
                    found[path[-1], self._from_passes(path)] += count
        return tuple(
            Interpreted(where=place_of(part), function=part[0], share=count / self.all, side=side)
            for (part, side), count in found.most_common(LINES)
        )

    def _from_passes(self, path: Path) -> str:
        """Return `ahead` of a line above all backward passes, `behind` of one below all steps; "" where it is between.

        As well of one that stands on one line with them, or elsewhere.
        """
        backs = self._back - self._steps
        if backs and all(_comes_first(path, back) for back in backs):
            return AHEAD
        return BEHIND if self._steps and all(_comes_first(step, path) for step in self._steps) else ""

    def _lines(self) -> tuple[Interpreted, ...]:
        """Return the lines of plain Python: the outermost ones in and under which nothing else runs."""
        pure = {path: self._side(path) for path in self._pure()}
        found = Counter[tuple[Part, str, str]]()
        for path, count in self._python.items():
            start = next((start for start in _starts(path) if start in pure), ())
            if start:
                calls = next((function for function, file, _ in path[len(start) :] if not foreign(file)), "")
                found[start[-1], calls, pure[start]] += count
        return tuple(
            Interpreted(where=place_of(part), function=part[0], share=count / self.held, calls=calls, side=side)
            for (part, calls, side), count in found.most_common(LINES)
        )

    def _pure(self) -> set[Path]:
        """Return the paths down to lines of the user's in and under which next to nothing but plain Python is seen."""
        seen, python, torch = Counter[Path](), Counter[Path](), Counter[Path]()
        for (path, last), count in self._seen.items():
            for start in _starts(path):
                seen[start] += count
                torch[start] += count if last >= len(start) else 0
        for path, count in self._python.items():
            for start in _starts(path):
                python[start] += count
        return {
            path
            for path, count in python.items()
            if not foreign(path[-1][1])
            and torch[path] <= MIXED * seen[path]
            and count / self.held >= PURE * seen[path] / max(1, self.all)
        }

    def _side(self, path: Path) -> str:
        """Return on which side of a step's passes a line stands; "" where that is before, behind, or not known."""
        if any(_is_entry(part) for part in path):
            return INSIDE
        for back in self._back:
            fork = _fork(path, back)
            if fork is None or not _above(path[fork], back[fork]):
                continue
            beside = [forward for forward in self._forward if _fork(path, forward) == fork]
            if beside and all(_above(forward[fork], path[fork]) for forward in beside):
                return BETWEEN
        return ""


def _count(counts: Counter[T], key: T, count: int) -> None:
    if key in counts or len(counts) < PATHS_KEPT:
        counts[key] += count


def _note(paths: set[Path], path: Path) -> None:
    if len(paths) < PATHS_KEPT:
        paths.add(path)


def _starts(path: Path) -> Iterator[Path]:
    """Yield the outermost frame of a path, the outermost two, and so on."""
    return (path[:depth] for depth in range(1, len(path) + 1))


def _fork(path: Path, other: Path) -> int | None:
    """Return the index of the first frame that differs; None where one is a part of the other."""
    pairs: Iterable[tuple[Part, Part]] = zip(path, other, strict=False)
    return next((index for index, (mine, theirs) in enumerate(pairs) if mine != theirs), None)


def _comes_first(path: Path, other: Path) -> bool:
    """Return whether a stack lies above another one in a function that both go through."""
    fork = _fork(path, other)
    return fork is not None and _above(path[fork], other[fork])


def _above(part: Part, other: Part) -> bool:
    """Return whether a frame stands further up in the same function."""
    return part[:2] == other[:2] and number(part) < number(other)


def _is_entry(part: Part) -> bool:
    """Return whether a frame is a module's call: `zero_grad` goes through a `__call__` of torch's as well."""
    return part[1].endswith(MODULES) and part[0].rpartition(".")[2] in ENTRY


def _back(parts: Sequence[Part]) -> bool:
    return any(TORCH in file and function.rpartition(".")[2] in BACK for function, file, _ in parts)


def _gets(part: Part) -> bool:
    return any(file in part[1] and part[0].rpartition(".")[2] == name for file, name in GETS)
