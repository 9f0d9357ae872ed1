"""A device that failed, or that a training did not use, in one sentence each."""

from collections.abc import Sequence

from gputune.core.hygiene import clean
from gputune.verdict.document import FailureRow, UnusedRow

NAME, TEXT = 60, 120  # characters of a place, and of a message


def failure(rows: Sequence[FailureRow]) -> str:
    """Return what became of the first process's device, and of how many others; nothing where none failed."""
    if not rows:
        return ""
    row = rows[0]
    gpu = f"GPU {clean(row.gpu, NAME)}" if row.gpu else "CUDA"
    verb = "was lost" if row.lost and row.gpu else "failed"
    xids = f" (Xid {', '.join(map(str, row.xids))})" if row.xids else ""
    where = f" at {clean(row.where, NAME)}" if row.where else ""
    rank = f" on rank {row.rank}" if row.rank is not None else ""
    more = f", and {len(rows) - 1} more process{'es' if len(rows) > 2 else ''} failed" if rows[1:] else ""
    went = "" if row.ended else "; it is not what ended the script"
    return f"{gpu} {verb}{xids}{where}{rank}{more}: {clean(row.what, TEXT)}{went}"


def unused(rows: Sequence[UnusedRow]) -> str:
    """Return why a training ran without CUDA; nothing where none did."""
    if not rows:
        return ""
    row = rows[0]
    who = f"process {row.pid}" if row.reason == "forked" else "the training"
    visible = "is empty" if not row.visible else f"is {clean(row.visible, NAME)}"
    why = {
        "forked": "it was forked from a process that had used CUDA (start it with spawn)",
        "hidden": f"CUDA_VISIBLE_DEVICES {visible}",
        "driver": f"the driver (CUDA {row.driver}) is too old for this torch (CUDA {clean(row.built, NAME)})",
        "script": "the script asked for no device, though its torch is built for one",
    }[row.reason]
    more = f"; so did {len(rows) - 1} more" if rows[1:] else ""
    return f"{who} did not use CUDA: {why}{more}"
