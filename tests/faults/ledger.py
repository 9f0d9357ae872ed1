"""What was tried and what failed, kept in a file a row, so that a full run goes on where it was stopped."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.trying import Result


@dataclass(slots=True)
class Told:
    """What is known of a row: cases tried, those that failed and why, and the largest of its figures."""

    count: int = 0
    next: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    figure: float | None = None
    not_here: str = ""


class Ledger:
    """The results of one kind of run, a line each stretch of cases."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def forget(self, name: str) -> None:
        """Begin a row anew."""
        self._file(name).unlink(missing_ok=True)

    def put(self, name: str, results: list[Result], not_here: str = "") -> None:
        """Append what came of some cases, at once and whole."""
        figures = [one.figure for one in results if one.figure is not None]
        line = {
            "first": min((one.case for one in results), default=0),
            "last": max((one.case for one in results), default=-1),
            "count": len(results),
            "failed": {one.case: one.why for one in results if one.why},
            "figure": max(figures, default=None),
            "not_here": not_here,
        }
        with self._file(name).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def mend(self, name: str, case: int) -> None:
        """Put down that a case which failed was tried again, by its number, and did not."""
        with self._file(name).open("a") as file:
            line = {"first": 0, "last": -1, "count": 0, "failed": {}, "figure": None, "not_here": "", "mended": case}
            file.write(json.dumps(line) + "\n")

    def told(self, name: str) -> Told:
        """Return what is known of a row."""
        told = Told()
        if not self._file(name).exists():
            return told
        for text in self._file(name).read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # stopped in the middle of a line
                continue
            told.count += line["count"]
            told.next = max(told.next, line["last"] + 1)
            told.failed |= {int(case): why for case, why in line["failed"].items()}
            told.failed.pop(line.get("mended"), None)
            told.figure = max((f for f in (told.figure, line["figure"]) if f is not None), default=None)
            told.not_here = line["not_here"]
        return told

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"
