"""The part of the gatherer that listens to how the training thread goes through a step: the stretches of one.

From getting a batch to the first module call, through the backward pass, and from there to the optimizer's step.
"""

from collections import deque
from collections.abc import Callable

from gputune.core.events import ForwardCode, Record
from gputune.core.units import NS


class Stretches:
    """The stretches of one process's steps. Memory is bounded."""

    def __init__(self) -> None:
        self.gotten = True  # `before` counts from a next(); else from an optimizer's step: there is no DataLoader
        self._before: deque[float] = deque(maxlen=2000)  # timings of sampled steps
        self._looked = self._weights = self._device = 0  # ns before that call that were looked at, and what they were
        self._backward = self._optimizing = 0  # ns
        self._backed = 0  # when the last backward pass was over that no optimizer's step came after

    def forward(self, record: Record, spans: int) -> None:
        """Take a FORWARD record: the time before a step's first module call, of which `spans` ns are of spans."""
        before = max(0, record.t1 - record.t0 - spans)
        self._before.append(before / NS)
        self.gotten = not record.code & ForwardCode.NO_NEXT
        if record.code & ForwardCode.LOOKED:
            on_weights = min(before, record.a)
            self._looked += before
            self._weights += on_weights
            self._device += min(before - on_weights, record.b)

    def backward(self, record: Record) -> None:
        """Take a BACKWARD record."""
        self._backward += record.t1 - record.t0
        self._backed = record.t1

    def stepped(self, until: int, covered: Callable[[int, int], int]) -> None:
        """Take the end of an optimizer's step, ns; `covered` tells how much of the time between two is of spans."""
        if self._backed:
            self._optimizing += max(0, until - self._backed - covered(self._backed, until))
            self._backed = 0

    @property
    def before(self) -> tuple[float, ...]:
        """Return the s of steps before their first module call, spans left out."""
        return tuple(self._before)

    @property
    def on_weights(self) -> float | None:
        """Return the share of these in which torch worked on the weights, None where nobody looked."""
        return self._weights / self._looked if self._looked and not self.gotten else None

    @property
    def on_device(self) -> float:
        """Return the share of these in which torch queued other work for the device, 0 where nobody looked."""
        return self._device / self._looked if self._looked else 0.0

    @property
    def inside_backward(self) -> float:
        """Return the s inside of backward passes."""
        return self._backward / NS

    @property
    def optimizing(self) -> float:
        """Return the s from the end of a backward pass to that of the optimizer's step after it, spans left out."""
        return self._optimizing / NS
