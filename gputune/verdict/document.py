"""The shape of the `findings.json` document, as outsiders read it.

docs/findings.schema.json is its JSON Schema and docs/findings.md its description in words;
`tests/report/test_verdict.py` holds the three together. Fields are only ever added within one `schema_version`.
`gputune/verdict/building.py` fills it in.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from gputune.core.finding import Effect, Setting
from gputune.core.hygiene import as_text, escaped
from gputune.core.sample import Json

SCHEMA_VERSION: Final = 1


Row = TypeVar("Row", bound=msgspec.Struct)


def alike(kind: type[Row], source: object, **more: Any) -> Row:
    """Return a row with `more`, and what `source` has under the names of the row's other fields."""
    same = {
        name: getattr(source, name) for name in kind.__struct_fields__ if name not in more and hasattr(source, name)
    }
    return kind(**same, **more)


def to_json(document: object) -> bytes:
    """Return a document as indented JSON with a newline at its end."""
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:  # an argument or a file name that is no UTF-8
        encoded = msgspec.json.encode(_printable(msgspec.to_builtins(document)))
    return escaped(msgspec.json.format(encoded, indent=2)) + b"\n"


def _printable(value: Json) -> Json:
    if isinstance(value, dict):
        return {as_text(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return as_text(value) if isinstance(value, str) else value


class DeviceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that the job uses, together. `busy` is a share, 0 to 1; both are null where nothing was measured.

    `coverage` is the share of the loop in which that device was read which was read least, and `why` the reason where
    that is too little for `busy` to be the loop's; null without a device.
    """

    name: str | None
    busy: float | None
    count: int = 0
    coverage: float | None = None
    why: str = ""


class LoaderRow(msgspec.Struct, frozen=True, kw_only=True):
    """One DataLoader as it was set, its batches summed over the processes that built it at the same place."""

    where: str
    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    batch_size: int | None
    batches: int
    training: bool = True
    wait_s: float = 0.0
    processes: int = 1
    apart: float | None = None  # share of its time in next(), of another thread that takes the batches


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One word of the ledger: seconds per training process (mean over them), and their share of its wall time.

    `margin` is how far `share` may be off with 95 %, where stacks alone told it; null where spans were timed.
    """

    span: str
    seconds: float
    share: float
    margin: float | None = None


class DeviceLedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of what the devices did in the loop, by their own clock: seconds a process (mean), share of the loop."""

    part: str
    seconds: float
    share: float


class SpeedupRow(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted samples/s after the change over those before it.

    With `at_least` only `low` is known of this run: `likely` and `high` are what such changes have brought elsewhere.
    """

    low: float
    likely: float
    high: float
    at_least: bool = False


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, as `gputune.core.finding.Finding` describes it.

    `steady` is the low end of `speedup` if steps keep their pace: higher where CPUs, or saved models, unsettle it.
    """

    id: str
    severity: str
    share_lost: float
    speedup: SpeedupRow
    says: str
    do: str
    where: str
    change: dict[str, Setting]
    evidence: dict[str, float]
    basis: str
    falsified_by: str
    effect: Effect
    risk: str = ""
    due_s: float | None = None
    offer: str = ""
    steady: float = 0.0
    because: str = ""


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """What gputune itself cost: share of one core for the recorder, µs per batch inside the training; null unknown.

    `in_python` are the parts that ran in Python for want of their build in C: `hooks` (of the training), `processes`
    (reading them) and `rows` (of the recording).
    """

    sampler_cpu_share: float | None = None
    guest_us_per_batch: float | None = None
    in_python: list[str] = []


class ExperimentsRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was held back to see what that does: the device so often, workers at so many moments.

    The training thread so often, for a few rounds in a row (`slopes`).

    The training itself so often (`fills`), until batches lay ready. So many batches (`lone`) were made by themselves.

    `share` of the loop that it may have cost, the mean of the training processes.
    """

    holds: int
    delays: int
    share: float | None
    fills: int = 0
    lone: int = 0
    slopes: int = 0


class LackingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an instrument which works could not read: `what` of which device, and why."""

    field: str
    what: str
    why: str


class UnavailableRow(msgspec.Struct, frozen=True, kw_only=True):
    """An instrument that could not measure here, and the reason; `fields` where it was only some of what it reads."""

    probe: str
    why: str
    fields: list[LackingRow] = []


def why_of(probe: str, rows: Sequence[UnavailableRow]) -> str:
    """Return why an instrument could not measure, an empty string where it could."""
    return next((row.why for row in rows if row.probe == probe), "")


class OutOfMemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last time that a device's memory ran out in one process, and how often it did. Bytes; null unknown.

    `ended`: the command failed, and that process trained no more. What was asked for would have been there without the
    memory that came to lie in pieces (`fragmented`), or without what `growth_bytes_per_step` had taken, where that
    is told; `capped`: the device had it, but the process was not allowed more.
    """

    gpu: str
    name: str
    pid: int
    rank: int | None
    where: str
    times: int
    ended: bool
    went_on: bool
    asked_bytes: int
    live_bytes: int
    reserved_bytes: int
    free_bytes: int
    total_bytes: int | None
    others_bytes: int | None
    others_count: int | None
    fragmented: bool
    capped: bool
    growth_bytes_per_step: float | None


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """The error that ended a command which failed: in one line, and the line of the script that it came up at.

    `trained`: that process had made batches or steps. `others` of the same time ended with an error as well.
    """

    pid: int
    rank: int | None
    what: str
    where: str
    trained: bool
    others: int


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """What had grown of the host's memory before it ran out: of the `training` process itself, or of each `worker`."""

    pid: int
    of: str
    first_bytes: float
    last_bytes: float
    seconds: float


class FailureRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last error of CUDA's in one process: what it said, and the line where that was noticed.

    `gpu` is empty where it is not known which device failed; `lost`: nobody can reach it any more. `xids` are what the
    driver reported of it, and `ended` says that the error ended the script.
    """

    gpu: str
    pid: int
    rank: int | None
    what: str
    where: str
    ended: bool
    lost: bool
    xids: list[int]


class UnusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A process that trained without a device, by a torch that is built for one, and why, as far as that is known.

    `reason`: `forked` (CUDA cannot be used after a fork), `hidden` (CUDA_VISIBLE_DEVICES, in `visible`), `driver` (it
    runs CUDA `driver`, and torch is built for `built`), or `script` (nothing is known to have kept it from it).
    """

    pid: int
    rank: int | None
    reason: str
    built: str
    driver: str
    visible: str | None


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    """One training process. `seen` false: nothing was heard from inside it, for the reason in `why`.

    `stood_s`: from the last that its loop did until a signal ended it, in the middle of a pass. `own_s` and `apart_s`
    are a step's seconds by itself, and with the other ranks, mean over `rounds` (docs/ranks.md). `pace` is by how much
    its rounds got longer for each second that its thread was held up, with its standard error (docs/experiments.md).
    """

    pid: int
    rank: int | None
    seen: bool
    why: str
    wall_s: float
    startup_s: float
    loop_s: float
    batches: int
    optimizer_steps: int
    samples_per_s: float | None
    local_rank: int | None = None
    world_size: int | None = None
    host: str = ""
    own_s: float | None = None
    apart_s: float | None = None
    rounds: int = 0
    stood_s: float = 0.0
    pace: float | None = None
    pace_error: float | None = None


class FrameRow(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the stacks met the training thread outside of next(), and its share of those stacks."""

    where: str
    function: str
    share: float
    compute: bool


class MakingRow(msgspec.Struct, frozen=True, kw_only=True):
    """What stacks met most while batches were made: its share of them, surely at least `low` (95 %)."""

    where: str
    what: str
    share: float
    low: float


class AsideRow(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of the script's that neither run a model nor train: their `share` of the loop, surely `low` (95 %).

    `where` is the one that has most of it, `function` what it stands in, `ceiling` how many times as fast a loop
    without any of them could be at the most.
    """

    where: str
    function: str
    share: float
    low: float
    ceiling: float


class Sighted(msgspec.Struct, frozen=True, kw_only=True):
    """What kinds of processes the run had, by count: said when none of them trained."""

    python: int
    torch: int
    unheard: int


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What the run took of its devices together, and how much of it while they waited; null where it is not known.

    `by` is who waited: the `device`, or where none can be read the `training`. `price` is of one device for an hour.
    """

    by: str
    devices: int
    device_s: float
    waiting_s: float | None
    energy_j: float | None
    waiting_j: float | None
    samples_per_j: float | None
    price: float | None
    cost: float | None
    waiting_cost: float | None


class CpuRow(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that the job was allowed to use, and how many of them it and anybody else used, means over the loop."""

    allowed: float
    job: float | None
    others: float | None


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the step as stacks tell it: a pass of the model, or a function of the script; share of all stacks."""

    part: str
    share: float


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """How a training that ran before gputune came was looked at: stacks, in how many looks, and its step's parts."""

    stacks: int
    looks: int
    step: list[StepRow] = []


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a loader that can change while it is iterated."""

    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool


TRIED = "measured_over_predicted"  # evidence of a finding whose gain was measured in the run
RECORDING = "recording"  # as a word for what could not be measured: parts of it that are damaged, or were not written
RECORDER = "recorder"  # likewise: it was lost, and what it would have told with it
RINGS = "rings"  # likewise: somebody removed their folder (probes/loader.py)


class TriedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that served a training for a while: samples/s as predicted and as measured, `low` to `high` with 95 %.

    `state` is `ok`, or `failed` for the reason in `why`.
    """

    settings: Settings
    predicted: float | None
    samples_per_s: float | None
    low: float | None
    high: float | None
    state: str
    why: str = ""


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What `watch --tune` or `--try` did to the loader at `where`; docs/tune.md has the states.

    `own` are the script's settings, `now` those in force since `since_s` (s of the run) and the first `since_batch`
    batches of all processes together; null where nothing was switched. `best` are the best that were tried, and
    `speedup` is measured, of these over `own` in turns. `differs` says what is not as in an untuned run. With `--try`
    the script's own settings served alone until `tried_from_s`, and again from `since_s` on.
    """

    mode: str
    state: str
    why: str = ""
    where: str = ""
    own: Settings | None = None
    now: Settings | None = None
    best: Settings | None = None
    speedup: SpeedupRow | None = None
    tries: list[TriedRow] = []
    since_s: float | None = None
    since_batch: int | None = None
    tried_from_s: float | None = None
    draws: list[str] = []
    differs: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. Times in s, shares 0 to 1, null where nothing was measured."""

    schema_version: int = SCHEMA_VERSION
    command: list[str]
    exit_code: int | None
    wall_s: float
    samples_per_s: float | None
    batches: int
    device: DeviceTotals
    loaders: list[LoaderRow]
    ledger: list[LedgerRow]
    findings: list[FindingRow]
    overhead: Overhead
    unavailable: list[UnavailableRow]
    steps_per_s: float | None = None
    startup_s: float = 0.0
    loop_s: float = 0.0
    abstained: str = ""
    processes: list[ProcessRow] = []
    frames: list[FrameRow] = []
    making: MakingRow | None = None
    aside: AsideRow | None = None
    sighted: Sighted | None = None
    dropped: int = 0
    stopped_s: float = 0.0
    stolen: float | None = None
    oom_kills: int = 0
    oom_kills_where: str = ""
    out_of_memory: list[OutOfMemoryRow] = []
    error: ErrorRow | None = None
    host_growth: GrowthRow | None = None
    failures: list[FailureRow] = []
    unused: list[UnusedRow] = []
    spent: Spent | None = None
    attached: Attached | None = None
    tuned: Tuned | None = None
    device_ledger: list[DeviceLedgerRow] = []  # adds up to 1; empty where no device was timed
    experiments: ExperimentsRow | None = None  # null where nothing was held back
    perhaps: list[FindingRow] = []  # may help, without being sure to: only where nothing is found in the run itself
    cpu: CpuRow | None = None  # null where no training was seen
    rate_error: float | None = None  # relative standard error of the run's own pace, by its parts
    gputune: str = ""  # the version that has judged
    started: str = ""  # ISO 8601, UTC; empty where it is not known
    waited_s: float | None = None  # of the whole run, in which training processes had nothing for a device
    unjudged: dict[str, str] = {}  # advisors that failed, and why: what they would have found is not known
