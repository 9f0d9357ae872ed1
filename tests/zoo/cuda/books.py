"""What gputune says of a device in a run of the CUDA zoo, held against what the simulated card booked of the same loop.

The books know each kernel, copy and collective; kit_cuda.py leaves them where the script's clock stops. The device's
ledger has to say the same, and of the synchronizations that the process asked for none may be the guest's.
"""

from collections.abc import Mapping

POINTS = 0.02  # bar: of the loop, by which a part of the ledger may differ from the books
MIXED = ("paused", "unknown")
Books = Mapping[str, float]


def shares(each: list[Books]) -> dict[str, float]:
    """Return the parts of the loop by the books of all ranks together, named as the ledger names them."""
    whole = sum(books["until"] for books in each)

    def share(name: str) -> float:
        return sum(books[name] for books in each) / whole

    known = {
        "compute": share("kernel") - share("spun"),
        "copies": share("exposed_copy"),
        "communication": share("exposed_collective"),
    }
    return known | {"gaps": 1 - sum(known.values())}


def off(verdict: Mapping, each: list[Books], *, pageable: bool = False) -> dict[str, float]:
    """Return by how much each part of the device's ledger is off, as far as it says: nothing where there is none.

    Gaps are those of whatever kind. Where a ledger has parts in which it tells no kernels from gaps, as in a pause,
    these are off by what the books have too much for them, or too little. Of a `pageable` copy the books have the link
    alone, while a host that fills the driver's buffer is copying as well: such copies and gaps are held together.
    """
    found, booked = {row["part"]: row["share"] for row in verdict["device_ledger"]}, shares(each)
    if not found:
        return {}
    mixed = sum(found.get(part, 0.0) for part in MIXED)
    parts = {part: found.get(part, 0.0) for part in booked if part != "gaps"}
    parts["gaps"] = sum(found.values()) - sum(parts.values()) - mixed
    apart = {part: share - booked[part] for part, share in parts.items()}
    if pageable:
        apart["gaps"] += apart.pop("copies")
    return apart if not mixed else {part: max(0.0, more) + min(0.0, more + mixed) for part, more in apart.items()}


def waits(each: list[Books]) -> float:
    """Return how many synchronizations a batch had, in the mean."""
    return sum(books["waits"] for books in each) / max(1, sum(books["batches"] for books in each))
