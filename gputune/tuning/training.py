"""A training as the recorder reads it, for a thread that waits for what it does.

The recorder's thread only puts readings into a queue; whoever asks takes them out and keeps the timeline.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from gputune.core.sample import Note, Reading, Sample
from gputune.experiment.timeline import Timeline
from gputune.features import Features
from gputune.tuning.draws import Draws
from gputune.tuning.room import Headroom


class Over(Exception):  # noqa: N818 - named for what happened
    """The training has ended."""


class Training:
    """`take`, `give` and `end` are called by who reads it, all else by the one thread that asks."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.draws = Draws()
        self.room = Headroom()
        self.asked = False  # somebody waits for features
        self._came: SimpleQueue[list[Reading] | None] = SimpleQueue()
        self._features: Features | None = None
        self._heard = True
        self._over = False

    # by who reads

    def take(self, readings: list[Reading]) -> None:
        """Take the readings of one tick."""
        if self._heard:
            self._came.put(readings)

    def give(self, features: Features) -> None:
        """Tell what is known of the run by now, to who has asked."""
        self._features, self.asked = features, False

    def end(self) -> None:
        """Say that the training has ended."""
        self._came.put(None)

    # by who asks

    def beat(self) -> None:
        """Wait for what is read next, a second at most, and take all that is there. Raises Over."""
        if self._over:
            raise Over
        wait = 1.0  # s between looks while nothing is read
        while True:
            try:
                readings = self._came.get(timeout=wait) if wait else self._came.get_nowait()
            except Empty:
                return
            if readings is None:
                self._over = True
                raise Over
            self._learn(readings)
            wait = 0.0

    def _learn(self, readings: list[Reading]) -> None:
        self.timeline.take(readings)
        for reading in readings:
            if isinstance(reading, Sample):
                self.room.take(reading)
            elif isinstance(reading, Note) and reading.fields.get("n") == "draws":
                self.draws.take(reading.fields)

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something that batches bring. Raises Over."""
        while not done():
            self.beat()

    def pass_by(self, seconds: float) -> None:
        """Let it go on for a while. Raises Over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.beat()

    def features(self) -> Features:
        """Return what is known of the run by now. Raises Over."""
        self._features, self.asked = None, True
        while True:
            found = self._features
            if found is not None:
                return found
            self.beat()

    def leave(self) -> None:
        """Listen no more: what is read from here on is nobody's."""
        self._heard = False
