from collections.abc import Sequence

from gputune.core.sample import Metric, Reading

def laid(
    readings: Sequence[Reading], metrics: tuple[Metric, ...], instances: tuple[str, ...]
) -> tuple[int, bytes] | None: ...
