"""What was asked of `gputune share`: all that the launcher needs to know, in fields that go through a variable."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

VARIABLE: Final = "GPUTUNE_SHARE"  # carries a Spec to the launcher, which takes it away from the tasks
SLOT: Final = "GPUTUNE_SHARE_SLOT"  # a task's number among all of them: tells whose a process is
PROBED: Final = "probed.json"  # in the run folder: what a copy has shown that was only to be measured
AUTO: Final = 0  # a job's count, and `at_once`: to be found out

OnFailure = Literal["continue", "stop", "restart"]
Guard = Literal["pause", "end", "off"]
Mps = Literal["auto", "on", "off"]
Cpus = Literal["split", "all"]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One command, to be run `count` times. Memory in B, None where nobody said it; `memory` is of the device."""

    argv: tuple[str, ...]
    name: str = ""
    count: int = 1
    env: Mapping[str, str] = {}
    cwd: str = ""
    memory: int | None = None
    host_memory: int | None = None
    weight: float = 1.0
    weights: tuple[float, ...] = ()  # of each of its processes, where they differ
    index_args: bool = True


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was asked for. Times in s."""

    jobs: tuple[TaskSpec, ...]
    parent: int = 0  # the process that was started by hand: when it is gone, so are we
    folder: str = ""  # of the run, "" where nothing is recorded
    logs: str = ""
    rings: str = ""
    mask: tuple[int, ...] = ()  # signals that the tasks start with as blocked
    index_flag: str = "--process_index"
    num_flag: str = "--process_num"
    index_env: str = ""
    own_dirs: bool = False
    follow: bool = False
    colour: bool = False
    as_json: bool = False
    json_file: str = ""
    on_failure: OnFailure = "continue"
    restarts: int = 3
    stall: float = 0.0  # without a sign of life for so long: hangs. 0: never
    grace: float = 10.0  # between asking a process to end and ending it
    queue: bool = False
    at_once: int = AUTO
    trial: float = 5.0  # of batches that the first one makes alone; 0: all start at once
    trial_each: bool = False  # one of each job makes them, one after the other; then those run at once that fit
    min_gain: float = 1.0
    guard: Guard = "pause"
    metric: str = ""
    gpus: tuple[str, ...] = ()  # as in CUDA_VISIBLE_DEVICES, or `auto`; none: left to the environment
    mps: Mps = "auto"
    cpus: Cpus = "split"
    workers: int = -1  # most workers of each loader; -1: as the script has them
    # of a cluster: (slot, number, of how many) of the one task that this launcher has; none: counted here
    numbered: tuple[int, int, int] | None = None
    probe: bool = False  # a copy is measured, what it needs is kept, and nothing else is started

    @property
    def weighted(self) -> bool:
        """Return whether some processes are to have more of the card than others."""
        return len({job.weight for job in self.jobs}) > 1 or any(len(set(job.weights)) > 1 for job in self.jobs)


def encode(spec: Spec) -> str:
    """Return it as text."""
    return msgspec.json.encode(spec).decode()


def decode(text: str) -> Spec:
    """Return what `encode` made."""
    return msgspec.json.decode(text, type=Spec)


def total(jobs: Sequence[TaskSpec], cards: int) -> int:
    """Return how many processes that is; 0 where one of the counts is still to be found out."""
    counts = [job.count for job in jobs]
    return 0 if AUTO in counts else sum(counts) * max(1, cards)
