"""A device whose memory ran out, in one sentence: where, what was asked for, who held the rest, and what had grown."""

from collections.abc import Sequence

from gputune.core.hygiene import PHRASE, clean
from gputune.verdict.document import OutOfMemoryRow

GIB, MIB = 2**30, 2**20
# the older of its two names: the newer one is read by no torch before 2.9, and was without effect in some later ones
EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def sentence(rows: Sequence[OutOfMemoryRow]) -> str:
    """Return it of the first process, and how many others had the same; nothing where memory never ran out."""
    if not rows:
        return ""
    row = rows[0]
    more = sum(each.ended == row.ended for each in rows) - 1
    others = f", and in {more} more process{'es' if more > 1 else ''}" if more else ""
    return f"out of memory on GPU {clean(row.gpu, PHRASE)}{_where(row)}{others} ({_held(row)}){_why(row)}{_after(row)}"


def _where(row: OutOfMemoryRow) -> str:
    where = f" at {clean(row.where, PHRASE)}" if row.where else ""
    rank = f" on rank {row.rank}" if row.rank is not None else ""
    return f"{where}{rank}{f', {row.times} times' if row.times > 1 else ''}"


def _held(row: OutOfMemoryRow) -> str:
    """Return what was asked for and who held what, in the units of torch's own message."""
    unused = row.reserved_bytes - row.live_bytes
    total = f" of {size(row.total_bytes)}" if row.total_bytes else ""
    # 2**28 B that is reserved and unused, from which on it is worth a word where it was not the reason
    told = f", {size(unused)} of it reserved but unused" if unused >= 2**28 or row.fragmented else ""
    asked = f"tried to allocate {size(row.asked_bytes)} where {size(row.free_bytes)} were free"
    return f"{asked}; {size(row.reserved_bytes)}{total} held by this process{told}"


def _why(row: OutOfMemoryRow) -> str:
    """Return what took the memory that lacked, as far as it is known."""
    lacking = row.asked_bytes - row.free_bytes
    said = []
    if row.growth_bytes_per_step is not None:
        said.append(f"it grew by {size(row.growth_bytes_per_step)} a step before")
    if row.fragmented:
        said.append(f"in one piece it would have been enough: set {EXPANDABLE}")
    if row.capped:
        said.append("the device had more, but this process may not have it (set_per_process_memory_fraction)")
    elif row.others_bytes and row.others_bytes >= lacking:
        count = row.others_count or 1
        who = "one process of others" if count == 1 else f"{count} processes of others"
        said.append(f"{who} held {size(row.others_bytes)}")
    return "".join(f"; {each}" for each in said)


def _after(row: OutOfMemoryRow) -> str:
    if row.ended:
        return ""
    return "; the script caught it and trained on" if row.went_on else "; the script caught it"


def size(count: float) -> str:
    """Return bytes as torch says them: `2.00 GiB`, `512.00 MiB`; below 1 MiB in KiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}" if count >= 10 * unit else f"{count / unit:.2f} {name}"
    return f"{count / 1024:.0f} KiB"
