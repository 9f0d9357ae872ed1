"""What a sweep says: its document (`--json`, docs/sweep.md), and its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gputune.core.figures import duration, size
from gputune.core.finding import Speedup
from gputune.core.hygiene import clean
from gputune.features import Loader
from gputune.report.words import aligned, number, times
from gputune.sweep.batches import Size
from gputune.sweep.choosing import SettingStats
from gputune.sweep.limits import Limits
from gputune.sweep.search import Found
from gputune.sweep.settings import NAMES, LoaderSetting
from gputune.verdict.document import Settings, SpeedupRow, alike
from gputune.verdict.effects import of_workers

FILE: Final = "sweep.json"  # in the sweep's folder, once it is over
EFFECTS: Final = {
    "same-order": "samples come in the same order; random transforms draw other numbers in other workers",
    "changes-order": "samples may come in another order than with the script's own settings",
}
PERSIST: Final = (
    "workers that persist keep their copy of the dataset: what the script changes in it between epochs "
    "(`dataset.set_epoch(…)`, another transform) does not reach them"
)


class MeasuredSetting(Settings, frozen=True, kw_only=True):
    """Settings, and the samples/s that were measured with them."""

    batch_size: int | None
    samples_per_s: float


class TrialRow(Settings, frozen=True, kw_only=True):
    """One setting that was tried: samples/s as predicted and as measured, `low` to `high` with 95 %.

    `replayed`: with batches that cost nothing, as batch sizes are compared. `node`: of a cluster, where it is not the
    whole sweep's. `memory` (B, all processes) is as measured, `shm` (B) what full queues take, and
    `device_memory` (B) what a batch size needed of the fullest device at its peak, what is only cached left out.
    """

    batch_size: int | None
    predicted: float | None
    measured: float | None
    state: str
    low: float | None = None
    high: float | None = None
    speedup: float | None = None
    memory: int | None = None
    shm: int | None = None
    replayed: bool = False
    why: str = ""
    node: str = ""
    device_memory: int | None = None


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `ceiling`: samples/s with batches that cost nothing, null where that was not measured.

    `measured` is false where the budget was spent before any setting but the script's own was.
    """

    schema_version: int = 1
    where: str
    baseline: MeasuredSetting
    best: MeasuredSetting
    speedup: SpeedupRow
    ceiling: float | None
    trials: list[TrialRow]
    seconds: float
    starts: int
    stopped: bool
    effect: str
    says: list[str]
    folder: str
    written: str
    node: str = ""  # of a cluster, on which it ran
    measured: bool = True


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Everything that a document is made of."""

    script: str
    loader: Loader
    baseline: SettingStats
    best: SettingStats
    gain: Speedup
    found: Found
    limits: Limits
    sizes: Sequence[Size] = ()
    ceiling: float | None = None
    seconds: float = 0.0
    starts: int = 0
    stopped: bool = False
    measured: bool = True  # false: the budget was spent before any setting but the script's own was
    file: str = ""  # that the loader is built in
    folder: str = ""
    written: str = ""
    says: list[str] = field(default_factory=list)


def document(what: Outcomes) -> Sweep:
    """Return the document."""
    chosen = what.best.setting
    effect = of_workers(what.loader, chosen.num_workers, persistent=chosen.persistent_workers)
    if chosen == what.baseline.setting:
        effect = "identical"
    elif chosen.batch_size != what.baseline.setting.batch_size:
        effect = "changes-learning"
    return alike(
        Sweep,
        what,
        where=what.loader.where,
        baseline=_row(what.baseline),
        best=_row(what.best),
        speedup=alike(SpeedupRow, what.gain),
        trials=[*_sizes(what), *_trials(what)],
        effect=effect,
        says=[*what.says, *([EFFECTS[effect]] if effect in EFFECTS else []), *_persisting(what)],
    )


def _persisting(what: Outcomes) -> list[str]:
    """Return what else to look at where the workers of the choice outlive an epoch, and those of the script do not."""
    wanted = what.best.setting
    newly = wanted.persistent_workers and not what.baseline.setting.persistent_workers
    return [PERSIST] if newly and wanted.num_workers else []


def _row(stats: SettingStats) -> MeasuredSetting:
    return alike(MeasuredSetting, stats.setting, samples_per_s=stats.rate)


def _trial(wanted: LoaderSetting, **more: object) -> TrialRow:
    return msgspec.convert({**wanted.plain, **more}, TrialRow)


def _sizes(what: Outcomes) -> list[TrialRow]:
    return [
        _trial(
            each.setting,
            predicted=None,
            measured=each.rate,
            state=each.state.value,
            memory=each.memory,
            node=each.node,
            replayed=True,
            why=each.why or each.filled.words(),
            device_memory=each.filled.needed,
        )
        for each in what.sizes
    ]


def _trials(what: Outcomes) -> list[TrialRow]:
    """Return the settings in the order in which they were met, the script's own first."""
    found = what.found
    all_stats = {what.baseline.setting: what.baseline, **found.all_stats}
    rows = [_measured(what, stats) for stats in all_stats.values()]
    return rows + [
        _trial(
            wanted,
            predicted=found.predicted.get(wanted),
            measured=None,
            state=outcome.state.value,
            memory=found.memory.get(wanted),
            shm=what.limits.shm(wanted),
            why=outcome.why,
        )
        for wanted, outcome in found.failed.items()
        if wanted not in all_stats
    ]


def _measured(what: Outcomes, stats: SettingStats) -> TrialRow:
    own = stats.setting == what.baseline.setting
    return _trial(
        stats.setting,
        predicted=None if own else what.found.predicted.get(stats.setting),
        measured=stats.rate,
        state="ok",
        low=stats.low,
        high=stats.high,
        speedup=stats.rate / what.baseline.rate,
        memory=what.found.memory.get(stats.setting),
        shm=what.limits.shm(stats.setting),
    )


HEAD = ("workers", "prefetch", "pin", "persistent", "batch", "samples/s", "", "predicted", "memory", "in queues", "")


def words(sweep: Sweep, script: str) -> str:
    """Return the sweep in lines: every setting with its rate, and the best one in a sentence."""
    lines = [f"gputune sweep-loader: {clean(script)}, the loader built at {clean(sweep.where, 60)}", ""]
    return "\n".join([*lines, *aligned([HEAD, *cells(sweep)]), "", *sentences(sweep)])


def cells(sweep: Sweep) -> list[tuple[str, ...]]:
    """Return a row of cells for each setting that was tried, as HEAD names them."""
    return [_cells(row, sweep) for row in sweep.trials]


def sentences(sweep: Sweep) -> list[str]:
    """Return what loading could bring at most, where that was measured, the best settings, and what else is said."""
    most = (
        []
        if sweep.ceiling is None
        else [f"about {number(sweep.ceiling)} samples/s would be the most, if batches cost nothing"]
    )
    return [*most, best(sweep), *sweep.says]


def _cells(row: TrialRow, sweep: Sweep) -> tuple[str, ...]:
    chosen = sweep.measured and is_same(row, sweep.best) and not row.replayed
    own = is_same(row, sweep.baseline) and not row.replayed
    on_device = f", {size(row.device_memory)} of the device" if row.device_memory else ""
    remark = f"with batches that cost nothing{on_device}" if row.replayed else _named(best=chosen, own=own)
    if row.state != "ok":
        remark = f"{row.state}: {clean(row.why, 100)}"
    elif row.why:
        remark = clean(row.why, 100)
    spread = f" ({number(row.low)}–{number(row.high)})" if row.low is not None and row.high is not None else ""
    return (
        str(row.num_workers),
        _text(row.prefetch_factor),
        "yes" if row.pin_memory else "no",
        "yes" if row.persistent_workers else "no",
        _text(row.batch_size),
        f"{number(row.measured)}{spread}" if row.measured is not None else "–",
        f"×{row.speedup:.2f}" if row.speedup is not None else "",
        number(row.predicted) if row.predicted is not None else "",
        size(row.memory) if row.memory is not None else "",
        size(row.shm) if row.shm is not None else "",
        remark,
    )


def _named(*, best: bool, own: bool) -> str:
    return "best" if best else "as it is" if own else ""


def is_same(row: TrialRow, other: MeasuredSetting) -> bool:
    """Return whether a trial was one of these settings."""
    return all(getattr(row, name) == getattr(other, name) for name in NAMES)


def _text(value: int | None) -> str:
    return "–" if value is None else str(value)


def best(sweep: Sweep) -> str:
    """Return the best settings and what they bring, in a sentence."""
    took = f"{sweep.starts} start{'s' if sweep.starts != 1 else ''} in {duration(sweep.seconds)}"
    so_far = "the best so far" if sweep.stopped else "best"
    if _plain(sweep.best) == _plain(sweep.baseline):
        if any(not is_same(row, sweep.baseline) for row in sweep.trials):
            return f"{so_far}: the script's own settings; nothing that was tried is surely faster ({took})"
        if sweep.stopped or not sweep.measured:
            return f"nothing but the script's own settings was measured: which ones are best is not known ({took})"
        return f"best: the script's own settings; no others are predicted to be faster ({took})"
    changed = {n: v for n, v in _plain(sweep.best).items() if v is not None and v != _plain(sweep.baseline)[n]}
    shown = ", ".join(f"{name}={value}" for name, value in changed.items())
    if sweep.speedup.low <= 1:
        return f"{so_far}: {shown}: as fast as the script's own settings, and cheaper ({took})"
    return f"{so_far}: {shown}: {times(sweep.speedup)} the samples/s of the script's own settings ({took})"


def _plain(row: MeasuredSetting) -> Mapping[str, int | bool | None]:
    fields = msgspec.structs.asdict(row)
    fields.pop("samples_per_s")
    return fields
