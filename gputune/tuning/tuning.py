"""The recorder's end of a tuning: hands over what is read, and asks what became of it.

Whatever fails in here costs the tuning, and neither the recording nor the training.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gputune.core.hygiene import clean
from gputune.core.sample import Reading, now
from gputune.features import Features
from gputune.gathering import Gatherer
from gputune.launch.steering import FILE, OrderChannel
from gputune.tuning import reported
from gputune.tuning.training import Over, Training
from gputune.tuning.tuner import Tuner
from gputune.verdict.document import Tuned

RESUMED = "gputune's recorder was killed, and the one after it does not know what was being tried"


class Tuning:
    """One tuning. Raises OSError where there is no channel. `resumed`: an earlier recorder was killed meanwhile."""

    def __init__(self, rings: str, mode: str, say: Callable[[str], None], *, resumed: bool) -> None:
        self.trouble = ""
        self._training = Training()
        self._orders = OrderChannel(Path(rings, FILE))
        self._tuner = Tuner(self._training, self._orders, mode, say)
        self._thread = threading.Thread(target=self._live, name="tuner", daemon=True)
        if resumed:
            self._orders.send({"do": "serve", "where": None, "set": {}, "batches": None})
            self._tuner.story.state, self._tuner.story.why = reported.LOST, RESUMED
            self._training.leave()
        else:
            self._thread.start()

    def take(self, readings: list[Reading]) -> None:
        """Take the readings of one tick."""
        self._training.take(readings)

    def look(self, gatherer: Gatherer, unavailable: Mapping[str, str]) -> None:
        """Tell what is known of the run, if that was asked for."""
        if self._training.asked:
            self._training.give(gatherer.features(now(), unavailable=unavailable))

    def end(self) -> None:
        """Say that the training has ended, and wait until that was heard."""
        self._training.end()
        if self._thread.ident is not None:
            self._thread.join(5.0)  # s for the thread to take notice of the end: it only waits, or replays a loop

    @property
    def document(self) -> Tuned:
        """Return what has become of it by now."""
        return self._tuner.story.document()

    @property
    def since(self) -> Features | None:
        """Return what was known when the settings came that serve now; None where none came."""
        return self._tuner.since

    @property
    def before(self) -> Features | None:
        """Return what was known before settings were tried that were not to be kept; None where none were."""
        return self._tuner.before

    def _live(self) -> None:
        try:
            self._tuner.run()
        except Over:
            pass
        except Exception as error:  # noqa: BLE001 - a tuning that fails is no reason to stop recording
            self.trouble = f"the tuning stopped ({clean(f'{type(error).__name__}: {error}')})"
            self._tuner.give_up()
        self._training.leave()
