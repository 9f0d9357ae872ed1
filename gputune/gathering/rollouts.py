"""Which evaluations make the data that is trained on next: rollouts of a policy, self-play, pseudo-labels.

A pass like that asks no loader for batches, and the training goes on with a DataLoader that was built after it. Steps
are told late (docs/ring.md), so times are compared, and not the order in which records come.
"""

from typing import TypeAlias

from gputune.core.events import IteratorCode, Record

Key: TypeAlias = tuple[str, str, str]  # span, where, what


class Rollouts:
    """Listens to one training process."""

    def __init__(self) -> None:
        self._latest: tuple[Key, int] | None = None  # an evaluation, and when it ended (ns), until the training goes on
        self._built = 0  # when the first pass over a loader began (ns), 0 once it has given a batch

    def evaluated(self, key: Key, ended: int, *, own: bool) -> bool:
        """Take an evaluation; `own` says that it had batches. Return whether a loader was built since it ended."""
        self._latest = None if own else (key, ended)
        return not own and self._built >= ended and self._taken() is not None

    def iterator(self, record: Record) -> Key | None:
        """Take an iterator. Return the evaluation that its loader was built after."""
        if not (record.code & IteratorCode.NEW and record.e):
            return None
        self._built = record.t0
        return self._taken() if self._latest is not None and self._latest[1] <= record.t0 else None

    def trained(self, t1: int) -> None:
        """Take a batch that was trained on, or a step, at `t1` (ns)."""
        if self._latest is not None and t1 > self._latest[1]:
            self._latest = None
        if t1 > self._built:
            self._built = 0

    def _taken(self) -> Key | None:
        latest, self._latest = self._latest, None
        return latest[0] if latest else None
