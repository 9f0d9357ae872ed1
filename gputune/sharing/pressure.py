"""The guard: whether device or host memory is about to end while the tasks run, and what is to be done about it.

An allocator that has taken its part and stays there is no danger, however full the card is: only growth is.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gputune.core.figures import size
from gputune.sharing import host
from gputune.sharing.cards import SharedDevice
from gputune.sharing.spec import Guard

BACK = 10.0  # s over which growth is seen
CALM = 5.0  # s between two steps: what was ended gives its memory back meanwhile

Action = Literal["pause", "end", "resume"]


@dataclass(frozen=True, slots=True)
class Relief:
    """What is wrong, in words, and what to do about the newest task on `card`; None: on any of them."""

    says: str
    action: Action
    card: SharedDevice | None = None


class Strain:
    """One memory: what of it was in use of late."""

    def __init__(self, full: float, eased: float) -> None:
        self.is_eased = True
        self._full, self._low = full, eased
        self._past: deque[tuple[float, float]] = deque()
        self._calm_until = 0.0

    def ends(self, at: float, used: float, whole: float) -> bool:
        """Learn what is in use; return whether it is nearly all, and grows."""
        grown = _grown(self._past, at, used)
        self.is_eased = used < self._low * whole
        if at < self._calm_until or used <= self._full * whole or grown <= 0.005 * whole:  # of a memory, within BACK
            return False
        self._calm_until = at + CALM
        self._past.clear()
        return True


class MemoryPressure:
    """All memories. `memory` tells what the host has and what is left of it, in B."""

    def __init__(self, guard: Guard, memory: Callable[[], tuple[float, float]] = host.memory) -> None:
        self._guard = guard
        self._memory = memory
        self._look_at = self._calm_until = 0.0
        self._held = False  # somebody was paused for it
        # 0.96 of the host's memory
        # 0.85 of it, below which a paused task goes on
        self._host = Strain(0.96, 0.85)
        self._devices: dict[int, Strain] = {}

    def look(self, cards: Sequence[SharedDevice]) -> list[Relief]:
        """Return what is to be done now."""
        at = time.monotonic()
        if self._guard == "off" or at < self._look_at:
            return []
        self._look_at = at + 0.2  # s between looks: a card that is nearly full is read as often
        steps = [*self._on_cards(at, cards), *self._on_host(at)]
        if steps:
            self._calm_until = at + CALM
            self._held = self._held or self._guard == "pause"
        elif self._held and at >= self._calm_until and self._is_eased():
            self._calm_until = at + CALM
            return [Relief("", "resume")]
        return steps

    @property
    def _action(self) -> Action:
        return "end" if self._guard == "end" else "pause"

    def _is_eased(self) -> bool:
        return self._host.is_eased and all(strain.is_eased for strain in self._devices.values())

    def _on_cards(self, at: float, cards: Sequence[SharedDevice]) -> list[Relief]:
        found = []
        for card in cards:
            if card.used is None or not card.room:
                continue
            # 0.97 of what a card has for processes
            # 0.85 of the card's memory, below which a paused task goes on
            strain = self._devices.setdefault(card.device.index, Strain(0.97, 0.85))
            if strain.ends(at, card.used, card.room):
                says = f"{size(card.room - card.used)} of {size(card.room)} are left on {card.name}, and it grows"
                found.append(Relief(says, self._action, card))
        return found

    def _on_host(self, at: float) -> list[Relief]:
        total, left = self._memory()
        if not self._host.ends(at, total - left, total):
            return []
        says = f"{size(left)} of {size(total)} of the host's memory are left, and it shrinks"
        return [Relief(says, self._action)]


def _grown(past: "deque[tuple[float, float]]", at: float, value: float) -> float:
    """Return by how much a value has grown over the last BACK seconds."""
    past.append((at, value))
    while at - past[0][0] > BACK:
        past.popleft()
    return value - min(older for _, older in past)
