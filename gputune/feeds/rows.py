"""What a screen shows, as plain data: nodes with their devices, runs with their verdicts, and the feed of both.

A feed fills these rows and a screen draws them; neither knows the other. This machine's feed is in `gputune/feeds/`,
and whoever reads nodes over a network fills the same rows. Base units (s, B, B/s, W, degC, shares 0 to 1); None is "not
measured", never zero. Rows are small and frozen: a thousand nodes of eight devices are made anew every second.

Every string may come from another machine. A feed that takes one in calls `harmless`; the screen's pen does so again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter, is_
from typing import Literal, Protocol, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from gputune.core.hygiene import clean
from gputune.verdict.document import Verdict

POINTS = 512  # of a history at the most: a wall display has no more columns than that times two dots

# How the screen reaches a node. `late`: it answered before, and not for a while; `waiting`: it has not answered yet.
LinkState = Literal["local", "up", "waiting", "late", "down", "refused", "foreign", "recorded"]
RunState = Literal["live", "ended", "broken"]


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One device as it is now. `held` says what holds its clocks down, empty for nothing; `job` is its run's id."""

    index: str
    name: str = ""
    busy: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: float | None = None  # Hz, SM
    clock_max: float | None = None
    sm_active: float | None = None
    received: float | None = None  # B/s over PCIe
    sent: float | None = None
    held: str = ""
    job: str = ""
    uuid: str = ""  # as NVML writes it


class DiskRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One disk: B/s since the last reading, and the share of time with a request under way."""

    name: str
    read: float | None = None
    written: float | None = None
    busy: float | None = None


class NetRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One network interface, or port of InfiniBand: B/s since the last reading."""

    name: str
    received: float | None = None
    sent: float | None = None


class TaskRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One process. `role`: main (it trains), worker, other (of a run), foreign (nobody's that gputune knows).

    `started` is its start in clock ticks after boot: together with the pid it names one process for good. `command` is
    what was typed, without the interpreter, secrets masked. `device_share` is its part of the SMs' time.
    """

    pid: int
    name: str
    role: str = "foreign"
    run: str = ""  # id of the run it belongs to
    cpu: float | None = None  # cores
    memory: float | None = None  # B resident
    device: str = ""  # indices of the devices it is on, "0,1"
    device_memory: float | None = None
    started: int = 0
    user: str = ""
    command: str = ""
    rank: int | None = None
    device_share: float | None = None
    age: float | None = None  # s
    parent: int = 0


class Pressure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Share of the last second in which some task waited for a CPU, for storage, for memory."""

    cpu: float | None = None
    io: float | None = None
    memory: float | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One machine. `seen` is Unix time of its last news, `why` what is wrong with the link, in words.

    `wait`, `rate`, `finding` and `gain` are of its live runs: share of the loop spent waiting for batches, samples/s of
    all together, id of the best finding and its likely speed-up.
    """

    name: str
    rack: str = ""
    job: str = ""
    link: LinkState = "up"
    why: str = ""
    seen: float = 0.0
    devices: tuple[DeviceRow, ...] = ()
    cpus: float | None = None  # CPUs that may be used
    cpu: float | None = None  # cores in use
    iowait: float | None = None
    cores: tuple[float, ...] = ()  # busy share of each CPU
    memory_used: float | None = None
    memory_total: float | None = None
    shm_free: float | None = None
    shm_total: float | None = None
    pressure: Pressure = Pressure()
    disks: tuple[DiskRow, ...] = ()
    nets: tuple[NetRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    wait: float | None = None
    rate: float | None = None
    finding: str = ""
    gain: float | None = None
    runs: tuple[str, ...] = ()  # ids
    unavailable: dict[str, str] = {}  # instrument to the reason why nothing comes from it

    @property
    def busy(self) -> float | None:
        """Return the mean busy share of its devices, None where none is known."""
        known = [device.busy for device in self.devices if device.busy is not None]
        return sum(known) / len(known) if known else None

    @property
    def power(self) -> float | None:
        """Return what its devices draw together, W."""
        known = [device.power for device in self.devices if device.power is not None]
        return sum(known) if known else None

    @property
    def filled(self) -> float | None:
        """Return the share of its devices' memory in use."""
        known = [(d.memory_used, d.memory_total) for d in self.devices if d.memory_used is not None and d.memory_total]
        return sum(used or 0.0 for used, _ in known) / sum(total or 1.0 for _, total in known) if known else None


class History(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a run went: point k covers `step` seconds from `began + k * step` (s since the run's start).

    All four series are equally long, at most `POINTS`, and of whole points: mean busy share of the devices, share of
    the training's time spent waiting for batches, pace in `unit`, batches ready when one was asked for. `gaps` are
    times when nothing could be read, each its beginning and its length, s.
    """

    began: float = 0.0
    step: float = 1.0
    unit: str = "samples/s"  # or steps/s, where nobody says how many samples a batch has
    busy: tuple[float | None, ...] = ()
    wait: tuple[float | None, ...] = ()
    rate: tuple[float | None, ...] = ()
    queue: tuple[float | None, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()


class Present(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a live run goes at `at` (s since its start), over its last seconds: samples/s, and the share it waits."""

    at: float
    rate: float | None = None
    wait: float | None = None
    batches: int | None = None  # since its start


class ShareRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One process of `gputune share`. `share` is its part of the device's time, `rate` in `unit`, memory its peaks.

    `state`: waiting, running, trial (only to be measured), paused, ended, unknown; `exit_code` None until it has ended,
    `why` what is known of its end beyond that.
    """

    index: int
    name: str = ""  # of its job, where that has one
    pid: int | None = None
    state: str = ""
    exit_code: int | None = None
    why: str = ""
    rate: float | None = None
    unit: str = ""
    share: float | None = None
    memory: float | None = None
    host_memory: float | None = None
    log: str = ""


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run. `id` names it among all nodes (`node` and its folder's name), `folder` is what `gputune prove` takes.

    `verdict` is on the whole run so far, `recent` on its last minute; ledger, findings, loaders and ranks are in them
    (`gputune/verdict/document.py`). `at` is the moment shown, s since the start, `length` how long it lasted by now;
    `seekable` says whether the feed can show an earlier one.
    """

    id: str
    node: str
    name: str
    pid: int = 0  # of its command
    folder: str = ""
    state: RunState = "live"
    why: str = ""
    started: float = 0.0  # Unix time
    length: float = 0.0
    at: float = 0.0
    seekable: bool = False
    command: tuple[str, ...] = ()
    exit_code: int | None = None  # of its command, once that has ended
    log: str = ""  # what its command has written, where that was kept
    last: tuple[str, ...] = ()  # lines of that, where the command failed
    verdict: Verdict | None = None
    recent: Verdict | None = None
    told: float | None = None  # s since the start by which the figures of a live run's `verdict` were counted
    judged: float | None = None  # s since the start at which its findings were made, or held against the run and kept
    present: Present | None = None  # of a live run at the present moment
    history: History = History()
    procs: tuple[ShareRow, ...] = ()  # of `gputune share`, as they are now, whatever moment is shown
    packed: str = ""  # what these do together, in words
    job: str = ""  # of the cluster, in which it runs, while it does


PARTS = ("verdict", "recent", "history")  # of a run: most of its row, and seldom another one from second to second


class Curve(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one figure of a machine went: `what` it is, and of `whom` (a device, a role; "" where there is one).

    busy (share), memory (B), power (W), temperature (degC) by device; cpu and cpu by role (cores), host memory (B),
    disk and net (B/s). `top` is the most that it can be, where that is known.
    """

    what: str
    whom: str = ""
    values: tuple[float | None, ...] = ()
    top: float | None = None


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """How a machine went: point k of every curve covers `step` s from the Unix time `began + k * step` on.

    `span` is which of those that can be asked for. `gaps` are times when nothing was read, each its beginning (Unix
    time) and its length, s.
    """

    node: str
    began: float = 0.0
    step: float = 1.0
    span: int = 0
    curves: tuple[Curve, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since an earlier poll: rows that changed, whole, and names that are gone.

    `until` is to be given to the next poll. `note` is one sentence for the foot of the screen, empty for none.
    """

    until: int
    nodes: tuple[Node, ...] = ()
    runs: tuple[RunRow, ...] = ()
    gone: tuple[str, ...] = ()  # names of nodes
    runs_gone: tuple[str, ...] = ()  # ids of runs
    note: str = ""
    past: Past | None = None  # of the machine that was looked at; no part of what goes over a wire
    more: bool = False  # there is more to be had at once: a long recording comes in pieces
    same: dict[
        str, tuple[str, ...]
    ] = {}  # over a wire: id of a run to those of `PARTS` that are left out, as they were


class Feed(Protocol):
    """Where rows come from. Only ever called from one thread, about once a second, never from the screen's own."""

    def poll(self, since: int) -> Update:
        """Return what is new since the update whose `until` was `since`; 0 asks for everything.

        Does not wait for a node: one that does not answer is a row whose `link` says so. What raises ends the screen.
        """

    def seek(self, run: str, at: float | None) -> None:
        """Show that run as it was `at` s after its start from the next poll on; None: as it is now."""

    def look_at(self, node: str, span: int) -> None:
        """Tell the past of that machine from the next poll on, of a span; "" tells none."""

    def close(self) -> None:
        """Give back what it holds. May be called while a poll is under way in another thread."""


T = TypeVar("T")
Strings: TypeAlias = Callable[[object], Iterable[object]]


def harmless(value: T) -> T:
    """Return a row, or anything made of rows, with every string in it made fit to be shown (`hygiene.clean`).

    What needs no change is returned as it is, and costs little: names come again every second.
    """
    return cast("T", _harmless(value))


def _harmless(value: object) -> object:
    if isinstance(value, str):
        return value if value in _safe else _clean(value)
    if isinstance(value, msgspec.Struct):
        return _row(value)
    if isinstance(value, (tuple, list)):
        if not value or _are_harmless(value):
            return value
        items = [_row(i) if isinstance(i, msgspec.Struct) else i if type(i) in PLAIN else _harmless(i) for i in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if isinstance(value, dict):
        pairs = {_harmless(key): _harmless(item) for key, item in value.items()}
        return value if pairs == value else pairs
    return value


def _are_harmless(rows: Sequence[object]) -> bool:
    """Return whether these are rows of one kind, of numbers and of strings that are known: most are, every second."""
    kind = type(rows[0])
    if not issubclass(kind, msgspec.Struct) or set(map(type, rows)) != {kind}:
        return False
    _, strings, deep = _telling(kind)
    return not deep and _safe.issuperset(chain.from_iterable(map(strings, rows)))


def _row(row: msgspec.Struct) -> msgspec.Struct:
    texts, strings, deep = _telling(type(row))
    changed: dict[str, object] = {}
    if not _safe.issuperset(strings(row)):
        cleaned = ((name, _harmless(getattr(row, name))) for name in texts)
        changed = {name: text for name, text in cleaned if text is not getattr(row, name)}
    for name in deep:
        old = getattr(row, name)
        if old:
            new = _harmless(old)
            if new is not old:
                changed[name] = new
    return msgspec.structs.replace(row, **changed) if changed else row


@lru_cache(256)
def _telling(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], Strings, tuple[str, ...]]:
    """Return a row's fields that are strings, how to get them all, and its fields in which some may be.

    The others were decoded as numbers.
    """
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__}
    texts = tuple(name for name, hint in hints.items() if hint is str)
    deep = tuple(name for name, hint in hints.items() if hint is not str and _tells(hint))
    if len(texts) > 1:
        return texts, attrgetter(*texts), deep
    return texts, lambda row: [getattr(row, name) for name in texts], deep


def _tells(hint: object) -> bool:
    inner = get_args(hint)
    if get_origin(hint) is Literal:  # one of a few words of ours
        return False
    return any(map(_tells, inner)) if inner else hint is not Ellipsis and hint not in PLAIN


_safe: set[str] = set()  # strings that were looked at and need nothing


def _clean(text: str) -> str:
    """Return the text fit to be shown: the same object where nothing had to be done."""
    shown = clean(text, 400)  # characters of any one string of a row
    if shown != text:
        return shown
    if len(_safe) >= 16384:  # nodes, devices and processes have a few strings each
        _safe.clear()
    _safe.add(text)
    return text


PLAIN = frozenset({int, float, bool, type(None)})
