"""What is taken comes back: from frames, from Parquet, and while the run goes on."""

import json
import random
import shutil
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Metric, Note, Open, Sample, Stack
from gputune.recording import Damaged, NewerRun, NotARun, Recording, load, readings


def by_kind(ticks):
    """Return everything of a list of ticks, sorted, by type."""
    found = {}
    for tick in ticks:
        for reading in tick:
            found.setdefault(type(reading).__name__, []).append(reading)
    found["Event"].sort()
    found["Guest"].sort()
    found["Note"].sort(key=repr)
    found["Sample"].sort(key=lambda s: (s.t, s.column))
    return found


def test_a_run_that_goes_on_reads_back_as_it_was_taken(unfinished, ticks) -> None:
    _, folder = unfinished(3)
    assert by_kind(readings(folder)) == by_kind(ticks(3))


def test_a_finished_run_reads_back_the_same_where_times_are_on_the_grid(finished, ticks) -> None:
    assert by_kind(readings(finished(3))) == by_kind(ticks(3))


def test_a_process_is_known_before_its_records_and_its_end_comes_after_them(finished) -> None:
    flat = [reading for tick in readings(finished(2)) for reading in tick]
    for process in (0, 1):
        mine = [r for r in flat if not isinstance(r, Sample | Stack) and r.process == process]
        kinds = [type(r) for r in mine]
        assert kinds[0] is Guest
        assert kinds[: kinds.index(Event)] == ([Guest, Note] if process == 0 else [Guest])
        assert kinds[-1] is (Open if process == 0 else Guest)
        assert kinds.count(Event) == len(kinds) - (3 if process == 0 else 2)


def test_records_come_in_the_order_in_which_they_ended_inner_ones_first(finished) -> None:
    events = [r.record for tick in readings(finished(2)) for r in tick if isinstance(r, Event) and r.process == 0]
    assert [e.t1 for e in events] == sorted(e.t1 for e in events)
    span = next(i for i, e in enumerate(events) if e.kind == Kind.SPAN)
    batch = next(i for i, e in enumerate(events) if e.kind == Kind.BATCH and e.t0 <= events[span].t0 < e.t1)
    assert span < batch


def test_a_fetch_comes_before_its_batch_where_the_grid_makes_them_alike(tmp_path) -> None:
    recording = Recording.create(tmp_path / "run", {"command": ["python"], "started": 0})
    events = []
    for number in range(1, 40):
        t0 = number * 20_000_000
        events.append(Event(0, Record(Kind.FETCH, 1, t0 + 300, t0 + 9_999_700, 9_000_000, -1, 0, 0, 8)))
        events.append(Event(0, Record(Kind.BATCH, 0, t0, t0 + 10_000_000, 1, number, -1, 0, 8)))
    recording.take(events)
    recording.close()
    kinds = [r.record.kind for tick in readings(tmp_path / "run") for r in tick if isinstance(r, Event)]
    assert kinds == [Kind.FETCH, Kind.BATCH] * 39


def test_records_come_no_later_than_the_tick_that_brought_them(finished) -> None:
    for tick in list(readings(finished(2)))[:-1]:
        at = max(r.t for r in tick if isinstance(r, Sample))
        assert all(r.record.t1 <= at for r in tick if isinstance(r, Event))


def test_nested_records_stay_nested_whatever_the_grid_does_to_them(tmp_path: Path) -> None:
    outer = [Record(Kind.SPAN, 9, i * 33_333_333, i * 33_333_333 + 20_000_001, 1, 0, 0, 0, 0) for i in range(300)]
    inner = [Record(Kind.BATCH, 0, r.t0 + 7, r.t1 - 9, 1, n, 0, 0, 1) for n, r in enumerate(outer)]
    recording = Recording.create(tmp_path / "run", {})
    recording.take(
        [event for pair in zip(inner, outer, strict=True) for event in (Event(0, pair[0]), Event(0, pair[1]))]
    )
    recording.close()
    found = [r.record for tick in readings(tmp_path / "run") for r in tick]
    spans = [r for r in found if r.kind == Kind.SPAN]
    for batch, span in zip([r for r in found if r.kind == Kind.BATCH], spans, strict=True):
        assert span.t0 <= batch.t0 <= batch.t1 <= span.t1
    mean = sum(r.t1 - r.t0 for r in spans) / len(spans)
    assert mean == pytest.approx(20_000_001, rel=0.002)


def test_what_is_shorter_than_the_grid_is_right_on_average(tmp_path: Path) -> None:
    chance = random.Random(2)
    t, made = 1_000_000_000, []
    for _ in range(4000):
        t += int(chance.gauss(40e6, 3e6))
        made.append(Event(0, Record(Kind.FETCH, 0, t, t + 30_000_000, 70_000, -1, 430_000, 0, 1)))
    recording = Recording.create(tmp_path / "run", {})
    recording.take(made)
    recording.close()
    found = load(tmp_path / "run").tables["fetches"]
    assert sum(found["cpu"].to_pylist()) / 4000 == pytest.approx(70e-6, rel=0.1)
    assert sum(found["collate"].to_pylist()) / 4000 == pytest.approx(430e-6, rel=0.02)
    assert set(found["queued"].to_pylist()) == {None}


def test_a_record_of_a_kind_or_span_that_is_not_known_yet_is_kept_whole(tmp_path: Path) -> None:
    odd = [
        Event(3, Record(77, 5, 1000_000, 3000_000, -1, 2, 3, 4, 5)),
        Event(3, Record(Kind.SPAN, 99, 5000_000, 6000_000, 1, 2, 3, 4, 5)),
    ]
    lasting = Event(4, Record(Kind.WORKER, 0, 7000_000, 0, 1, 2, 0, 0, 0))
    recording = Recording.create(tmp_path / "run", {})
    recording.take([*odd, lasting])
    recording.close()
    assert [r for tick in readings(tmp_path / "run") for r in tick] == [*odd, lasting]


def test_a_column_that_appears_later_is_null_before(finished) -> None:
    samples = load(finished(1)).tables["samples"]
    assert samples["memory.job"].to_pylist() == [None] * 3 + [float(1 << 30)] + [None] * 6
    assert samples["gpu.energy[0]"].to_pylist() == [70 * tick for tick in range(10)]
    assert str(samples.schema.field("cpu.busy").type) == "float"


def test_several_samples_of_one_column_in_one_tick_become_rows_of_their_own(tmp_path: Path) -> None:
    metric, other = Metric("a", "1", ""), Metric("b", "1", "")
    taken = [Sample(metric, 1000, 1.0), Sample(metric, 2000, 2.0), Sample(other, 3000, 3.0), Sample(metric, 4000, 4.0)]
    recording = Recording.create(tmp_path / "run", {})
    recording.take(taken)
    recording.close()
    rows = load(tmp_path / "run").tables["samples"]
    assert rows["a"].to_pylist() == [1.0, 2.0, 4.0]
    assert rows["b"].to_pylist() == [3.0, None, None]


def test_a_gauge_is_right_to_a_twentieth_of_a_percent_and_bytes_to_24_bits(tmp_path: Path) -> None:
    noisy, exact = Metric("n", "ratio", ""), Metric("b", "B", "")
    values = [0.123456789, 1 / 3, 0.999999, 1e-9, -0.7]
    recording = Recording.create(tmp_path / "run", {})
    for place, value in enumerate(values):
        recording.take([Sample(noisy, place * 1000, value), Sample(exact, place * 1000, 16_777_215.0)])
    recording.take([Sample(noisy, 9000, float("nan")), Sample(exact, 9000, float("inf"))])
    recording.close()
    rows = load(tmp_path / "run").tables["samples"]
    assert rows["n"].to_pylist()[:5] == pytest.approx(values, rel=0.0005)
    assert rows["b"].to_pylist()[:5] == [16_777_215.0] * 5
    assert (rows["n"][5].as_py(), rows["b"][5].as_py()) == (None, None)


def test_stacks_and_what_was_open_come_back(finished) -> None:
    flat = [reading for tick in readings(finished(1)) for reading in tick]
    (stack,) = [r for r in flat if isinstance(r, Stack)]
    assert (stack.pid, stack.frames, stack.count) == (10, ("main (train.py:9)", "step (train.py:50)"), 3)
    assert [r.kind for r in flat if isinstance(r, Open)] == [Kind.BATCH]


def test_run_json_tells_the_command_the_processes_and_what_changed(unfinished) -> None:
    recording, folder = unfinished(2)
    recording.about(exit_code=3, unavailable={"nvml": "no library"})
    recording.close()
    about = load(folder).about
    assert about["command"] == ["python", "train.py"]
    assert (about["exit_code"], about["finished"], about["schema_version"], about["workers"]) == (3, True, 1, 1)
    (process,) = about["processes"]
    assert process["pid"] == 10
    assert process["notes"] == [{"n": "loader", "id": 1, "where": "train.py:41"}]


def test_a_run_in_which_nothing_was_read_is_a_run(tmp_path: Path) -> None:
    Recording.create(tmp_path / "run", {}).close()
    assert list(readings(tmp_path / "run")) == []
    assert load(tmp_path / "run").tables["batches"].num_rows == 0


def test_only_the_owner_may_read_it(finished) -> None:
    folder = finished(1)
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def test_a_folder_without_a_run_says_what_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="it has no") as caught:
        list(readings(tmp_path))
    assert "gputune watch" in caught.value.hint
    for text in ("{", "[]", '{"schema_version": 1}', '{"schema_version": 1, "unix_minus_monotonic_ns": "soon"}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(NotARun, match="damaged"):
            load(tmp_path)


def test_a_damaged_table_is_named_rather_than_left_out(finished) -> None:
    folder = finished(1)
    file = next((folder / "batches").iterdir())
    whole = file.read_bytes()
    for damaged in (whole[:-10], whole[:100] + bytes(8) + whole[108:], b""):
        file.write_bytes(damaged)
        with pytest.raises(Damaged, match=f"`batches/{file.name}` is damaged") as caught:
            list(readings(folder))
        assert "findings.json" in caught.value.hint


def test_a_run_without_samples_can_be_read(finished) -> None:
    folder = finished(1)
    shutil.rmtree(folder / "samples")
    assert any(isinstance(reading, Event) for tick in readings(folder) for reading in tick)
    assert len(load(folder).tables["batches"])


def test_a_run_of_a_newer_gputune_is_refused_with_the_way_out(finished) -> None:
    folder = finished(1)
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "schema_version": 2, "gputune": "9.9"}))
    with pytest.raises(NewerRun, match=r"schema version 2, written by gputune 9\.9") as caught:
        load(folder)
    assert caught.value.hint == "pip install --upgrade gputune"


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    recording = Recording.create(tmp_path / "run", {})
    assert recording.broken
    recording.close()
    assert list((tmp_path / "real").iterdir()) == []
