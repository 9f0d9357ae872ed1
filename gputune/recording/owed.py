"""What was said once while a recording could not be written: without it, what comes afterwards belongs to nobody.

A disk that is full for a few seconds must not cost the run that began in them. Who is there, what they said and which
iterators they made is kept, and written once writing is possible again, with how much of each process was lost.
"""

from collections import Counter
from collections.abc import Iterable

from gputune.core.events import Event, Kind
from gputune.core.sample import Guest, Note, Reading

TELLING = frozenset({Kind.ITERATOR, Kind.MEMBER})  # records that others are understood by


class Owed:
    """Readings of a gap. What repeats (samples, batches, stacks) is counted, and not kept."""

    def __init__(self) -> None:
        self._facts: list[Reading] = []
        self._lost: Counter[int] = Counter()  # process to its records

    def take(self, readings: Iterable[Reading]) -> None:
        """Take what cannot be written now."""
        for reading in readings:
            if isinstance(reading, Event) and reading.record.kind not in TELLING:
                self._lost[reading.process] += 1
            # 4096 readings that are kept: a gap of days, or a bug of ours, must not fill the memory
            elif isinstance(reading, Event | Guest | Note) and len(self._facts) < 4096:
                self._facts.append(reading)

    def paid(self) -> list[Reading]:
        """Return what is to be written now that it can be; then nothing is owed."""
        lost = [Note(process, {"n": "lost", "records": count}) for process, count in self._lost.items()]
        facts, self._facts = self._facts, []
        self._lost.clear()
        return [*facts, *lost]
