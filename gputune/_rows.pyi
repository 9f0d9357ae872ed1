from collections.abc import Sequence

from gputune.sample import Metric, Reading

def laid(
    readings: Sequence[Reading], metrics: tuple[Metric, ...], instances: tuple[str, ...]
) -> tuple[int, bytes] | None: ...
