"""The part of the gatherer that tells which lines of a loop run after the optimizer's step, before the next batch.

Stacks do not say when in a step they were taken, but lines do. The loop's own frame is the innermost one that stacks in
next() and stacks in an optimizer's step have in common. What stands below the step's line comes after the step: in that
frame, in one between it and the step (one line may ask for the batch and call what makes the step), and in one that
calls it (a method may ask for its batch, and the loop lie around it), unless another loop is called from there.
Statements on one line cannot be told apart, and what a library's trainer calls is no line of the user's loop: then
nothing is told. Lines below the loop's end are told as well: how long a loop works there is measured by the guest's
records, not here.

Without a DataLoader there is no next(), and so no frame of which it is known that the loop lies in it. But what stands
below the line of every step, in a frame on the way to it, comes after it as well.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gputune.core.figures import MOSTLY
from gputune.features import MODEL, Afterwork, Interpreted
from gputune.gathering import sampled

Part: TypeAlias = tuple[str, str, str]  # function, file, line
Path: TypeAlias = tuple[Part, ...]

LINES = 20  # lines told
NEARLY = 0.9  # of the stacks that train: evaluations may be called elsewhere
TORCH = "/torch/"
NO_STEP = ("lr_scheduler.py", "swa_utils.py")  # of torch/optim: what follows an optimizer's step
# What no work on the weights goes through: a moving average of them is a line like any other, but for this.
APART = re.compile(
    r"/lib/python3[.\d]*/(json|csv|pickle|statistics|subprocess|selectors|re|random|sqlite3|gzip|zipfile|decimal|"
    r"fractions|difflib|heapq|bisect|pprint|textwrap|shutil|glob|pathlib|traceback)(\.py|/)"
    r"|-packages/(numpy|scipy|sklearn|pandas|PIL|cv2|skimage|matplotlib|seaborn|plotly|networkx|nltk|sacrebleu|"
    r"rouge_score|psutil|yaml)/"
)
WRAPPED = "profile_hook_step"  # torch's, around the step of every optimizer, also of one that is not torch's
CALLS = ("_call_impl", "backward", "_engine_run_backward", "grad")  # of torch: through a model, or back through it
COPY = re.compile(r"/lib/python3[.\d]*/(copy)\.py")  # of a model as it is now: torch lies under it, and changes nothing


class _Key(NamedTuple):
    """What one stack has to tell: the frames down to the user's innermost, and what lies around and below them."""

    path: Path
    kind: str  # "next", "step", "span" or ""
    torch: int  # index of the innermost frame of torch, -1 for none
    model: int  # index of the innermost frame that goes through a model, -1 for none
    apart: str  # name of a library below the path that does not touch weights

    @property
    def plain(self) -> bool:
        """Return whether it is the user's own work, neither in a model nor in torch's functions."""
        return self.kind == "" and self.model < 0 and self.torch < len(self.path)


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
        beside = self.beside(path)
        return beside if beside and _is_below(beside[-1], self.callers[len(beside) - 1]) else ()

    def beside(self, path: Path) -> Path:
        """Return a stack down to where it is at another line of a function that calls this loop; else nothing."""
        for index, (mine, theirs) in enumerate(zip(path, self.callers, strict=False)):
            if mine != theirs:
                return path[: index + 1] if mine[:2] == theirs[:2] and not foreign(mine[1]) else ()
        return ()

    def outside(self, path: Path) -> Path:
        """Return a stack down to the line at which it lies between two passes of this loop; else nothing.

        That is beside the loop's call, above the loop, or under the very line that asks for batches, which makes what
        it goes through first.
        """
        depth = len(self.callers)
        if not self.at(path):
            return self.beside(path)
        line = number(path[depth])
        return path[: depth + 1] if line < self.header or (line == self.header and len(path) > depth + 1) else ()


@dataclass(slots=True)
class _Line:
    around: bool  # in a function that calls the loop's
    total: int = 0
    torch: int = 0
    model: int = 0
    apart: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)


class Behind(NamedTuple):
    """What the stacks of a loop show after the optimizer's step: lines by their share, and of how many stacks.

    Stacks inside of next() and of spans are left out. `stepping` and `plain` as in `features.Process`.
    """

    lines: tuple[Afterwork, ...] = ()
    stacks: int = 0
    stepping: float = 0.0
    plain: tuple[float, float] = (0.0, 0.0)
    outside: tuple[Interpreted, ...] = ()
    librarys: bool = False


class Paths:
    """The stacks of one process by the user's frames in them."""

    def __init__(self) -> None:
        self._counts: dict[_Key, int] = {}

    def add(self, parts: list[Part], count: int, *, kind: str, user: int) -> None:
        """Take a stack of a kind; `user` is the index of the user's innermost frame in it."""
        below = parts[user + 1 :]
        copies = any(COPY.search(file) for _, file, _ in below)
        key = _Key(
            path=tuple(parts[: user + 1]),
            kind=kind,
            torch=-1 if copies else last_of_torch(parts),
            model=-1 if copies else _through(parts),
            apart="copy" if copies else _apart(below),
        )
        if key in self._counts or len(self._counts) < 2000:  # different paths kept
            self._counts[key] = self._counts.get(key, 0) + count

    def lines(self, *, loaderless: bool = False) -> Behind:
        """Return what the stacks in the loop's function show; `loaderless` if no batches are asked for."""
        loop = self._loop()
        if loop is None:
            return self._below_steps() if loaderless else Behind(librarys=self.librarys)
        total = stepping = 0
        found = dict[Part, _Line]()
        below = all(loop.header <= number(step[len(loop.callers)]) for step in loop.steps)
        elsewhere = {loop.around(key.path) for key in self._counts if key.kind in ("next", "step")}
        for key, count in self._counts.items():
            if key.kind in ("next", "span"):
                continue
            around = loop.around(key.path)
            if around and around not in elsewhere:
                _count(found, loop, key, count)
            if not loop.at(key.path):
                continue
            line = number(key.path[len(loop.callers)])
            if below and line < loop.header:  # before the loop
                continue
            total += count
            stepping += count if key.kind == "step" else 0
            if below or line < loop.header:
                _count(found, loop, key, count)
        return _behind(found, total, stepping)._replace(outside=self._outside(loop, below=below))

    def _outside(self, loop: _Loop, *, below: bool) -> tuple[Interpreted, ...]:
        """Return the lines at which stacks lie between two passes, where no other loop does."""
        found, models = Counter[tuple[Part, str]](), Counter[tuple[Part, str]]()
        others = {loop.beside(key.path) for key in self._counts if key.kind in ("next", "step")}
        for key, count in self._counts.items():
            path = loop.outside(key.path) if key.kind == "" else ()
            if not path or path in others or (loop.at(key.path) and not below):
                continue
            calls = next((function for function, file, _ in key.path[len(path) :] if not foreign(file)), "")
            found[path[-1], calls] += count
            models[path[-1], calls] += count if key.model >= 0 else 0
        total = sum(found.values())
        return tuple(
            Interpreted(
                where=place_of(line[0]),
                function=line[0][0],
                share=count / total,
                calls=line[1],
                # most of the stacks at a line that go through a model: then it is the model's
                side=MODEL if models[line] >= MOSTLY * count else "",
            )
            for line, count in found.most_common(LINES)
        )

    @property
    def librarys(self) -> bool:
        """Return whether a library runs the loop: what asks for batches and what trains part in none of the user's."""
        nexts = {key.path for key in self._counts if key.kind == "next"}
        counts = {key: n for key, n in self._counts.items() if key.kind == "step" or (not key.kind and key.model >= 0)}
        below = sum(n for key, n in counts.items() if any(_is_called_below(key.path, other) for other in nexts))
        return bool(nexts) and below >= NEARLY * sum(counts.values()) > 0

    def _below_steps(self) -> Behind:
        """Return what the stacks show below the lines of all steps, wherever the loop is.

        A step that is too short for any stack comes after the model, whose lines stand for it.
        """
        steps = [key.path for key in self._counts if key.kind == "step"]
        passes = [key.path for key in self._counts if key.kind == "" and key.model >= 0]
        if not steps and not passes:
            return Behind()
        loop = _Loop((), "", "", 0, tuple(steps or passes))
        found = dict[Part, _Line]()
        sums = {"": 0, "step": 0}
        ahead = behind = 0
        for key, count in self._counts.items():
            if key.kind in sums:
                sums[key.kind] += count
                after = _count(found, loop, key, count)
                behind += count if key.plain and after else 0
                ahead += count if key.plain and not after else 0
        total = sum(sums.values())
        return _behind(found, total, sums["step"])._replace(plain=(behind / total, ahead / total))

    def _loop(self) -> _Loop | None:
        """Return the loop whose frame lies innermost; of equal ones that with most stacks in its steps.

        The model's lines stand for steps that are too short for any stack, where only one loop goes through a model.
        """
        nexts = [key.path for key in self._counts if key.kind == "next"]
        steps = {key.path: count for key, count in self._counts.items() if key.kind == "step"}
        short = not steps
        if short:
            steps = {key.path: count for key, count in self._counts.items() if key.kind == "" and key.model >= 0}
        weights: dict[tuple[Path, str, str], int] = {}
        for path, count in steps.items():
            for other in nexts:
                depth = _fork(path, other)
                if depth is not None:
                    place = (path[:depth], *path[depth][:2])
                    weights[place] = weights.get(place, 0) + count
        if not weights or (short and len(weights) > 1):
            return None
        callers, function, file = max(weights, key=lambda place: (len(place[0]), weights[place]))
        bare = _Loop(callers, function, file, 0, ())
        headers = [number(path[len(callers)]) for path in nexts if bare.at(path)]
        return bare._replace(header=min(headers), steps=tuple(path for path in steps if bare.at(path)))


def kind_of(parts: list[Part], word: str) -> str:
    """Return `step` for a stack in an optimizer's step, else `next`, another `span`, or "" for none of them."""
    if word != "next" and any(_steps(function, file) for function, file, _ in parts):
        return "step"
    return word or ("" if sampled.word(parts) == "step" else "span")


def _steps(function: str, file: str) -> bool:
    if "torch/optim/" not in file or file.endswith(NO_STEP):
        return False
    return function.rpartition(".")[2] == "step" or WRAPPED in function


def last_of_torch(parts: Sequence[Part]) -> int:
    """Return the index of the innermost frame of torch, -1 for none."""
    return max((index for index, (_, file, _) in enumerate(parts) if TORCH in file), default=-1)


def _through(parts: list[Part]) -> int:
    found = (i for i, (function, file, _) in enumerate(parts) if TORCH in file and _goes(function))
    return max(found, default=-1)


def _goes(function: str) -> bool:
    return function.rpartition(".")[2] in CALLS


def _apart(parts: list[Part]) -> str:
    found = (APART.search(file) for _, file, _ in parts)
    return next((match[1] or match[3] for match in found if match), "")


def number(part: Part) -> int:
    """Return the number of a frame's line."""
    return int(part[2] or 0)


def _fork(path: Path, other: Path) -> int | None:
    """Return the index of the frame in which a step and a next() go different ways, or one line of which does both.

    None if that is not one function of the user's.
    """
    for index, (mine, theirs) in enumerate(zip(path, other, strict=False)):
        if mine != theirs:
            ours = mine[:2] == theirs[:2] and mine[2] and theirs[2] and not foreign(mine[1])
            return index if ours else None
    inner = path[len(other) - 1 : len(other) + 1] if other else ()
    return len(other) - 1 if len(inner) > 1 and not any(foreign(file) for _, file, _ in inner) else None


def place_of(part: Part) -> str:
    """Return a frame's place, as it is said: `train.py:12`."""
    return f"{part[1].rpartition('/')[2]}:{part[2]}"


def foreign(file: str) -> bool:
    """Return whether a file is none of the user's own."""
    return "-packages/" in file or "/lib/python3" in file or file.startswith("<")


def _is_called_below(path: Path, other: Path) -> bool:
    """Return whether a stack goes on from another one's innermost line by way of a library, or ends there."""
    depth = len(other)
    return depth > 0 and path[:depth] == other and (len(path) == depth or foreign(path[depth][1]))


def _is_below(part: Part, other: Part) -> bool:
    """Return whether a frame stands further down in the same function of the user's."""
    return part[:2] == other[:2] and number(part) > number(other) and not foreign(part[1])


def _after(path: Path, step: Path) -> int:
    """Return the index of the frame by whose line a stack comes after a step of the optimizer, -1 if it does not."""
    for index, (mine, theirs) in enumerate(zip(path, step, strict=False)):
        if mine != theirs:
            return index if _is_below(mine, theirs) else -1
    return -1


def _count(found: dict[Part, _Line], loop: _Loop, key: _Key, count: int) -> bool:
    """Count stacks with the line by which they come after all steps, and return whether they do."""
    places = [_after(key.path, step) for step in loop.steps]
    if key.kind or min(places) < 0:
        return False
    place = max(places)
    line = found.setdefault(key.path[place], _Line(around=place < len(loop.callers)))
    line.total += count
    if key.torch > place:
        line.torch += count
        line.model += count if key.model > place else 0
    elif key.apart:
        line.apart[key.apart] = line.apart.get(key.apart, 0) + count
    called = next((function for function, file, _ in key.path[place + 1 :] if not foreign(file)), "")
    line.calls[called] = line.calls.get(called, 0) + count
    return True


def _behind(found: dict[Part, _Line], total: int, stepping: int) -> Behind:
    if not total:
        return Behind()
    ordered = sorted(found.items(), key=lambda item: -item[1].total)[:LINES]
    return Behind(tuple(_told(part, line, total) for part, line in ordered), total, stepping / total)


def _told(part: Part, line: _Line, total: int) -> Afterwork:
    return Afterwork(
        where=place_of(part),
        function=part[0],
        share=line.total / total,
        torch=line.torch / total,
        apart=sum(line.apart.values()) / total,
        model=line.model / total,
        library=max(line.apart, key=lambda name: line.apart[name], default=""),
        calls=max(line.calls, key=lambda name: line.calls[name], default=""),
        around=line.around,
    )
