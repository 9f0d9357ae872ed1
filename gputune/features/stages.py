"""What is known of a pipeline of tf.data or DALI beside its batches: stages and what a batch takes of them; threads."""

from dataclasses import dataclass

# stages that work ahead of who asks them, each in threads of its own
AHEAD = ("Prefetch", "MapAndBatch", "Parallel")
MAPS = ("Map", "ParallelMap", "MapAndBatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage as it runs, which is not always as it was written: TensorFlow makes some parallel by itself.

    `at_once` is how many elements are made at the same time, `most` up to how many AUTOTUNE may go (0: it is fixed),
    `buffer` how many finished elements a prefetch holds (0: it is none).
    """

    name: str
    at_once: int = 1
    most: int = 0
    buffer: int = 0

    @property
    def ahead(self) -> bool:
        """Return whether it works ahead of who asks it."""
        return self.name.startswith(AHEAD)

    @property
    def maps(self) -> bool:
        """Return whether it calls a function of the user for each element, and could do so for several at once."""
        return self.name.rstrip("V0123456789") in MAPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What one batch took, in s, the mean of the batches between two readings.

    `wall` is the time of all stages together, in whatever threads; `slowest` that of the slowest one of them; `cpu` the
    CPU time of the whole process, the training's own included.
    """

    wall: float
    slowest: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages from the one that is asked for batches to the source, and which of them took most.

    Of DALI (`framework` "dali") none is known, but `threads` and how many batches its queue holds, `depth`; 0: untold.
    """

    framework: str = "tf.data"
    threads: int = 0
    depth: int = 0

    stages: tuple[Stage, ...] = ()
    slowest: int = 0
    makings: tuple[Making, ...] = ()
    python: bool = False  # a function that is mapped calls Python, which runs one thread at a time
    maps: tuple[str, ...] = ()  # where the functions are mapped, as in `stages`

    @property
    def culprit(self) -> Stage | None:
        """Return the stage that takes most of the time, None where that is not known."""
        return self.stages[self.slowest] if self.slowest < len(self.stages) else None

    @property
    def ahead(self) -> bool:
        """Return whether batches are made while the training works: a stage down to the slowest one works ahead."""
        return any(stage.ahead for stage in self.stages[: self.slowest + 1])

    @property
    def where(self) -> str:
        """Return where the slowest stage's function is mapped, an empty string where that is not known."""
        before = sum(stage.maps for stage in self.stages[: self.slowest])
        whole = len(self.maps) == sum(stage.maps for stage in self.stages)
        return self.maps[before] if whole and self.culprit is not None and self.culprit.maps else ""
