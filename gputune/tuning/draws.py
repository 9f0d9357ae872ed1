"""Random numbers that samples draw where they are made: other workers make other samples of them.

The guest looks at the first batches of each process that makes any (`gputune_guest/draws.py`).
"""

from collections.abc import Mapping

from gputune.core.sample import Json

WORDS = {"torch": "torch's", "random": "Python's", "numpy": "numpy's", "own": "a generator's of its own"}


class Draws:
    """What was seen by now. `looked`: anything at all; `inline`: in the training process itself, as dropout draws."""

    def __init__(self) -> None:
        self.of: set[str] = set()
        self.looked = False
        self.inline = False

    def take(self, note: Mapping[str, Json]) -> None:
        """Take a note `draws`."""
        found = note.get("of")
        drawn = {str(name) for name in found} if isinstance(found, list) else set()
        self.looked = True
        self.of |= drawn
        self.inline = self.inline or bool(drawn and note.get("inline"))

    @property
    def harmless(self) -> bool:
        """Return whether samples were looked at, and drew nothing."""
        return self.looked and not self.of

    def differs(self) -> str:
        """Return in words what will differ from the untuned run where workers change; nothing where nothing will."""
        if not self.looked:
            return "whether its samples draw random numbers is not known: if they do, they will be others"
        if not self.of:
            return ""
        whose = " and ".join(WORDS.get(name, name) for name in sorted(self.of))
        also = ", and with them those of the training itself (dropout)" if self.inline else ""
        return f"its samples draw random numbers ({whose}): they will be others than in an untuned run{also}"
