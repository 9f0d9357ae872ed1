"""A run's history in points: what a replay of every record adds up to, from its columns alone."""

import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from gputune.core.events import BatchCode, Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Reading, Sample, now
from gputune.recording import Damaged, NotARun, Recording, Series, columns, readings, series, writing

START = 5_000_000_000_000
S = 1_000_000_000
BUSY = Metric("gpu.busy", "ratio", "Share of time with a kernel running.", per="gpu")
READ = Metric("disk.read", "B", "Bytes read.", kind="counter", per="disk")
STALL = Metric("pressure.cpu", "us", "Time in which a task waited.", kind="counter")
SLOW = Metric("memory.job", "B", "Memory of the tree, on a slow beat.")


def recorded(folder: Path, ticks: Iterable[list[Reading]], *, over: float | None = None) -> Path:
    """Write these ticks, ten a beat; ended after `over` s, still going on where that is None."""
    recording = Recording.create(folder, {"command": ["python"], "started": START}, max_size=1 << 30)
    begun = now()
    for number, tick in enumerate(ticks, 1):
        recording.take(tick)
        if number % 10 == 0:
            recording.beat(begun + number * S)
    recording.beat(begun + 10**6 * S)
    if over is not None:
        recording.about(ended=START + round(over * S))
        recording.close()
    assert not recording.broken
    return folder


def busy(values: Iterable[float], device: str = "0", at: float = 0.05) -> list[list[Reading]]:
    """Return a tick each 0.1 s, from `at` s on, in which the device is that busy."""
    return [[Sample(BUSY, START + round((at + n / 10) * S), value, device)] for n, value in enumerate(values)]


def batch(process: int, began: float, wait: float, ready: int = 0, code: int = 0) -> Event:
    t0, t1 = START + round(began * S), START + round((began + wait) * S)
    return Event(process, Record(Kind.BATCH, code, t0, t1, 1, 0, ready, 0, 16))


def span(code: SpanCode, began: float, lasted: float) -> Event:
    t0 = START + round(began * S)
    return Event(0, Record(Kind.SPAN, code, t0, t0 + round(lasted * S), 0, 0, 0, 0, 0))


def mean(found: Series, column: str) -> list[float | None]:
    return list(found.columns[column].mean)


def test_least_mean_and_greatest_of_each_point_over_an_ended_run_and_one_that_goes_on(tmp_path: Path) -> None:
    ticks = busy([0.0, 0.5, 1.0, 0.5, 0.25] * 4)
    for folder in (recorded(tmp_path / "on", ticks), recorded(tmp_path / "ended", ticks, over=2.0)):
        found = series(folder, ["gpu.busy[0]"], 4)
        assert found.times == pytest.approx([0, 0.5, 1.0, 1.5], abs=0.05)
        assert (found.since, found.until, found.step) == pytest.approx((0, 2, 0.5), abs=0.06)
        line = found.columns["gpu.busy[0]"]
        assert line.unit == "ratio"
        assert (line.min, line.max) == ((0.0,) * 4, (1.0,) * 4)
        assert line.mean == pytest.approx([0.45] * 4)


def test_a_metric_without_an_instance_is_each_of_its_columns_and_what_was_not_measured_is_not_there(
    tmp_path: Path,
) -> None:
    ticks = [[*a, *b] for a, b in zip(busy([0.25] * 10), busy([0.75] * 10, "1"), strict=True)]
    folder = recorded(tmp_path / "run", ticks, over=1.0)
    found = series(folder, ["gpu.busy", "gpu.power", "spans.seconds/s[sync]", "batches.nothing", "gpu"], 1)
    assert {name: line.mean for name, line in found.columns.items()} == {"gpu.busy[0]": (0.25,), "gpu.busy[1]": (0.75,)}
    assert columns(folder) == {"gpu.busy[0]": "ratio", "gpu.busy[1]": "ratio"}


def test_a_part_of_the_run_is_seen_closer_and_no_closer_than_a_tick(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", busy([n / 128 for n in range(100)]), over=10.0)
    found = series(folder, ["gpu.busy"], 1000, since=4.0, until=5.0)
    assert found.times == pytest.approx([4 + n / 10 for n in range(10)])
    assert mean(found, "gpu.busy[0]") == pytest.approx([(40 + n) / 128 for n in range(10)], rel=1e-3)
    beyond = series(folder, ["gpu.busy"], 10, since=9.5, until=60.0)
    assert (beyond.since, beyond.until) == (9.5, 10.0)
    assert series(folder, ["gpu.busy"], 10, since=20.0).times == ()


def test_a_counter_is_what_it_grows_by_a_second_across_segments_and_never_falls(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT", 4000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 4000)
    at = [(START + n * S, 1000 * (n if n < 60 else n - 60)) for n in range(120)]
    ticks: list[list[Reading]] = [[Sample(READ, t, v, "sda"), Sample(STALL, t, v * 500)] for t, v in at]
    folder = recorded(tmp_path / "run", ticks, over=120.0)
    assert len(list((folder / "samples").iterdir())) > 1
    found = series(folder, ["disk.read", "pressure.cpu"], 12)
    line = found.columns["disk.read[sda]"]
    assert (line.unit, found.columns["pressure.cpu"].unit) == ("B/s", "ratio")
    assert mean(found, "pressure.cpu") == pytest.approx([0.5] * 12)
    assert line.min == line.mean == line.max == pytest.approx([1000.0] * 12)


def test_a_slow_reading_tells_of_the_time_since_the_one_before_it_and_a_long_hole_is_a_gap(tmp_path: Path) -> None:
    slow: list[list[Reading]] = [[Sample(SLOW, START + n * S, float(n * 1024))] for n in (10, 20, 30, 90, 100)]
    folder = recorded(tmp_path / "run", slow, over=100.5)
    found = mean(series(folder, ["memory.job"], 20), "memory.job")
    assert found == [None, 10240, 20480, 20480, 30720, 30720, *[None] * 11, 92160, 102400, 102400]


def test_records_by_process_by_name_and_by_the_second(tmp_path: Path) -> None:
    ticks: list[list[Reading]] = [
        [*tick, batch(0, n / 10, 0.05, ready=2), batch(1, n / 10, 0.025, ready=4)]
        for n, tick in enumerate(busy([0.5] * 20))
    ]
    ticks[0] += [Guest(p, 10 + p, 1, START, 0, "main", "ring") for p in (0, 1)]
    ticks[-1] += [batch(0, 1.95, 0.0, code=BatchCode.END), batch(0, 1.9, 0.0, code=BatchCode.UNTIMED)]
    folder = recorded(tmp_path / "run", ticks, over=2.0)
    asked = ["batches.ready", "batches.ready[1]", "batches/s", "batches.samples/s[0]", "batches.wait/s", "batches.wait"]
    found = series(folder, asked, 2)
    assert mean(found, "batches.ready")[0] == pytest.approx(3)
    assert found.columns["batches.ready"].max[0] == 4
    assert mean(found, "batches.ready[1]") == [4, 4]
    assert mean(found, "batches/s") == pytest.approx([20, 21])
    assert mean(found, "batches.samples/s[0]") == pytest.approx([160, 176])
    assert mean(found, "batches.wait/s") == pytest.approx([0.75, 0.75], rel=0.01)
    assert mean(found, "batches.wait") == pytest.approx([0.0375, 0.0375], rel=0.01)
    assert [found.columns[name].unit for name in asked] == ["1", "1", "1/s", "1/s", "ratio", "s"]


def test_a_long_span_lies_in_every_point_that_it_lasts_and_sums_to_what_it_lasted(tmp_path: Path) -> None:
    ticks = busy([0.5] * 100)
    ticks[50].append(span(SpanCode.CHECKPOINT, 1.5, 3.25))
    ticks[60].append(span(SpanCode.SYNC, 5.25, 0.5))
    folder = recorded(tmp_path / "run", ticks, over=10.0)
    found = series(folder, ["spans.seconds/s[checkpoint]", "spans.seconds/s[sync]"], 10)
    shares = mean(found, "spans.seconds/s[checkpoint]")
    assert shares == pytest.approx([0, 0.5, 1, 1, 0.75, 0, 0, 0, 0, 0])
    assert mean(found, "spans.seconds/s[sync]") == pytest.approx([0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0])
    late = series(folder, ["spans.seconds/s[checkpoint]"], 1, since=2.0, until=4.0)
    assert mean(late, "spans.seconds/s[checkpoint]") == [1.0]


def test_what_is_not_measured_while_nothing_was_recorded_is_a_gap_and_not_zero(tmp_path: Path) -> None:
    ticks = [*busy([0.5] * 10), *busy([0.5] * 10, at=60)]
    ticks[0].append(batch(0, 0.0, 0.01))
    ticks[-1].append(batch(0, 60.9, 0.01))
    found = series(recorded(tmp_path / "run", ticks, over=61.0), ["batches/s", "gpu.busy"], 61)
    assert mean(found, "batches/s") == [1.0, *[None] * 59, 1.0]
    assert mean(found, "gpu.busy[0]") == [0.5, *[None] * 59, 0.5]


def test_it_agrees_with_a_replay_of_the_whole_run(finished) -> None:
    folder = finished(7)
    found = series(folder, ["batches.wait", "fetches.seconds", "gpu.busy", "steps/s[optimizer]"], 7)
    events = [r for tick in readings(folder) for r in tick if isinstance(r, Event)]
    batches = [e.record for e in events if e.record.kind == Kind.BATCH]
    for line in found.columns.values():
        assert all(a is None or a <= b <= c for a, b, c in zip(line.min, line.mean, line.max, strict=True))
    waits = [(r.t1 - r.t0) / S for r in batches]
    assert mean(found, "batches.wait")[3] == pytest.approx(math.fsum(waits) / len(waits))
    assert mean(found, "steps/s[optimizer]")[3] == pytest.approx(50, rel=0.05)


def test_a_run_that_rolls_is_read_from_both_kinds_of_segment(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT", 8000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 8000)
    ended = recorded(tmp_path / "run", busy([n % 10 / 8 for n in range(600)]), over=60.0)
    assert len(list((ended / "samples").iterdir())) > 2
    assert series(ended, ["gpu.busy"], 6).columns["gpu.busy[0]"].mean == pytest.approx([4.5 / 8] * 6, rel=1e-3)
    assert mean(series(ended, ["gpu.busy"], 3, since=30.0, until=33.0), "gpu.busy[0]") == pytest.approx([4.5 / 8] * 3)


def slowly(folder: Path, ticks: Iterable[list[Reading]], *, over: float) -> Path:
    """Write these ticks in segments of some ten minutes; each becomes Parquet before the next one does."""
    recording = Recording.create(folder, {"command": ["python"], "started": START}, max_size=1 << 30)
    clock = now()
    for number, tick in enumerate(ticks, 1):
        recording.take(tick)
        until = time.monotonic() + 60
        while number % 10 == 0:
            clock += S
            recording.beat(clock)
            if len(list(folder.glob("frames-*"))) <= 1:
                break
            assert time.monotonic() < until
            time.sleep(0.01)
    recording.about(ended=START + round(over * S))
    recording.close()
    return folder


def test_points_of_whole_cells_say_the_same_without_a_look_at_the_samples(tmp_path: Path, monkeypatch) -> None:
    """Segments that became Parquet while the run went on have cells; the last one has none, and is read as it is."""
    monkeypatch.setattr(writing, "SEGMENT", 24_000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 24_000)
    ticks = [
        [
            *([Sample(BUSY, START + 2 * n * S, n % 7 / 8, "0")] if n % 3 else []),
            Sample(READ, START + 2 * n * S + 1000, 4096 * n if n < 500 else 4096 * (n - 500), "sda"),
            batch(0, 2.0 * n - 0.5, 0.25),
        ]
        for n in range(1000)
        if not 600 < n < 700
    ]
    folder = slowly(tmp_path / "run", ticks, over=2000.0)
    names = ["gpu.busy", "disk.read", "batches.wait/s"]
    assert 2 < len(list((folder / "cells").iterdir())) < len(list((folder / "samples").iterdir()))
    near = series(folder, names, 8)
    assert (near.step, len(near.times)) == (300.0, 7)  # five cells each, for 250 s
    (folder / "samples" / "00002.parquet").rename(tmp_path / "aside")  # nobody asks for it
    assert series(folder, names, 8) == near
    (tmp_path / "aside").rename(folder / "samples" / "00002.parquet")
    cells = folder / "cells"
    cells.rename(tmp_path / "cells")
    far = series(folder, names, 8)
    assert far.times == near.times
    assert far.columns.keys() == near.columns.keys()
    for name, line in far.columns.items():
        for kind in ("min", "mean", "max"):
            assert getattr(near.columns[name], kind) == pytest.approx(getattr(line, kind), nan_ok=True), (name, kind)


def test_cells_that_are_damaged_are_named_and_the_samples_are_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT", 8_000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 8_000)
    ticks = [[Sample(BUSY, START + 2 * n * S, n % 7 / 8, "0")] for n in range(1000)]
    folder = slowly(tmp_path / "run", ticks, over=2000.0)
    whole = series(folder, ["gpu.busy"], 8)
    first, second, third, *_ = sorted((folder / "cells").iterdir())
    first.write_bytes(first.read_bytes()[:-40])
    second.write_bytes((folder / "samples" / second.name).read_bytes())  # no cells
    third.unlink()
    third.symlink_to(first)
    lost: dict[str, str] = {}
    found = series(folder, ["gpu.busy"], 8, lost=lost)
    assert list(lost) == [f"cells/{each.name}" for each in (first, second, third)]
    assert mean(found, "gpu.busy[0]") == pytest.approx(mean(whole, "gpu.busy[0]"))
    with pytest.raises(Damaged, match="cells/"):
        series(folder, ["gpu.busy"], 8)


def test_a_damaged_part_is_left_out_and_named_or_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT", 8000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 8000)
    folder = recorded(tmp_path / "run", busy([0.5] * 600), over=60.0)
    part = sorted((folder / "samples").iterdir())[1]
    part.write_bytes(part.read_bytes()[:-40])
    with pytest.raises(Damaged, match=part.name):
        series(folder, ["gpu.busy"], 60)
    lost: dict[str, str] = {}
    found = mean(series(folder, ["gpu.busy"], 60, lost=lost), "gpu.busy[0]")
    assert list(lost) == [f"samples/{part.name}"]
    assert found[0] == found[-1] == 0.5


def test_what_is_no_run_or_no_stretch_of_time_is_refused(tmp_path: Path, finished) -> None:
    with pytest.raises(NotARun):
        series(tmp_path, ["gpu.busy"], 1)
    folder = finished(1)
    for points, since, until in ((0, None, None), (1, 3.0, 2.0), (1, math.nan, None), (1, None, math.inf)):
        with pytest.raises(ValueError, match="no points"):
            series(folder, ["gpu.busy"], points, since, until)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    folder = recorded(tmp_path / "empty", [], over=0.0)
    yield folder
    shutil.rmtree(folder)


def test_a_run_in_which_nothing_was_read_has_no_points(empty: Path) -> None:
    assert series(empty, ["gpu.busy", "batches.wait"], 10).times == ()
    assert columns(empty) == {}


def test_what_it_returns_can_be_written_as_json_whatever_was_recorded(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", busy([math.inf, math.nan, 0.5, 1e300]), over=0.4)
    line = series(folder, ["gpu.busy"], 4).columns["gpu.busy[0]"]
    json.dumps([line.min, line.mean, line.max], allow_nan=False)
    assert 0.5 in line.mean
