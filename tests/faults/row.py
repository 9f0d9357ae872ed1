"""What a row of the fault suite is: a promise, and numbered cases that try to break it.

A row is a file in rows/. The first line of its docstring is the promise, and it declares

    TESTS    the tests that stood before it, which it does not repeat
    QUICK    cases of `make faults`          FULL     cases of `FAULTS=full make faults`
    SHARE    of these, cases that `make test` tries
    SECONDS  that one case may take before it is called hung, on a machine that does other things as well
    bench    a context manager: given an empty folder, what tries the case of a number

A case raises what it finds wrong; it may return a figure, of which the page shows the largest (`FIGURE` says what it
is). The number decides all of a case, so that `make faults ONLY=row CASE=n` repeats it. Each row runs in a process of
its own, which may die or hang: that is a failure of the case, and the next one begins in a new process.
"""

import importlib
import random
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
Case = Callable[[int], float | None]
Bench = Callable[[Path], AbstractContextManager[Case]]


class Broken(Exception):  # noqa: N818 - named for what happened to the promise
    """A promise was not kept."""


class NotHere(Exception):  # noqa: N818 - no error: the machine lacks what the row needs
    """The row cannot be tried on this machine, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table."""

    name: str
    promise: str
    tests: str
    quick: int
    full: int
    share: int
    seconds: float
    figure: str
    bench: Bench

    @property
    def file(self) -> str:
        """Return where it is, from the project's root."""
        return f"tests/faults/rows/{self.name}.py"

    def sample(self, seed: int = 0) -> list[int]:
        """Return the cases of `make test`: the same ones each time."""
        first = random.Random(f"{self.name} {seed}").randrange(self.quick - self.share + 1)
        return list(range(first, first + self.share))


def names() -> list[str]:
    """Return the rows that there are."""
    return sorted(file.stem for file in (HERE / "rows").glob("[!_]*.py"))


def row(name: str) -> Row:
    """Return the row of this name."""
    module = importlib.import_module(f"tests.faults.rows.{name}")
    return Row(
        name=name,
        promise=(module.__doc__ or "").partition("\n")[0].removesuffix("."),
        tests=module.TESTS,
        quick=module.QUICK,
        full=module.FULL,
        share=module.SHARE,
        seconds=module.SECONDS,
        figure=getattr(module, "FIGURE", ""),
        bench=module.bench,
    )


def must(holds: object, says: object) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(str(says))


def chance(name: str, case: int) -> random.Random:
    """Return the dice of a case: always the same."""
    return random.Random(f"{name} {case}")


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers in order as stretches without a hole, first and last."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
