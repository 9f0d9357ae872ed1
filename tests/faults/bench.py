"""Tries cases of one row in a process of its own: `python -m tests.faults.bench ROW FOLDER`.

Reads numbers of cases, a line each, and answers each with a line of JSON: `{"case": 7, "why": "", "figure": null}`,
and `cpu`, the s of CPU that it took. What a case prints goes to stderr.
"""

import contextlib
import json
import os
import resource
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import Broken, Case, NotHere, row


@contextlib.contextmanager
def made(name: str, folder: Path) -> Iterator[Case]:
    """Make the bench of a row; where that is not possible here, say so and leave."""
    with contextlib.ExitStack() as stack:
        try:
            case = stack.enter_context(row(name).bench(folder))
        except NotHere as error:
            answer({"not_here": str(error)})
            raise SystemExit from None
        yield case


def tried(case: Case, number: int) -> dict[str, object]:
    """Return what came of one case."""
    try:
        return {"case": number, "why": "", "figure": case(number)}
    except Broken as error:
        return {"case": number, "why": str(error)[:2000]}
    except Exception as error:  # noqa: BLE001 - whatever it is, the promise was not kept
        traceback.print_exc()
        return {"case": number, "why": f"{type(error).__name__}: {error}"[:2000]}


def cpu() -> float:
    """Return the s of CPU of this process and of all that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def answer(line: dict[str, object]) -> None:
    os.write(ANSWERS, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    ANSWERS = os.dup(1)
    os.dup2(2, 1)
    with made(sys.argv[1], Path(sys.argv[2])) as case:
        answer({"ready": True})
        for line in sys.stdin:
            before = cpu()
            found = tried(case, int(line))
            answer({**found, "cpu": cpu() - before})
