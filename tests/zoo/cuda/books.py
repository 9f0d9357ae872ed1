"""What gputune says of a device in a run of the CUDA zoo, held against what the simulated card booked of the same loop.

The books know each kernel, copy and collective; kit_cuda.py leaves them where the script's clock stops. The device's
ledger has to say the same, and of the synchronizations that the process asked for none may be the guest's.
"""

from collections.abc import Mapping

POINTS = 0.02  # bar: of the loop, by which a part of the ledger may differ from the books
PARTS = ("compute", "copies", "communication", "gaps")  # of the ledger; gaps are of whatever kind it tells
Books = Mapping[str, float]


def shares(each: list[Books]) -> dict[str, float]:
    """Return the parts of the loop by the books of all ranks together, named as the ledger names them."""
    whole = sum(books["until"] for books in each)

    def share(name: str) -> float:
        return sum(books[name] for books in each) / whole

    parts = [share("kernel") - share("spun"), share("exposed_copy"), share("exposed_collective")]
    return dict(zip(PARTS, [*parts, 1 - sum(parts)], strict=True))


def told(verdict: Mapping) -> dict[str, float]:
    """Return the device's ledger of a verdict by the same names."""
    found = {row["part"]: row["share"] for row in verdict["device_ledger"]}
    parts = [found.get(part, 0.0) for part in PARTS[:-1]]
    return dict(zip(PARTS, [*parts, sum(found.values()) - sum(parts)], strict=True))


def off(verdict: Mapping, each: list[Books]) -> tuple[float, str]:
    """Return by how much the ledger is off in the part that is furthest from the books, and its name."""
    ledger, booked = told(verdict), shares(each)
    return max(((ledger[part] - booked[part], part) for part in booked), key=lambda found: abs(found[0]))


def waits(each: list[Books]) -> float:
    """Return how many synchronizations a batch had, in the mean."""
    return sum(books["waits"] for books in each) / max(1, sum(books["batches"] for books in each))
