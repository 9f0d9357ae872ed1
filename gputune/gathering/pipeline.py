"""The part of the gatherer that listens to one pipeline of tf.data or DALI: its stages, and what they took."""

from collections import Counter, deque
from collections.abc import Mapping

from gputune.core.events import Record
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.features.stages import Making, Pipeline, Stage

FRAMEWORKS = frozenset({"tf.data", "dali"})  # whose loaders are no DataLoader, and have none of its settings


class PipelineState:
    """Streaming state of one pipeline. The first reading is left out: buffers fill, and functions are traced."""

    def __init__(self, settings: Mapping[str, Json]) -> None:
        maps = settings.get("maps")
        self._maps = tuple(map(str, maps)) if isinstance(maps, list) else ()
        self._framework = str(settings.get("framework"))
        self._threads, self._depth = (_count(settings.get(name)) for name in ("threads", "prefetch"))
        self._python = settings.get("python") is True
        self._stages: tuple[Stage, ...] = ()
        self._slowest: Counter[int] = Counter()  # stage to readings: at an epoch's end stages are gone that have done
        self._read = 0
        self._makings: deque[Making] = deque(maxlen=500)  # readings kept, the latest

    def told(self, fields: Mapping[str, Json]) -> None:
        """Take how its stages run from here on."""
        stages = fields.get("stages")
        if isinstance(stages, list):
            self._stages = tuple(_stage(stage) for stage in stages if isinstance(stage, list) and len(stage) == 4)

    def made(self, record: Record) -> None:
        """Take what its stages took of one batch."""
        self._read += 1
        # 8 bits of a record's code that say what it is; the number of a stage stands above them
        self._slowest[record.code >> 8] += 1
        if self._read > 1:
            wall = (record.t1 - record.t0) / NS
            self._makings.append(Making(wall=wall, slowest=record.d / NS, cpu=record.a / NS))

    def features(self) -> Pipeline:
        """Return what is known."""
        return Pipeline(
            framework=self._framework,
            threads=self._threads,
            depth=self._depth,
            stages=self._stages,
            slowest=max(self._slowest, key=self._slowest.__getitem__, default=0),
            makings=tuple(self._makings),
            python=self._python,
            maps=self._maps,
        )


def _count(told: Json) -> int:
    return told if isinstance(told, int) else 0


def _stage(fields: list[Json]) -> Stage:
    name, at_once, most, buffer = fields
    return Stage(name=str(name), at_once=int(str(at_once)), most=int(str(most)), buffer=int(str(buffer)))
