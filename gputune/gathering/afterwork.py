"""The part of the gatherer that tells which lines of a loop run after the optimizer's step, before the next batch.

Stacks do not say when in a step they were taken, but lines do. The loop's own frame is the innermost one that stacks in
next() and stacks in an optimizer's step have in common. What stands below the step's line comes after the step: in that
frame, in one between it and the step (one line may ask for the batch and call what makes the step), and in one that
calls it (a method may ask for its batch, and the loop lie around it), unless another loop is called from there.
Statements on one line cannot be told apart, and what a library's trainer calls is no line of the user's loop: then
nothing is told. Lines below the loop's end are told as well: how long a loop works there is measured by the guest's
records, not here.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gputune.features import Afterwork
from gputune.gathering import sampled

Part: TypeAlias = tuple[str, str, str]  # function, file, line
Path: TypeAlias = tuple[Part, ...]

MOST = 2000  # different paths kept
LINES = 20  # lines told
TORCH = "/torch/"
NO_STEP = ("lr_scheduler.py", "swa_utils.py")  # of torch/optim: what follows an optimizer's step
# What no work on the weights goes through: a moving average of them is a line like any other, but for this.
APART = re.compile(
    r"/lib/python3[.\d]*/(json|csv|pickle|statistics|subprocess|selectors|re|random|sqlite3|gzip|zipfile|decimal|"
    r"fractions|difflib|heapq|bisect|pprint|textwrap|shutil|glob|pathlib|traceback)(\.py|/)"
    r"|-packages/(numpy|scipy|sklearn|pandas|PIL|cv2|skimage|matplotlib|seaborn|plotly|networkx|nltk|sacrebleu|"
    r"rouge_score|psutil|yaml)/"
)
COPY = re.compile(r"/lib/python3[.\d]*/(copy)\.py")  # of a model as it is now: torch lies under it, and changes nothing


class _Key(NamedTuple):
    """What one stack has to tell: the frames down to the user's innermost, and what lies around and below them."""

    path: Path
    kind: str  # "next", "step", "span" or ""
    torch: int  # index of the innermost frame of torch, -1 for none
    apart: str  # name of a library below the path that does not touch weights


class _Loop(NamedTuple):
    """Where the frame of the training loop is: its callers, its function and file, and what stands in it."""

    callers: Path
    function: str
    file: str
    header: int  # line of next()
    steps: tuple[Path, ...]  # paths of optimizers' steps

    def at(self, path: Path) -> bool:
        """Return whether a stack is in this loop's function, called from the same place."""
        depth = len(self.callers)
        return len(path) > depth and path[:depth] == self.callers and path[depth][:2] == (self.function, self.file)

    def around(self, path: Path) -> Path:
        """Return a stack down to where it is below the call of this loop, in a function that calls it; else nothing."""
        for index, (mine, theirs) in enumerate(zip(path, self.callers, strict=False)):
            if mine != theirs:
                return path[: index + 1] if _is_below(mine, theirs) else ()
        return ()


@dataclass(slots=True)
class _Line:
    around: bool  # in a function that calls the loop's
    total: int = 0
    torch: int = 0
    apart: dict[str, int] = field(default_factory=dict)


class Paths:
    """The stacks of one process by the user's frames in them."""

    def __init__(self) -> None:
        self._counts: dict[_Key, int] = {}

    def add(self, parts: list[Part], count: int, *, word: str, user: int) -> None:
        """Take a stack that is in `next`, in another `span`, or "" in none, as far as its files tell.

        `user` is the index of the user's innermost frame in it.
        """
        below = parts[user + 1 :]
        copies = any(COPY.search(file) for _, file, _ in below)
        key = _Key(
            path=tuple(parts[: user + 1]),
            kind=_kind(parts, word),
            torch=-1 if copies else _last(parts),
            apart="copy" if copies else _apart(below),
        )
        if key in self._counts or len(self._counts) < MOST:
            self._counts[key] = self._counts.get(key, 0) + count

    def lines(self) -> tuple[tuple[Afterwork, ...], int]:
        """Return the lines after the step by their share of the stacks in the loop's function, and how many these are.

        Stacks inside of next() and of spans are left out.
        """
        loop = self._loop()
        if loop is None:
            return (), 0
        total, found = 0, dict[Part, _Line]()
        below = all(loop.header <= _number(step[len(loop.callers)]) for step in loop.steps)
        elsewhere = {loop.around(key.path) for key in self._counts if key.kind in ("next", "step")}
        for key, count in self._counts.items():
            if key.kind in ("next", "span"):
                continue
            around = loop.around(key.path)
            if around and around not in elsewhere:
                _count(found, loop, key, count)
            if not loop.at(key.path):
                continue
            line = _number(key.path[len(loop.callers)])
            if below and line < loop.header:  # before the loop
                continue
            total += count
            if below or line < loop.header:
                _count(found, loop, key, count)
        ordered = sorted(found.items(), key=lambda item: -item[1].total)[:LINES] if total else []
        return tuple(_told(part, line, total) for part, line in ordered), total

    def _loop(self) -> _Loop | None:
        """Return the loop whose frame lies innermost; of equal ones that with most stacks in its steps."""
        nexts = [key.path for key in self._counts if key.kind == "next"]
        steps = {key.path: count for key, count in self._counts.items() if key.kind == "step"}
        weights: dict[tuple[Path, str, str], int] = {}
        for path, count in steps.items():
            for other in nexts:
                depth = _fork(path, other)
                if depth is not None:
                    place = (path[:depth], *path[depth][:2])
                    weights[place] = weights.get(place, 0) + count
        if not weights:
            return None
        callers, function, file = max(weights, key=lambda place: (len(place[0]), weights[place]))
        bare = _Loop(callers, function, file, 0, ())
        headers = [_number(path[len(callers)]) for path in nexts if bare.at(path)]
        return bare._replace(header=min(headers), steps=tuple(path for path in steps if bare.at(path)))


def _kind(parts: list[Part], word: str) -> str:
    if word != "next" and any(_steps(function, file) for function, file, _ in parts):
        return "step"
    return word or ("" if sampled.word(parts) == "step" else "span")


def _steps(function: str, file: str) -> bool:
    return "torch/optim/" in file and function.rpartition(".")[2] == "step" and not file.endswith(NO_STEP)


def _last(parts: list[Part]) -> int:
    return max((index for index, (_, file, _) in enumerate(parts) if TORCH in file), default=-1)


def _apart(parts: list[Part]) -> str:
    found = (APART.search(file) for _, file, _ in parts)
    return next((match[1] or match[3] for match in found if match), "")


def _number(part: Part) -> int:
    return int(part[2] or 0)


def _fork(path: Path, other: Path) -> int | None:
    """Return the index of the frame in which a step and a next() go different ways, or one line of which does both.

    None if that is not one function of the user's.
    """
    for index, (mine, theirs) in enumerate(zip(path, other, strict=False)):
        if mine != theirs:
            ours = mine[:2] == theirs[:2] and mine[2] and theirs[2] and not _foreign(mine[1])
            return index if ours else None
    inner = path[len(other) - 1 : len(other) + 1] if other else ()
    return len(other) - 1 if len(inner) > 1 and not any(_foreign(file) for _, file, _ in inner) else None


def _foreign(file: str) -> bool:
    return "-packages/" in file or "/lib/python3" in file or file.startswith("<")


def _is_below(part: Part, other: Part) -> bool:
    """Return whether a frame stands further down in the same function of the user's."""
    return part[:2] == other[:2] and _number(part) > _number(other) and not _foreign(part[1])


def _after(path: Path, step: Path) -> int:
    """Return the index of the frame by whose line a stack comes after a step of the optimizer, -1 if it does not."""
    for index, (mine, theirs) in enumerate(zip(path, step, strict=False)):
        if mine != theirs:
            return index if _is_below(mine, theirs) else -1
    return -1


def _count(found: dict[Part, _Line], loop: _Loop, key: _Key, count: int) -> None:
    places = [_after(key.path, step) for step in loop.steps]
    if key.kind or min(places) < 0:
        return
    place = max(places)
    line = found.setdefault(key.path[place], _Line(around=place < len(loop.callers)))
    line.total += count
    if key.torch > place:
        line.torch += count
    elif key.apart:
        line.apart[key.apart] = line.apart.get(key.apart, 0) + count


def _told(part: Part, line: _Line, total: int) -> Afterwork:
    function, file, number = part
    return Afterwork(
        where=f"{file.rpartition('/')[2]}:{number}",
        function=function,
        share=line.total / total,
        torch=line.torch / total,
        apart=sum(line.apart.values()) / total,
        library=max(line.apart, key=lambda name: line.apart[name], default=""),
        around=line.around,
    )
