"""What a device's memory ran out of: what of it would have been enough, had it not been lost."""

from gputune.features import Features, OutOfMemory
from gputune.model.headroom import NOTABLE
from gputune.verdict.document import OutOfMemoryRow, alike

LARGE = 0.05  # of what is reserved: each size of block has a segment that is not full, and that is no fragmentation


def ran_out(run: Features) -> list[OutOfMemoryRow]:
    """Return the last time of each process, those first that ended the run, then those that came first."""
    names = {device.index: device.name for device in run.devices}
    rows = [_row(found, names.get(found.index, ""), run) for found in run.out_of_memory]
    return sorted(rows, key=lambda row: not row.ended)


def ended(run: Features, found: OutOfMemory) -> bool:
    """Return whether it ended the run, as far as can be told: the command failed, and that process trained no more."""
    return bool(run.exit_code) and not found.went_on


def fragmented(found: OutOfMemory) -> bool:
    """Return whether what was asked for lay there in pieces, which segments that can grow do not leave.

    Not where live memory grows: it would have taken the pieces as well, a few steps later.
    """
    unused = found.reserved - found.live
    large = unused >= max(found.asked, LARGE * found.reserved)
    return large and found.lacking > 0 and not found.expandable and growth(found) is None


def growth(found: OutOfMemory) -> float | None:
    """Return the B a step by which live memory had surely grown, None unless what it grew is what lacked."""
    trend = found.growth
    if trend is None or not found.lacking or trend.low * trend.seconds < NOTABLE:
        return None
    return trend.rate if trend.last - trend.first >= found.lacking else None


def _row(found: OutOfMemory, name: str, run: Features) -> OutOfMemoryRow:
    sizes = {f"{name}_bytes": getattr(found, name) for name in ("asked", "live", "reserved", "free", "total", "others")}
    return alike(
        OutOfMemoryRow,
        found,
        name=name,
        ended=ended(run, found),
        fragmented=fragmented(found),
        capped=not found.lacking,
        growth_bytes_per_step=growth(found),
        **sizes,
    )
