"""Whether memory or /dev/shm runs short under settings that a training did not ask for."""

from gputune.core.figures import size
from gputune.core.sample import Sample

SHM = "/dev/shm"  # noqa: S108 - its name in a sentence
READ = frozenset(
    {"memory.total", "memory.available", "memory.limit", "memory.limited", "shm.total", "shm.free"}  # all in B
)


class Headroom:
    """The latest readings of what is left."""

    def __init__(self) -> None:
        self._now: dict[str, float] = {}

    def take(self, sample: Sample) -> None:
        """Take a reading of any metric."""
        if sample.metric.name in READ:
            self._now[sample.metric.name] = sample.value

    def short(self) -> str:
        """Return what runs short, in words; nothing where nothing does, or nothing is known."""
        now = self._now
        limit = now.get("memory.limit", 0.0)
        rests = (
            ("memory", now.get("memory.total", 0.0), now.get("memory.available")),
            ("its control group's memory", limit, limit - now.get("memory.limited", 0.0)),
            (SHM, now.get("shm.total", 0.0), now.get("shm.free")),
        )
        for what, total, left in rests:
            # 0.04 of memory or /dev/shm left, below which more workers than the script's own are a danger
            if total and left is not None and left < 0.04 * total:
                return f"only {size(max(0.0, left))} of {what} are left"
        return ""
