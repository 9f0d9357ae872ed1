"""What is known of a run, as plain data: the one thing that advisors see.

Times are seconds, shares are 0 to 1, memory is bytes. `None` means "was not measured", never "zero".
Series are bounded samples of the steady state (the warm-up left out), in the order in which they happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gputune.core.mounts import Mount
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.features.stages import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """How one batch was made, as measured around the dataset fetcher that made it.

    `wall` includes all that follows: `cpu` is CPU time of the making thread (of the whole process in a worker),
    `queued` is time runnable but without a CPU, `collate` the part inside `collate_fn`.
    What is left, `blocked`, is sleep, disk and network.
    """

    wall: float
    cpu: float
    queued: float
    collate: float
    samples: int
    worker: int = -1  # number of the worker that made it; -1 unknown, or the training process itself
    age: int = 0  # batches that this worker had made before

    @property
    def blocked(self) -> float:
        """Return the seconds in which it neither ran nor wanted to run."""
        return max(0.0, self.wall - self.cpu - self.queued)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What the thread of `pin_memory=True` took for one batch, in s.

    `wall` is from when it was unpickled until it lay in page-locked memory, `cpu` and `queued` (None where that was not
    asked) its CPU time in that and the time without a CPU. `unpacking` is CPU time before: of taking the batch.
    """

    wall: float
    cpu: float
    queued: float | None = None
    unpacking: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How an amount of memory moved over the steady state, in B and B/s.

    `rate` is the slope of the later half, robust against single readings; `low` to `high` holds it with 95 %, and the
    slope of the whole as well: an amount that levels off has a `low` of about 0. `seconds` is what was looked at.
    """

    rate: float
    low: float
    high: float
    first: float
    last: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """All copies of tensors to the device from one place in the user's code, on the training thread.

    `seconds` is how long the training thread was held; `size` bytes in all; `pinned` and `non_blocking` are the shares
    of the bytes that came from page-locked memory, and that were asked for without waiting. `fastest` is the highest
    rate of any that was waited for, in B/s: a copy waits for the device first, so what the link can do shows there.
    """

    where: str
    what: str
    count: int
    seconds: float
    size: int
    pinned: float
    non_blocking: float
    fastest: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What the making of one sampled batch opened and read.

    `opening` is s spent in opening files; `asked` the B that read() and its like returned, `stored` the B of these that
    storage was read for (None where the kernel does not count), the rest came from the page cache.
    """

    wall: float
    samples: int
    opens: int
    opening: float
    asked: int | None = None
    stored: int | None = None
    direct: bool = False  # past the page cache
    held: float = 0.0  # s in which it held a lock of multiprocessing, which may be one for all workers
    locked_out: float = 0.0  # s in which it waited for one


SURE = 1.65  # standard errors: 95 % on one side


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """By how much later a loop went on for each second that somebody in it was held up.

    All workers of a loader: 1 where they set the pace, each by itself. The training thread: 1 where that does. 0 where
    something else does. `error` is its standard deviation, `count` how often they were, `delay` s each time, or round.
    """

    value: float
    error: float
    count: int
    delay: float

    @property
    def least(self) -> float:
        """Return what it is at the least, with 95 %, 0 to 1."""
        return min(1.0, max(0.0, self.value - SURE * self.error))

    @property
    def most(self) -> float:
        """Return what it is at the most, with 95 %, 0 to 1."""
        return min(1.0, max(0.0, self.value + SURE * self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What batches and steps take that nobody else was in the way of, in s, latest last.

    `makings` of a batch in its worker; `waits` for the same batches, from when they were asked for until they had come;
    `steps` while no worker made anything.
    """

    makings: tuple[float, ...]
    waits: tuple[float, ...]
    steps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What was held back to see what it does: the device so often and s, the workers at so many moments and s each.

    `fills`: the training so often, until batches lay ready; `lone`: so many batches were made by themselves. The s that
    workers may have idled for these are among theirs.
    `slopes`: its thread so often, for a few rounds; `training` s in all.
    """

    holds: int = 0
    device: float = 0.0
    delays: int = 0
    workers: float = 0.0
    fills: int = 0
    lone: int = 0
    slopes: int = 0
    training: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the s that it may have cost, if nobody made up for any of it."""
        return self.device + self.workers + self.training


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing:
    """What one small file of a loader costs, in s, a copy opened as it was opened: a median of a few times, warm.

    `naming` is making its path object out of a string, `ending` all that follows: reading it to its end, closing it and
    letting it go, and what `Path.open` adds. `kept` says that the path object lives on after the batch, so that nobody
    makes one a file; None where that was not looked at.
    """

    naming: float
    opening: float
    ending: float
    kept: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One pass of one iterator: from its creation or reset to its StopIteration (or to the last batch seen)."""

    began: float  # s since the run's start
    start: float  # constructing or resetting the iterator, without what the batch sampler took of it
    first_wait: float  # the first next(), likewise
    shutdown: float  # ending its workers
    batches: int
    seconds: float  # from creation to end, all included
    complete: bool
    blocked: float | None = None  # mean s a batch that its making neither ran nor wanted to
    asked: float | None = None  # mean B a sampled batch that read() returned
    stored: float | None = None  # mean B a sampled batch that storage was read for
    others_first: float = 0.0  # the next() for the first batches of the other workers, together
    fresh: bool = False  # the first of a DataLoader that was built; also False in recordings of older guests
    picking: float = (
        0.0  # s up to the first batch in which the batch sampler was asked: it is asked however workers live
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variety:
    """How many different files batches are made of: of those that were looked at as they were opened, in one process.

    `held` are the bytes of all files that were open where nobody was seen to open any; 0 where that was not so.
    """

    looked: int = 0  # openings
    files: int = 0  # different ones
    size: float = 0.0  # B of these
    held: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """One DataLoader (or pipeline of tf.data) of one process: its settings as they were, and how it did.

    `step_cpus` is read from the process's CPU clock at both ends of sampled steps, all threads and all pauses included:
    their mean is that of `steps` in CPU seconds. `step_cpu` is a share of the loop's CPU use, and less exact.
    """

    where: str
    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    batch_size: int | None
    in_order: bool = True
    iterable: bool = False
    start_method: str = "fork"
    dataset: str = ""
    samples_in_dataset: int | None = None
    length: int | None = None  # batches that one pass gives, as the loader says
    training: bool = True  # False: only iterated with gradients off or inside an evaluation
    company: Company = ALONE  # how many loaders that its line builds live at once: they all have its settings
    batches: int = 0
    samples: int = 0
    waits: tuple[float, ...] = ()  # next() as the training saw it, steady state
    steps: tuple[float, ...] = ()  # from the return of a next() to the following one, same indices
    picks: tuple[float, ...] = ()  # s of each wait in which the batch sampler was asked; () where it never took long
    pauses: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # span to the part of each step spent in it
    step_cpu: float | None = None  # CPU seconds per step of the training process, its loading left out
    step_cpus: tuple[float, ...] = ()  # CPU s of the whole process in some of the steps, from end to end
    next_cpus: tuple[float, ...] = ()  # CPU s of the training thread in the next() before each of these
    step_queued: float = 0.0  # s per step that the training process was runnable without a CPU
    fetches: tuple[Fetch, ...] = ()  # how batches were made, steady state
    in_flight: tuple[float, ...] = ()  # of each of these, how many batches its workers made meanwhile, itself included,
    ahead: tuple[int, ...] = ()  # and as it was begun; () where there is one worker at the most
    reads: tuple[Reads, ...] = ()  # what sampled ones of them opened and read
    variety: Variety | None = None  # of the files that they are made of; None where that was not told
    filing: Filing | None = None  # of one of the files that they open; None where none is small and opened by name
    epochs: tuple[Epoch, ...] = ()
    batch_bytes: int | None = None
    batch_bytes_most: int | None = None  # of the largest batch that was measured
    batch_shared: bool = True  # most of a batch's bytes are tensors: from a worker they come through /dev/shm
    batch_on_device: bool = False  # it is made of tensors on a device
    batch_tensors: int | None = None  # that a batch consists of, 127 where they are more; None where none was counted
    collate: str = ""  # name of the collate function
    pins: tuple[Pin, ...] = ()  # of the thread that pins batches, steady state; none where there is no such thread
    fresh: float = 0.0  # s that the first batches took longer to be pinned, together: into memory that is new
    gets: tuple[float, ...] = ()  # s of each next() from when that thread had handed its batch on
    types: Mapping[str, int] = field(default_factory=dict)  # of the tensors that it pins: "torch.float32" to B a batch
    shape: tuple[int, ...] = ()  # of the largest of these
    deliveries: tuple[float, ...] = ()  # s until a batch that a worker had made was there, once it was asked for: in
    #                                     next(), or by the thread that pins
    ready: tuple[float, ...] = ()  # s of each next() whose batch had been made before, among these
    hindered: tuple[float, ...] = ()  # those of `deliveries` of which the maker was at work on another batch
    freed: tuple[float, ...] = ()  # those in which it was until that was made: s up to there
    after: tuple[float, ...] = ()  # s from there on, same indices
    unhindered: tuple[float, ...] = ()  # those of which the maker did nothing else
    smooth: tuple[float, ...] = ()  # those of `ready` among them
    own_kind: str = ""  # its class, where that makes other iterators than torch's: nobody can serve these
    made_by: Mapping[int, int] = field(default_factory=dict)  # batches that each worker made, by its number
    slope: Slope | None = None  # what delays of its workers did to it
    filled: tuple[float, ...] = ()  # s of rounds, from one next() to the next, in which a batch lay ready, latest
    unfilled: tuple[float, ...] = ()  # mean s of a few rounds right before in which none did, same indices
    mean_round: float | None = None  # s of all rounds, and not of the latest alone; None where it is not known
    alone: Alone | None = None  # batches that were made by themselves, and steps beside which none was
    early: tuple[int, ...] = ()  # batches behind the one that was waited for that had come before it, per next()
    order: str = ""  # of samples: fixed, or drawn from the loader's own generator or the shared one; "": not known
    draws: bool | None = None  # samples draw torch's shared random numbers in the training process; None: not known
    random: bool | None = None  # the same of torch's, `random`'s or numpy's: a sample is another one in each pass
    shards: bool | None = None  # whether the dataset asked which worker it runs in; None where that is not known
    worker_threads: int | None = None  # intra-op threads in each worker
    worker_memory: int | None = None  # PSS of one worker, mean over them when last read, B
    worker_growth: Trend | None = None  # of the same
    wait_total: float = 0.0
    apart: float | None = (
        None  # share of its time in next(), of another thread that takes the batches: no wait is known
    )
    pipeline: Pipeline | None = None  # of TensorFlow's tf.data: no DataLoader, and none of its settings are any
    seconds: float = 0.0  # from its first to its last batch, all epochs

    @property
    def paces(self) -> bool:
        """Return whether the training itself takes its batches: then they tell the pace of the loop."""
        return self.training and self.apart is None

    @property
    def for_batches(self) -> tuple[float, ...]:
        """Return `waits` without what the batch sampler took of them, in s."""
        if not self.picks:
            return self.waits
        return tuple(max(0.0, wait - pick) for wait, pick in zip(self.waits, self.picks, strict=True))

    @property
    def delivery(self) -> float:
        """Return the least a next() costs when its batch is ready: queue, unpickling, pinning (a low quantile)."""
        if not self.waits:
            return 0.0
        ordered = sorted(self.for_batches)
        return ordered[len(ordered) // 20]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """All spans of one kind from one place in the user's code."""

    span: str
    where: str
    what: str
    count: int
    seconds: float  # inclusive
    waits_inside: float = 0.0  # loader waits nested in them (evaluation)
    every: int | None = None  # steps after which they came again, as a rule; None where that differed
    feeds: int = 0  # of them, those after which the training went on with a DataLoader built since (evaluation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the pauses of one kind do to the random generators that everybody shares, and those of the loaders.

    Compared before and after some of them. `unsure`: the state after one was only seen once the training went on.
    """

    of: frozenset[str] = (
        frozenset()
    )  # generators that such a pause moves: "torch", "torch.cuda", "random", "numpy", "own"
    shared: frozenset[str] = frozenset()  # of these, those that the training was seen to move as well
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A place in the user's code that stacks of the training thread met outside of all spans.

    In a process that no guest spoke from, spans are not known: there it is any place.

    `share` is of the stack samples taken outside of next(); `compute` says that torch's forward, backward or
    optimizer (or another library's device work) lay under it, `asks` that it is a line that asks for batches.
    """

    where: str
    function: str
    share: float
    compute: bool
    asks: bool = False


SERVED = "served"  # a kind of `Doing`
MODEL = "model"  # a side of `Interpreted`


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What stacks met while batches were made: by workers, or by the training itself where there are none.

    `kind` is `decode`, `transform`, `index`, `collate`, `between` (torch's own loop over the samples of a batch),
    `served` (a call to another process, which a Manager of multiprocessing runs) or `own` for code of the user's: of
    both `where` is the line. `share` is of the stacks in which a batch was made.
    """

    kind: str
    what: str
    where: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Afterwork:
    """A line of the user's loop that runs between the optimizer's step and the next batch.

    Shares are of the stacks taken in the loop outside of next() and of spans: `share` all that lie in or under the
    line, `torch` those with a frame of torch under it, `model` those that go through a model or back through one, and
    `apart` those in a `library` that does not touch weights. `calls` is the user's function that it mostly calls.
    Without a DataLoader nobody knows where the loop begins and ends: then all lines below the step's are told.
    A line `around` the loop stands in a function that calls it: where that does one round the line may run each step,
    else between epochs. Its stacks are none of those in the loop, so its share may be more than 1.
    """

    where: str
    function: str
    share: float
    torch: float
    apart: float
    model: float = 0.0
    library: str = ""
    calls: str = ""
    around: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRound:
    """One round of a rank: from the end of one meeting with the other ranks to the end of the next. Times in s.

    `own` is what the rank takes by itself, `apart` the rest, in which it waits for others and for the transfer. A
    round has the same `number` on every rank. With DistributedDataParallel only sampled steps are rounds.
    """

    number: int
    own: float
    apart: float
    size: int = 0  # B of tensors handed over, on this rank
    calls: int = 1  # messages they went in: calls, or DDP's buckets
    ranks: int = 0  # that meet
    hidden: float = 0.0  # s of communication beside the backward pass, which holds nobody up
    queued: float = 0.0  # s of `own` that the training thread was runnable without a CPU, as far as it was measured
    calm_queued: float | None = None  # share of forward passes, in which nothing is exchanged, that it was so
    update: float = 0.0  # s of `own` from the end of the backward pass to that of the optimizer's step
    backward: float = 0.0  # s of `own` inside of the latest backward pass; 0 where none was told
    waited: float = 0.0  # s of `own` in which it waits for its batches; on a device: in which that idles for them
    on_device: bool = False  # `own` and `apart` are of the device's clock
    gathered: bool = False  # weights had to be gathered for it (FSDP): exchanged however rarely gradients are


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How the model computes, as told from inside when it was called first."""

    types: tuple[str, ...] = ()  # of its parameters: ("torch.float32",); () where it was not looked at
    devices: tuple[str, ...] = ()  # where they lie: ("cuda",); () where it was not looked at, or of older guests
    autocast: bool = False  # was ever entered, or was on at that call
    tf32: bool | None = None  # matrix products may round their factors to TF32
    products: bool = False  # it has matrices
    convolutions: bool = False  # it has convolutions over pictures
    threads: int | None = None  # of torch, for one operation on the host (intra-op); None: of older guests
    anomaly: bool = False  # torch's anomaly detection is on

    @property
    def single(self) -> bool:
        """Return whether it is sure that everything is in 32 bits."""
        return self.types == ("torch.float32",) and not self.autocast

    @property
    def half(self) -> bool:
        """Return whether it is sure that something is in 16 bits or less."""
        return self.autocast or any("16" in name or "float8" in name for name in self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocator:
    """What torch's allocator of one process holds on one device, B. What it has only cached is reserved, not live."""

    index: str  # the device's, as NVML counts; empty where that is not known
    live: Trend | None  # between two steps, over the loop
    last: int  # live at the last reading
    least: int  # that was ever live between two steps: parameters, at the first one
    peak: int  # most that was live at any moment, inside of steps too; no more than was reserved since memory ran out
    reserved: int  # most, since memory ran out


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The last time that a device's memory ran out in one process, B. It need not have ended anything.

    `live` is what tensors held, `reserved` what the process kept for them, `free` what the device had left for
    anybody: what had been cached whole was given back before.
    """

    gpu: str  # as NVML counts, or as CUDA does in that process
    index: str  # as NVML counts; empty where that is not known
    pid: int
    rank: int | None
    where: str  # `train.py:31`; empty where no Python code asked
    asked: int
    live: int
    reserved: int
    free: int
    total: int | None
    expandable: bool = False  # the allocator's segments can grow
    growth: Trend | None = None  # of what is live between steps; rates are B a step, and so are its `seconds` steps
    times: int = 1
    went_on: bool = False  # batches, steps or backward passes came after it
    others: int | None = None  # held by processes that are not the job's
    others_count: int | None = None

    @property
    def lacking(self) -> int:
        """Return by how much the device had too little; none where the process was not allowed more of it."""
        return max(0, self.asked - self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStep:
    """A step as the device's own clock has it: means in s over `timed` steps of the steady state.

    It goes from the first work of a batch to that of the next one, and is `whole` s long: `starved` s without work
    between the two, `copying` s of copies from the host on the step's own stream, and the rest. `compute` s of that
    are kernels, as measured where they ran without a gap; None where they never did. `update` s of these came behind
    the backward pass, the optimizer's, which take as long for a larger batch; None where that is not known. In all of
    the loop behind its first steps one takes `mean` s, pauses left out: the gaps of those that were timed may be
    others; None where that is not known. `paused` s of pauses go with it. `crossing` s it stood for other devices of
    the same process, and for what passes between them, `standing` s for other ranks; where that is 0 it may not have
    been told apart, and `compute` has it.
    `read_waits` and `copy_waits` are s that the training thread stood for the device's work in reads and
    synchronizations, and before its copies began, `launch_waits` those in launches, as the device's queue was full;
    None where that cannot be told apart. `lag` s the device is behind the host at the end of the median step: none
    where the host has waited for all of it, or is the slower one.
    """

    timed: int
    whole: float
    starved: float
    copying: float
    compute: float | None
    read_waits: float
    copy_waits: float
    launch_waits: float | None = None
    update: float | None = None
    lag: float | None = None
    mean: float | None = None
    paused: float = 0.0
    crossing: float = 0.0
    standing: float = 0.0

    @property
    def works(self) -> float | None:
        """Return the s of kernels and of standing for others, which on the device's clock is work; None if unknown."""
        return None if self.compute is None else self.compute + self.crossing + self.standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreted:
    """A line of the user's that runs plain Python, or waits at a queue: `share` of all looks.

    `calls` is the user's function that it calls, `side` where it stands: `inside` of a model, `between` its forward
    pass and what follows, or "" elsewhere; of a line between two passes `model`, if it mostly goes through one; of one
    that trains nothing by itself `ahead` of the backward pass, `behind` the optimizer's step, or "" for between.
    """

    where: str
    function: str
    share: float
    calls: str = ""
    side: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last error of CUDA's in one process: what it said, and where that was noticed."""

    gpu: str  # as NVML counts; empty where that is not known
    pid: int
    rank: int | None
    what: str
    where: str  # `train.py:31`; empty where no Python code called
    ended: bool  # it ended the script


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The error that ended a process which used torch, in one line, and the line of the script that it came up at."""

    pid: int
    rank: int | None
    what: str  # `ValueError: too many dimensions`
    where: str  # `train.py:31`; empty where no Python code was to be seen
    started: int  # ns: when the process was first seen
    ended: int  # ns: when it ended, 0 while it lives
    trained: bool  # it had made batches or steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A process that trained by a torch which is built for CUDA, and used no device."""

    pid: int
    rank: int | None
    built: str  # the CUDA that its torch is built for, `13.0`; empty for ROCm
    driver: int  # the newest CUDA that the driver runs (13020 is 13.2), 0 unknown
    visible: str | None  # its CUDA_VISIBLE_DEVICES, None not set
    forked: bool  # from a process that had used CUDA: then it may not


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What a policy does in environments, to be learnt from: rollouts. Their time is in the ledger."""

    calls: int  # of `step` on the training thread, since it first learnt
    environments: int  # that each one steps
    processes: int  # of their own, that these environments are in; 0: they are stepped on the training thread
    runners: bool = False  # these processes ask the policy, too: calls and steps are theirs, as they tell them
    step: float  # mean s of a call
    settling: float = 0.0  # s, for each call, from the end of a rollout to the first backward pass that learns from it
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One training process."""

    pid: int
    rank: int | None
    wall: float  # s, from its start to its end or to now, less `stopped`
    stopped: float = 0.0  # s in which it stood still because somebody had stopped it
    ledger: Mapping[str, float]  # span to seconds, self time; adds up to `wall`
    inclusive: Mapping[str, float]  # span to seconds, nested ones included
    in_loop: Mapping[str, float] = field(default_factory=dict)  # the same, between first and last training batch
    loop: float  # s from the first next() (or optimizer step) to the last
    held_back: HeldBack = HeldBack()
    pace: Slope | None = None  # what slowing its training thread down did to its rounds: who sets the pace
    behind: float = 0.0  # s by which the device was behind the host at its end: what was queued was not done yet
    batches: int
    samples: int
    optimizer_steps: int  # without a DataLoader: of the optimizer that makes most, where others step in turn with it
    loaders: tuple[Loader, ...] = ()
    places: tuple[Place, ...] = ()
    draws: Mapping[str, Drawn] = field(default_factory=dict)  # by the span of a kind of pauses that was looked at
    frames: tuple[Frame, ...] = ()
    stack_samples: int = 0
    making: tuple[Doing, ...] = ()  # what making its batches is made of, most first
    making_stacks: int = 0  # that the shares of `making` are of
    letting_go: float = 0.0  # share of these at a line that asks for batches, with nothing under it: the last one goes
    librarys: bool = False  # a library runs its loop, and calls the script
    sampler: str = ""  # the line of the script's at which a batch sampler of its own mostly is
    before_forward: tuple[float, ...] = ()  # s of a step before its first module call, spans left out, sampled steps
    on_weights: float | None = None  # share of these s in which torch works on the weights; None: nobody looked
    on_device: float = 0.0  # and in which it queues other work for the device, as far as anybody looked
    after_step: tuple[
        float, ...
    ] = ()  # s from the last optimizer step to the following next(), spans left out; 0: none
    afterwork: tuple[Afterwork, ...] = ()  # what the stacks show there
    loop_stacks: int = 0  # that the shares of `afterwork` are of
    stepping: float = 0.0  # share of these in the optimizer's step
    plain: tuple[float, float] = (0.0, 0.0)  # share of these in neither model nor torch: behind the step, and not
    interpreted: tuple[Interpreted, ...] = ()  # lines that run plain Python, most first
    held_looks: int = 0  # at who holds the interpreter: that these shares are of
    in_torch: float = 0.0  # share of these that torch's own Python holds it, but for next(), pauses and the optimizer
    queues: tuple[Interpreted, ...] = ()  # lines that wait at a queue of the script's own, most first
    aside: tuple[Interpreted, ...] = ()  # lines that neither run a model nor train: shares of all stacks of the loop
    traces: float = 0.0  # share of the stacks in which torch writes down where it was called, to tell an anomaly
    fillers: int = 0  # threads beside the training's that were seen in the user's own code
    looked: int = 0  # stacks that the shares of `queues`, `aside` and `traces` are of
    between: tuple[float, ...] = ()  # s that it did other things from the end of a pass to the next one, latest gaps
    outside: tuple[Interpreted, ...] = ()  # lines that it does them at, most first: shares of the stacks at such lines
    beats: tuple[float, ...] = ()  # s from each of the first optimizer steps to the next one
    backward: float = 0.0  # s in the loop that the training thread was inside of backward passes
    optimizing: float = 0.0  # s of it from the end of a backward pass to that of the optimizer's step after it
    batch_gotten: bool = True  # before_forward counts from a next(); else from an optimizer step: no DataLoader
    cpu: float | None = None  # cores that the process itself used, mean over the loop
    queued: float | None = None  # threads of it that were runnable without a CPU, mean over the loop
    torch: str = ""  # version
    native: bool | None = None  # the guest's hooks in it run in C; None where that was not told
    built: str | None = None  # the CUDA or HIP that it is built for; empty for neither, None without torch
    precision: Precision = field(default_factory=Precision)
    folders: Mapping[str, str] = field(default_factory=dict)  # device of the files it reads, to a folder
    copies: tuple[Copy, ...] = ()  # to the device, most time first
    memory: Trend | None = None  # its own (anonymous) resident memory
    mapped: Trend | None = None  # what it has asked for as such, used yet or not
    rising: Trend | None = None  # `memory` of a few readings as well: for a run that ended for want of it
    stood: float = 0.0  # s from the last that its loop did to a signal that ended it in the middle of a pass
    allocators: tuple[Allocator, ...] = ()  # one a device that it uses
    gaps: tuple[float, ...] = ()  # device idle between steps, on the device's clock
    works: tuple[float, ...] = ()  # device time of the steps' work, on the device's clock
    device_step: DeviceStep | None = None  # what it did in a step, by that clock; None where too few were timed
    guest: str = "ring"  # "ring", or why nothing was heard from inside
    local_rank: int | None = None
    world_size: int | None = None  # ranks of the job, on all machines
    host: str = ""  # where it ran, if the run has several machines
    margins: Mapping[str, float] = field(default_factory=dict)  # of `ledger` where only stacks told it: ± share, 95 %
    step_parts: Mapping[str, float] = field(default_factory=dict)  # of its step, likewise: share of all stacks
    looks: int = 0  # bursts in which those stacks were taken; 0 where the ledger is of spans
    meetings: tuple[SyncRound, ...] = ()  # rounds between meetings with other ranks, steady state
    rounds: int = 0  # of these in the whole run, those that were not timed included
    acting: Acting | None = None  # None where it steps no environments

    @property
    def on_host(self) -> bool:
        """Return whether it is known to compute on the host: its torch runs nowhere else, or its parameters lie there.

        Not where anything of it was seen on a device: parameters may be kept apart from where they are used.
        """
        told = self.built == "" or self.precision.devices == ("cpu",)
        return told and not (self.allocators or self.copies or self.gaps or self.device_step)

    @property
    def kernels(self) -> float | None:
        """Return the s of kernels in a step, as measured where they ran without a gap; None where they never did.

        What other devices of the same process do for it while this one waits is work of its devices as well, and so is
        standing for other ranks, whose kernel spins.
        """
        return None if self.device_step is None else self.device_step.works

    @property
    def steps(self) -> int:
        """Return how many batches it trained on; without a DataLoader, how many steps its optimizer made."""
        return self.batches or self.optimizer_steps

    @property
    def through(self) -> float:
        """Return the s from the loop's begin until the device was through with all that was queued in it."""
        return self.loop + self.behind

    @property
    def read_waits(self) -> float:
        """Return the s of the loop in which the training thread waited for the device to read or to synchronize.

        The ledger's `sync` counts as well what it stood for the device's work before its copies could begin.
        """
        timed = self.device_step
        return max(0.0, self.in_loop.get("sync", 0.0) - (timed.copy_waits * self.steps if timed is not None else 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """The PCIe link of a device: the best that it was seen to be while the device was busy, and what it can be.

    An idle device lowers the generation of its link. `..._most` is of device and slot together, by NVML.
    """

    generation: int
    lanes: int
    generation_most: int
    lanes_most: int


COVERED = 0.8  # of the loop: with less, what a device did in it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that the job uses."""

    index: str
    name: str
    busy: float | None = None  # mean share of time with at least one kernel running, over the loop
    memory_used: int | None = None  # most, B, all processes
    memory_total: int | None = None
    clock: float | None = None  # mean SM clock while busy, Hz
    clock_max: float | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)  # reason to share of the samples taken while busy
    power: float | None = None  # mean, W
    power_limit: float | None = None  # W that it is held to
    power_default: float | None = None  # W that it is held to if nobody sets another limit
    temperature: float | None = None  # highest, degC
    others: Mapping[int, float] = field(default_factory=dict)  # foreign pid to share of SM time (or of presence)
    others_memory: int | None = None
    jobs_busy: float | None = None  # SM share of the job's own processes
    jobs_memory: int | None = None  # B that these hold, mean
    memory: Trend | None = None  # of the memory in use, all processes
    idle: float | None = None  # s of the whole run without a kernel, before it was the job's included
    energy: float | None = None  # J drawn since it was first read
    idle_power: float | None = None  # W while no kernel ran
    capability: float | None = None  # compute capability, 8.6
    sm_active: float | None = None  # mean share of the multiprocessors with work, idle time included (GPM)
    tensor_active: float | None = None  # mean share of the time in which tensor cores worked, likewise
    dram_active: float | None = None  # mean share of the memory's bandwidth in use, likewise
    link: PcieLink | None = None
    received: float | None = None  # B/s over the link, mean
    sent: float | None = None
    xids: Mapping[int, int] = field(default_factory=dict)  # number of an Xid event to how often it came, whole run
    ecc: int | None = None  # uncorrected memory errors since the first reading of the run
    coverage: float = 1.0  # share of the loop in which it was read: one that is lost, or hangs, is read no more

    @property
    def throughout(self) -> bool:
        """Return whether its means are those of the loop, and not of the part in which it could be read."""
        return self.coverage >= COVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A process of somebody else, and the cores it used, mean over the loop."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The host as the job is allowed to see it."""

    cpus: float  # CPUs this job may use: affinity and cgroup quota
    cpus_seen: int  # what os.cpu_count() says
    busy: float | None = None  # cores in use on those CPUs, by anyone, mean over the loop
    job: float | None = None  # cores used by the job's tree
    others: float | None = None  # cores used by anybody else
    stolen: float | None = None  # cores that tasks here wanted and the host of this virtual machine gave to others
    iowait: float | None = None  # share
    memory_total: int | None = None
    memory_free: int | None = None
    memory_least: int | None = None  # that was ever free during the loop
    memory_limit: int | None = None  # of the job's control groups, the tightest
    memory_limited: int | None = None  # what counts against it, inactive page cache left out
    memory_limited_most: int | None = None  # that ever did during the loop
    memory_job: int | None = None  # PSS of the tree
    shm_total: int | None = None
    shm_free: int | None = None
    shm_most: int | None = None  # the most and the least that was ever free
    shm_least: int | None = None
    ranks: int = 1  # training processes of the job on this machine
    neighbours: tuple[Neighbour, ...] = ()  # of a fifth of a core or more, the heaviest first
    handover: float | None = None  # s to take two small pieces of shared memory from another process, after the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The disk that batches are read from, and who waited for storage. What it did, it did for anyone.

    Of several, and of all where it is not known which they are, it is the one that was read most from during the loop.
    """

    disk: str
    rate: float  # B/s read, mean
    best: float  # B/s, the highest between two readings in the whole run
    written: float = 0.0  # B/s, mean
    busy: float | None = None  # share of the time with a request under way
    queue: float | None = None  # read requests under way, mean
    request: float | None = None  # B, mean size of a read request
    rotational: bool = False
    workers_blocked: float | None = None  # share of the workers in uninterruptible sleep
    main_blocked: float | None = None  # share of the training processes in it
    stalled: float | None = None  # share of the time in which some task of the machine waited for storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network interface over which the machine sent most during the loop, for anyone."""

    interface: str
    sent: float  # B/s, mean
    rate: float | None = None  # B/s that it can carry each way, as the kernel tells; None where it does not
    most: float = 0.0  # B/s that it was seen to send at the most
    resent: float | None = None  # share of TCP's segments, of the whole machine, that were sent again
    dropped: float = 0.0  # packets a second that it dropped or found garbled
    mtu: int = 0  # B; 0 unknown


class Lacking(NamedTuple):
    """One thing that an instrument which works could not read: `what` of which device, and why, as a clause."""

    field: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """One run."""

    command: tuple[str, ...]
    wall: float
    machine: Machine
    processes: tuple[Process, ...] = ()
    devices: tuple[Device, ...] = ()
    storage: Storage | None = None  # None where no disk could be read
    network: Network | None = None  # None where no interface could be read
    read_rate_limit: float | None = None  # B/s that control groups let this job read from its slowest device
    read_request_limit: float | None = None  # requests/s, likewise
    mounts: tuple[Mount, ...] = ()
    exit_code: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)  # probe to reason
    lacking: Mapping[str, tuple[Lacking, ...]] = field(default_factory=dict)  # probe to what it alone could not read
    dropped: int = 0  # records lost to lapped rings
    oom_kills: tuple[int, str] = (0, "")  # processes that the kernel killed for want of memory, and of what: "machine"
    out_of_memory: tuple[OutOfMemory, ...] = ()  # of a device, one a process
    failures: tuple[Failure, ...] = ()  # of CUDA, one a process
    raised: tuple[Raised, ...] = ()  # errors that ended processes, one a process
    unused: tuple[Unused, ...] = ()  # processes that could have used a device, as far as their torch goes
    stopped: float = 0.0  # s of `wall` in which all training processes stood still, because somebody had stopped them
