"""How many copies fit: what one takes, what there is, and the arithmetic in words."""

import math
from dataclasses import dataclass

from gputune.core.figures import size

FULL = 0.97  # of the device's time: as many as it takes to fill it, and no more
SHARES = {"device memory": 0.95, "host memory": 0.9}  # of what is free, for a number of our own choosing: needs grow
CROWDED = 0.2  # of a process more than there are CPUs for: it costs less than a CPU that idles
MOST_PROCESSES = 16  # processes of our own choosing: beyond it, contexts and launches take what is gained
BARE = 8 << 20  # B that any process takes
UNLIMITED = 1 << 20  # processes: what nothing limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one copy takes: B of memory, its CUDA context included, cores, and a share of the device's time.

    None is not known.
    """

    device: float | None = None
    host: float | None = None
    cores: float | None = None
    busy: float | None = None
    given: bool = False  # the device memory was said, not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What there is for all copies together. Memory in B: free when none of them runs."""

    name: str = ""  # of the card
    device: float | None = None
    device_free: float | None = None
    host_free: float | None = None
    cores: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What one copy has shown: what it needs of what there is, and its pace alone (`rate` in `unit`, None: unseen)."""

    need: Need
    room: Room
    rate: float | None = None
    unit: str = ""


def limits(need: Need, room: Room) -> dict[str, float]:
    """Return how many copies each thing holds at the most. What was not measured limits nothing."""
    found: dict[str, float] = {}
    if need.device and room.device_free is not None:
        found["device memory"] = room.device_free / need.device
    if need.host and room.host_free is not None:
        found["host memory"] = room.host_free / need.host
    return found


def fits(need: Need, room: Room) -> int:
    """Return how many copies the memories hold; a large number where nothing limits them."""
    return int(min(limits(need, room).values(), default=UNLIMITED))


def refusal(procs: int, need: Need, room: Room) -> str:
    """Return why `procs` copies cannot fit, with the numbers; nothing where they can."""
    found = {name: most for name, most in limits(need, room).items() if most < procs}
    if not found:
        return ""
    if "device memory" in found:
        how = "as given" if need.given else "its CUDA context included"
        one, free, of = need.device or 0.0, room.device_free or 0.0, room.device or 0.0
        return (
            f"{procs} copies do not fit on {room.name}: one takes {size(one)} ({how}), {procs} take "
            f"{size(procs * one)}, and {size(free)} of its {size(of)} are free"
        )
    one, free = need.host or 0.0, room.host_free or 0.0
    return (
        f"{procs} copies do not fit into this machine's memory: one takes {size(one)}, {procs} take "
        f"{size(procs * one)}, and {size(free)} are free"
    )


def best(need: Need, room: Room) -> tuple[int, str]:
    """Return how many copies should do most together, and why not more: memory, device time, CPUs, MOST_PROCESSES.

    The bound of several at once is min(N, 1 / device share, memory, cores); beyond it they queue.
    """
    found = {name: SHARES[name] * most for name, most in limits(need, room).items()}
    if need.busy:
        found["device time"] = math.ceil(FULL / need.busy)
    if need.cores:
        found["CPUs"] = room.cores / need.cores + CROWDED
    first = min(found, key=lambda name: found[name], default="")
    if not first:
        return 1, ""
    if found[first] >= MOST_PROCESSES + 1:  # none of them is what keeps it from more
        return MOST_PROCESSES, f"at most {MOST_PROCESSES} are tried"
    return max(1, int(found[first])), f"{first} is the limit"
