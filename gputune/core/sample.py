"""What probes yield: samples of declared metrics, and what guests and stacks say, taken from a target."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from gputune.core.events import Event

NOBODY = -1  # in the place of a process: a note of the machine
LOST = "cannot be read: the device is lost"  # how what lacks of a device begins that has fallen off the bus
ATTACHED = "it ran before gputune looked at it"  # Guest.why of a process that is only looked at from outside
Kind = Literal["gauge", "counter"]
Role = Literal["main", "worker", "other"]


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one measured number.

    `name` is dotted and stable (`cpu.busy`); `unit` is a base unit (`s`, `B`, `ratio`, `W`, `degC`, `Hz`,
    `B/s`, `1`, `cores`); `says` is one sentence on what it is and what it is not. A `counter` only grows, and is
    kept as an integer; a `gauge` is kept as a 32-bit float. `per` names what `Sample.instance` tells
    apart (`"gpu"`, `"cpu"`, `"disk"`), or is empty. `beat` is how many s lie between two readings at the most: twice as
    long after the last one it is not known any more.
    """

    name: str
    unit: str
    says: str
    kind: Kind = "gauge"
    per: str = ""
    beat: float = field(default=5.0, compare=False)  # what a recording does not tell: its metrics are the same ones


class Sample(NamedTuple):
    """One reading: `t` in nanoseconds of the monotonic clock, `value` in the metric's unit.

    A tuple, like all readings: made in a third of the time of a frozen dataclass, fifty times a second and more.
    """

    metric: Metric
    t: int
    value: float
    instance: str = ""

    @property
    def column(self) -> str:
        """Return the name of its column in a recording: `gpu.busy` of instance `0` is `gpu.busy[0]`."""
        return f"{self.metric.name}[{self.instance}]" if self.instance else self.metric.name


class Unavailable(Exception):  # noqa: N818 - it is no error: the instrument does not exist here
    """A probe cannot work here. Its text is the reason, for the user, in one sentence; `hint` says what would help."""

    def __init__(self, why: str, *, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Target:
    """What is being watched, and where to look: every root is a parameter so that a test is a folder.

    `root_pid` is the command's process. `pids()` gives the process tree as last seen, pid to role; it is
    refreshed by the ticker and cheap to call on every tick. `rings` is the folder the guests write into.
    """

    root_pid: int
    pids: Callable[[], Mapping[int, Role]]
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    rings: Path = Path("/nonexistent")
    hz: float = 10.0
    everything: bool = False  # every device of the machine, not only those of the job
    heard: bool = True  # False: it ran before us, no guest can speak, and stacks are all that tells where its time goes


Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


class Guest(NamedTuple):
    """A process of the tree came into sight, or more became known of it (same `process`, later wins).

    `state` is `ring` (it writes records), `hello` (a guest is there and saw no torch), or `none` (a Python process
    that mapped libtorch, or any other, where no guest spoke; `why` says the reason as far as it is known).
    Times are ns of the monotonic clock; `ended` is 0 while it lives.
    """

    process: int
    pid: int
    ppid: int
    started: int
    ended: int
    role: Role
    state: str
    why: str = ""


class Note(NamedTuple):
    """What a guest said once (docs/ring.md, notes)."""

    process: int
    fields: dict[str, Json]


class Open(NamedTuple):
    """What a process was in the middle of when it was last seen: a record's kind, code and t0.

    `since` is the t0 of an open evaluation (0 none). Yielded at the end, or while nothing moves.
    """

    process: int
    kind: int
    code: int
    t0: int
    since: int


class Stack(NamedTuple):
    """`count` samples of the training thread of `pid` with these frames, outermost first: `function (file:line)`.

    `held`: of looks at which only the thread that holds the interpreter (the GIL) shows its frames. Without any of them
    it was not this one.
    """

    t: int
    pid: int
    frames: tuple[str, ...]
    count: int  # type: ignore[assignment] # the word hides tuple.count, which nobody calls on a stack
    held: bool = False


Reading: TypeAlias = Sample | Event | Guest | Note | Open | Stack
Ticks: TypeAlias = Iterator[list[Reading]]


now = time.monotonic_ns  # the one clock of gputune and its guests: CLOCK_MONOTONIC, in ns


def latest(readings: Iterable[Reading]) -> int:
    """Return when the last of them was taken, or what it tells of ended (ns); 0 where none has a time."""
    times = (
        r.t if isinstance(r, Sample | Stack) else r.record.t1 for r in readings if isinstance(r, Sample | Stack | Event)
    )
    return max(times, default=0)
