"""What each process of a packed run asks of a cluster, from what one was seen to need: the arithmetic, in numbers.

Ray's fractions are an account and no fence: a task with 0.33 of a GPU may take all of it. So they come from what one
really takes, and are made so that the account is full when the card is.
"""

import math
from dataclasses import dataclass

from gputune.core.figures import size
from gputune.sharing.fitting import FULL, MOST_PROCESSES, SHARES, Need, Probed, Room, limits

STEP = 1e4  # parts of a resource that Ray tells apart
LEAST_CPU = 0.1  # that a process asks for at the least: one that nobody counts still runs somewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What a cluster has in all: GPUs and CPUs, and the B of memory that it lends; and (CPUs, GPUs) of each node."""

    gpus: float = 0.0
    cpus: float = 1.0
    memory: float = 0.0
    nodes: tuple[tuple[float, float], ...] = ()

    def places(self, cpus: float, on_each: int) -> int:
        """Return how many processes find so many CPUs, and a place on a card where each card has `on_each`."""
        found = 0
        for has, cards in self.nodes or ((self.cpus, self.gpus),):
            by_cpus = int(has / cpus + 1 / STEP)
            found += min(by_cpus, int(cards) * on_each) if on_each else by_cpus
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What one process asks for, and how many may run at once. `memory` in B, None where it is not known."""

    gpu: float
    cpus: float
    memory: int | None
    at_once: int

    def bundle(self) -> dict[str, float]:
        """Return it as Ray names it."""
        found = {"CPU": self.cpus}
        if self.gpu:
            found["GPU"] = self.gpu
        if self.memory:
            found["memory"] = float(self.memory)
        return found

    def words(self) -> str:
        """Return it for people."""
        parts = [f"{self.gpu:g} of a GPU"] if self.gpu else []
        parts.append(f"{self.cpus:g} {'CPU' if self.cpus == 1 else 'CPUs'}")
        return ", ".join([*parts, *([size(self.memory)] if self.memory else [])])


def per_card(need: Need, room: Room) -> tuple[int, str]:
    """Return how many fit on one card by memory, and by its time where that was seen; and why not more."""
    found = {name: SHARES[name] * most for name, most in limits(need, room).items() if name == "device memory"}
    if need.given and "device memory" in found:  # what was said is taken as it was said
        found["device memory"] /= SHARES["device memory"]
    if need.busy:
        found["device time"] = float(math.ceil(FULL / need.busy))
    first = min(found, key=lambda name: found[name], default="")
    if not first:
        return 1, ""
    return _at_most(found[first], f"{first} is the limit", f"at most {MOST_PROCESSES} share a GPU")


def _at_most(found: float, why: str, else_why: str) -> tuple[int, str]:
    """Return so many, MOST_PROCESSES at the most, and why: `else_why` where nothing else keeps it from more."""
    return (MOST_PROCESSES, else_why) if found >= MOST_PROCESSES + 1 else (max(1, int(found)), why)


def best(probed: Probed, whole: Whole) -> tuple[int, str]:
    """Return how many at once should do most in the whole cluster, and why not more."""
    cards = int(whole.gpus)
    if not cards:
        return _at_most(
            whole.cpus / (probed.need.cores or 1.0), "CPUs is the limit", f"at most {MOST_PROCESSES} share its CPUs"
        )
    most, why = per_card(probed.need, probed.room)
    return cards * most, ", ".join(filter(None, (why, f"{most} on each GPU")))


def ask(probed: Probed, whole: Whole, procs: int, *, at_once: int = 0) -> Portion:
    """Return what each of `procs` processes asks for. `procs` 0: as many as do most; `at_once` 0: all of them.

    They are spread over the cards: none holds more than it needs to.
    """
    cards, need = int(whole.gpus), probed.need
    together = at_once or procs or best(probed, whole)[0]
    if procs:
        together = min(together, procs)
    together = max(1, together)
    on_each = math.ceil(together / cards) if cards else 0
    cpus = min(max(LEAST_CPU, math.ceil(2 * (need.cores or 1.0)) / 2), whole.cpus / together)
    while whole.places(cpus, on_each) < together and cpus > LEAST_CPU / 10:  # nodes cannot be joined
        cpus *= 0.95  # times: steps by which less is asked for
    return Portion(
        gpu=_down(1 / on_each) if on_each else 0.0,
        cpus=_down(cpus),
        memory=int(need.host) if need.host and whole.memory else None,
        at_once=together,
    )


def _down(part: float) -> float:
    return math.floor(part * STEP) / STEP


def refusal(probed: Probed, whole: Whole, procs: int) -> str:
    """Return why so many at once do not fit into the cluster, with the numbers; nothing where they do."""
    need, room, cards = probed.need, probed.room, int(whole.gpus)
    if cards and need.device and room.device_free is not None:
        fit = int(room.device_free / need.device)
        if cards * fit < procs:
            how = "as given" if need.given else "its CUDA context included"
            return (
                f"{procs} copies do not fit on the {cards} {'GPU' if cards == 1 else 'GPUs'} of the cluster: one takes "
                f"{size(need.device)} ({how}), and {size(room.device_free)} of {size(room.device or 0.0)} are free on "
                f"{room.name}: {fit} on each"
            )
    if need.host and whole.memory and procs * need.host > whole.memory:
        return (
            f"{procs} copies do not fit into the memory of the cluster: one takes {size(need.host)}, {procs} take "
            f"{size(procs * need.host)}, and it lends {size(whole.memory)}"
        )
    return ""
