"""What a training told and nobody read: a recorder that is stopped, killed or too slow is overtaken by the ring.

With the records that are gone go the beginnings of passes, batches and waits, so that what is left would be counted as
something else: the time before it as start-up, a wait as a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gputune.core.sample import Json
from gputune.features import COVERED


@dataclass(slots=True)
class Missed:
    """Counts of one process: the records that were `heard`, and those that were `lost`."""

    heard: int = 0
    lost: int = 0

    def take(self, fields: Mapping[str, Json]) -> None:
        """Take that so many more records were lost."""
        self.lost += int(str(fields.get("records")))

    @property
    def why(self) -> str:
        """Return why nothing can be said of the process's time; nothing where enough of its records was read."""
        whole = self.heard + self.lost
        if self.lost <= (1 - COVERED) * whole:
            return ""
        return f"the recorder came too late for {self.lost:,} of the {whole:,} records that it wrote"
