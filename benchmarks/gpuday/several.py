"""Part 7, several cards: who is named where a rank of DDP over NCCL is late, and what the others are said to wait."""

import re
from collections.abc import Iterator
from typing import Any

from gpuday.check import Check, Failed, Step, held, truth
from gpuday.day import HERE, Day, last_json

LATE_S = 0.02
MOST_RANKS = 4
BAR = 15.0  # %: of the wait that is told
NAMES = ("the rank that is late", "wait of the others for it, error")


def launched(day: Day, ranks: int, late: float) -> list[str]:
    """Return the command of so many ranks, of which the last one is `late` s late at each step."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [day.python, *launcher, str(HERE / "ranks.py"), "--late", str(late)]


def ranks(day: Day) -> Iterator[Check]:
    """Train with and without a late rank."""
    import torch  # noqa: PLC0415 - as in every part that asks the device itself

    cards = torch.cuda.device_count()
    if cards < 2:
        raise Failed("there is one card")
    if not torch.distributed.is_nccl_available():
        raise Failed("this torch has no NCCL")
    number = min(MOST_RANKS, cards)
    quick = last_json(day.run(launched(day, number, 0.0), GPU_DAY_SECONDS="5"))
    seconds = str(max(12.0, day.box.left() - 15))
    verdict, _, printed = day.watched("ranks-late", launched(day, number, LATE_S), GPU_DAY_SECONDS=seconds)
    true = last_json(printed)["step_s"] - quick["step_s"]
    late = [finding for finding in verdict["findings"] if finding["id"] == "straggling-rank"]
    right = bool(late) and named_rank(late[0]) == number - 1
    others = ", ".join(finding["id"] for finding in verdict["findings"]) or "nothing"
    yield truth(
        NAMES[0], late[0]["says"] if late else f"not told (found: {others})", f"it is {number - 1}", right=right
    )
    waits = [row["apart_s"] for row in verdict["processes"] if row["rank"] != number - 1 and row["apart_s"]]
    if not waits:
        raise Failed("gputune tells of no wait for other ranks")
    said = sum(waits) / len(waits)
    note = f"told {1e3 * said:.2f} ms a step, in truth {1e3 * true:.2f} ms more than without the lateness"
    yield held(NAMES[1], "%", 100 * (said / true - 1), BAR, note)


def named_rank(finding: dict[str, Any]) -> int | None:
    """Return the rank that a finding names."""
    met = re.search(r"rank (\d+)", f"{finding['where']} {finding['says']}")
    return int(met[1]) if met else None


STEPS = (Step(NAMES, 30, ranks),)
