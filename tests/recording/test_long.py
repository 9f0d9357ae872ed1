"""Long runs: segments, the bound of the folder, and one schema for all parts."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputune.core.sample import Metric, Reading, Sample
from gputune.recording import Recording, load, readings, writing
from gputune.recording.turning import ParquetFailed, Turning

NAMES = [Metric(f"m.{n}", "1", "", kind="counter") for n in range(20)]
LATE = Metric("late", "1", "")


def ticks(count: int, late_from: int) -> Iterator[list[Reading]]:
    """Yield ticks of twenty counters; a column more from tick `late_from` on."""
    for tick in range(count):
        t = tick * 100_000_000
        found: list[Reading] = [Sample(m, t, hash((tick, n)) & 0xFFFFFFFFFFFF) for n, m in enumerate(NAMES)]
        yield [*found, Sample(LATE, t, float(tick))] if tick >= late_from else found


def long_run(folder: Path, count: int, *, late_from: int, max_size: int) -> Recording:
    """Record so many ticks; wait for each segment to be turned, as hours between them would."""
    recording = Recording.create(folder, {}, max_size=max_size)
    clock = 10**18
    for tick, taken in enumerate(ticks(count, late_from)):
        recording.take(taken)
        if tick % 100 == 99:
            deadline = time.monotonic() + 60
            while True:
                clock += 10**9
                recording.beat(clock)
                if len(list(folder.glob("frames-*"))) <= 1 or time.monotonic() > deadline:
                    break
                time.sleep(0.01)
    return recording


def test_a_long_run_becomes_segments_that_read_as_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT", 60_000)
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 60_000)
    recording = long_run(tmp_path / "run", 1000, late_from=900, max_size=1 << 30)
    assert len(list((tmp_path / "run" / "samples").glob("*.parquet"))) >= 2
    assert len(list(readings(tmp_path / "run"))) == 1000
    recording.close()
    assert not recording.broken
    parts = sorted((tmp_path / "run" / "samples").glob("*.parquet"))
    run = load(tmp_path / "run")
    assert [str(t) for t in run.tables["samples"]["late"].to_pylist()[898:902]] == ["None", "None", "900.0", "901.0"]
    assert len(list(readings(tmp_path / "run"))) == 1000
    import pyarrow.parquet as pq

    assert {tuple(pq.ParquetFile(part).schema_arrow.names) for part in parts} == {
        tuple(run.tables["samples"].column_names)
    }
    assert not list((tmp_path / "run").rglob(".*"))


@pytest.mark.slow
def test_a_folder_keeps_below_its_size_by_dropping_the_oldest_but_the_first_and_says_so(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(writing, "LEAST_SEGMENT", 40_000)
    folder = tmp_path / "run"
    recording = long_run(folder, 1500, late_from=1500, max_size=120_000)
    recording.close()
    assert not recording.broken
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    assert size <= 120_000 * 1.2
    about = load(folder).about
    dropped = [gap["segment"] for gap in about["dropped"]]
    assert dropped
    kept = sorted(int(path.stem) for path in (folder / "samples").glob("*.parquet"))
    assert kept[0] == 1
    assert max(dropped) < kept[1]
    assert all(gap["from"] < gap["to"] and gap["bytes"] > 0 for gap in about["dropped"])
    times = load(folder).tables["samples"]["time"].to_pylist()
    assert len(times) == len(list(readings(folder))) < 1500
    assert times == sorted(times)


def test_segments_that_cannot_be_turned_are_tried_thrice_then_said(tmp_path: Path) -> None:
    turning = Turning(str(tmp_path / "nothing"), 0, 1)
    for _ in range(2):
        turning.start([1])
        assert turning.wait() == []
    turning.start([1])
    with pytest.raises(ParquetFailed, match="3 segments could not be made Parquet"):
        turning.wait()
