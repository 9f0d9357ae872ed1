"""The guard: whether device or host memory is about to end while the tasks run, and what is to be done about it.

An allocator that has taken its part and stays there is no danger, however full the card is: only growth is.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from gputune.figures import size
from gputune.sharing import host
from gputune.sharing.cards import Card
from gputune.sharing.spec import Guard

LOOK = 0.5  # s between looks
BACK = 10.0  # s over which growth is seen
DEVICE_FULL = 0.97  # of what a card has for processes
DEVICE_GROWS = 0.005  # of it, within BACK
HOST_LEFT = 0.04  # of the host's memory
HOST_GROWS = 0.005  # of it, within BACK
EASED = 0.85  # of the card's memory, below which a paused task goes on
HOST_EASED = 0.15  # of the host's memory that is left then
CALM = 5.0  # s between two steps: what was ended gives its memory back meanwhile

Action = Literal["pause", "end", "resume"]


class Pressure:
    """What was in use of late. `memory` tells what the host has and what is left of it, in B."""

    def __init__(self, guard: Guard, memory: Callable[[], tuple[float, float]] = host.memory) -> None:
        self._guard = guard
        self._memory = memory
        self._look_at = self._calm_until = 0.0
        self._held = False  # somebody was paused for it
        self._device: deque[tuple[float, float]] = deque()
        self._host: deque[tuple[float, float]] = deque()

    def look(self, card: Card | None) -> tuple[str, Action | None]:
        """Return what is wrong, in words, and what to do about the newest task."""
        at = time.monotonic()
        if self._guard == "off" or at < self._look_at:
            return "", None
        self._look_at = at + LOOK
        total, left = self._memory()
        host_grown = _grown(self._host, at, total - left)
        used, room = (card.used, card.room) if card is not None else (None, None)
        device_grown = _grown(self._device, at, used) if used is not None else 0.0
        if at < self._calm_until:
            return "", None
        says = ""
        if (
            card is not None
            and used is not None
            and room
            and used > DEVICE_FULL * room
            and device_grown > DEVICE_GROWS * room
        ):
            says = f"{size(room - used)} of {size(room)} are left on {card.name}, and it grows"
        elif left < HOST_LEFT * total and host_grown > HOST_GROWS * total:
            says = f"{size(left)} of {size(total)} of the host's memory are left, and it shrinks"
        if says:
            self._calm_until = at + CALM
            self._device.clear()
            self._host.clear()
            self._held = self._held or self._guard == "pause"
            return says, "end" if self._guard == "end" else "pause"
        eased = (used is None or not room or used < EASED * room) and left > HOST_EASED * total
        if self._held and eased:
            self._calm_until = at + CALM
            return "", "resume"
        return "", None


def _grown(past: "deque[tuple[float, float]]", at: float, value: float) -> float:
    """Return by how much a value has grown over the last BACK seconds."""
    past.append((at, value))
    while at - past[0][0] > BACK:
        past.popleft()
    return value - min(older for _, older in past)
