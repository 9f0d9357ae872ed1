"""A recording read on from a cursor: every row once, in order, whatever happens to reader, writer and file."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from gputune.core.sample import Metric, Sample, now
from gputune.core.units import NS
from gputune.recording import Recording
from gputune.recording.encoding import declared
from gputune.recording.pulling import Cursor, Pullable

BUSY = Metric("gpu.busy", "ratio", "Share of time with a kernel running.", per="gpu")
ENERGY = Metric("gpu.energy", "J", "Energy since boot.", kind="counter", per="gpu")
CORES = Metric("cpu.busy", "cores", "Cores in use.")
BEGAN = 10**12


class Writer:
    """Writes a recording tick by tick; each tick is on the disk at once. Tick k is `k` J, k / 1024 busy."""

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        self.folder = folder
        self._at = now()
        self.recording = Recording.resume(folder) if resume else Recording.create(folder, {})

    def write(self, ticks: range, *, late: bool = False) -> None:
        for k in ticks:
            t = BEGAN + k * NS
            tick = [Sample(ENERGY, t, k, "0"), Sample(BUSY, t, k % 512 / 1024, "0")]
            self.recording.take([*tick, Sample(CORES, t, 1.0)] if late and k % 3 == 0 else tick)
            self._at += 2 * NS
            self.recording.beat(self._at)
        assert self.recording.broken == ""


def read(pullable: Pullable, at: Cursor, columns: dict[int, str], **options: object) -> tuple[list[tuple], Cursor]:
    """Pull until there is no more; return (t, {column: value}) of each row."""
    rows: list[tuple] = []
    while True:
        piece = pullable.since(at, **options)  # type: ignore[arg-type]
        if piece.anew:
            columns.clear()
        for id_, about in piece.columns:
            metric, instance = declared(about)
            columns[id_] = f"{metric.name}[{instance}]"
        batch = piece.batch.to_pydict()
        for t, ids, values in zip(batch["t"], batch["column"], batch["value"], strict=True):
            rows.append((t, {columns[id_]: value for id_, value in zip(ids, values, strict=True)}))
        assert not piece.missed
        at = piece.next
        if not piece.more:
            return rows, at


def ticks(rows: Sequence[tuple]) -> list[int]:
    """Return which ticks the rows are."""
    return [round(values["gpu.energy[0]"]) for _, values in rows]


def test_nothing_is_there_before_anything_was_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    pullable = Pullable(writer.folder)
    assert read(pullable, Cursor(), {}) == ([], Cursor())
    pullable.close()
    writer.recording.close()


def test_rows_come_once_as_they_are_written(tmp_path: Path) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    pullable, at = Pullable(writer.folder), Cursor()
    seen = []
    for start in range(0, 40, 4):
        writer.write(range(start, start + 4), late=True)
        rows, at = read(pullable, at, columns)
        seen += rows
    assert ticks(seen) == list(range(40))
    assert seen[7] == (BEGAN + 7 * NS, {"gpu.energy[0]": 7.0, "gpu.busy[0]": 7 / 1024})
    assert seen[9][1]["cpu.busy[]"] == 1.0
    pullable.close()
    writer.recording.close()


def test_a_new_reader_goes_on_from_the_old_ones_cursor(tmp_path: Path) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(5))
    first = Pullable(writer.folder)
    rows, at = read(first, Cursor(), columns)
    first.close()
    writer.write(range(5, 9))
    second = Pullable(writer.folder)
    more, _ = read(second, at, columns)
    assert ticks(rows + more) == list(range(9))
    second.close()
    writer.recording.close()


@pytest.mark.parametrize("held", [True, False], ids=["open", "thawed"])
def test_what_has_become_parquet_meanwhile_is_read_on_in_the_same_place(tmp_path: Path, held: bool) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(6), late=True)
    pullable = Pullable(writer.folder)
    rows, at = read(pullable, Cursor(), columns)
    writer.write(range(6, 150), late=True)
    writer.recording.close()
    assert not list(writer.folder.glob("frames-*"))
    if not held:
        pullable.close()
        pullable = Pullable(writer.folder)
    more, _ = read(pullable, at, columns)
    assert ticks(rows + more) == list(range(150))
    assert [t for t, _ in rows + more] == pytest.approx([BEGAN + k * NS for k in range(150)], abs=1000)
    assert more[-1][1]["gpu.busy[0]"] == pytest.approx(149 / 1024, rel=1e-3)
    assert more[3][1]["cpu.busy[]"] == 1.0
    pullable.close()


def test_segments_follow_each_other(tmp_path: Path) -> None:
    folder, columns = tmp_path / "run", dict[int, str]()
    writer = Writer(folder)
    writer.write(range(3))
    pullable = Pullable(folder)
    rows, at = read(pullable, Cursor(), columns)
    for start in (3, 6, 9):
        writer = Writer(folder, resume=True)  # the one before was killed
        writer.write(range(start, start + 3), late=True)
    more, at = read(pullable, at, columns)
    assert ticks(rows + more) == list(range(12))
    assert read(pullable, at, columns)[0] == []
    writer.recording.close()
    assert read(pullable, at, columns)[0] == []
    pullable.close()


def test_a_frame_that_is_not_whole_yet_is_waited_for(tmp_path: Path) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(4))
    file = next(writer.folder.glob("frames-*"))
    whole = file.read_bytes()
    pullable = Pullable(writer.folder)
    os.truncate(file, len(whole) - 5)
    rows, at = read(pullable, Cursor(), columns)
    assert ticks(rows) == [0, 1, 2]
    with file.open("ab") as opened:
        opened.write(whole[-5:])
    assert ticks(read(pullable, at, columns)[0]) == [3]
    pullable.close()
    writer.recording.close()


def test_rows_stay_counted_where_only_some_metrics_are_wanted(tmp_path: Path) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(9), late=True)
    pullable = Pullable(writer.folder)
    rows, at = read(pullable, Cursor(), columns, only={"cpu.busy"})
    assert [values for _, values in rows] == [{"cpu.busy[]": 1.0} if k % 3 == 0 else {} for k in range(9)]
    assert at.row == 9
    pullable.close()
    writer.recording.close()


def test_a_dropped_segment_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for start in (0, 3, 6):
        writer = Writer(folder, resume=start > 0)
        writer.write(range(start, start + 3))
    next(folder.glob("frames-*2")).unlink(missing_ok=True)
    segments = sorted(int(file.name[-5:]) for file in folder.glob("frames-*"))
    pullable = Pullable(folder)
    piece = pullable.since(Cursor(segments[0] + 1, 1, 2, "frames"))
    assert piece.missed == (segments[1] != segments[0] + 1)
    assert piece.batch.num_rows == 3
    pullable.close()
    writer.recording.close()


def test_one_may_begin_with_the_newest_segment(tmp_path: Path) -> None:
    folder, columns = tmp_path / "run", dict[int, str]()
    for start in (0, 3, 6):
        writer = Writer(folder, resume=start > 0)
        writer.write(range(start, start + 3))
    pullable = Pullable(folder)
    rows, at = read(pullable, Cursor(-1), columns)
    assert ticks(rows) == [6, 7, 8]
    writer.write(range(9, 11))
    assert ticks(read(pullable, at, columns)[0]) == [9, 10]
    pullable.close()
    writer.recording.close()


@pytest.mark.parametrize(
    "cursor", [Cursor(99, 0), Cursor(1, 10**9), Cursor(1, 0, 10**6, "frames"), Cursor(2, 5, 1, "x")]
)
def test_a_cursor_from_nowhere_harms_nobody(tmp_path: Path, cursor: Cursor) -> None:
    writer = Writer(tmp_path / "run")
    writer.write(range(3))
    pullable = Pullable(writer.folder)
    assert pullable.since(cursor).batch.num_rows <= 3
    pullable.close()
    writer.recording.close()


def test_a_small_bite_is_at_least_a_frame(tmp_path: Path) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(20))
    pullable = Pullable(writer.folder)
    assert pullable.since(Cursor(), most=10).more
    assert ticks(read(pullable, Cursor(), columns, most=10)[0]) == list(range(20))
    pullable.close()
    writer.recording.close()


def test_no_row_is_lost_or_doubled_however_readers_and_writers_come_and_go(tmp_path: Path) -> None:
    chance, folder, columns = random.Random(7), tmp_path / "run", dict[int, str]()
    writer, pullable, at = Writer(folder), None, Cursor()
    written, seen = 0, list[int]()
    for _ in range(120):
        count = chance.randrange(4)
        writer.write(range(written, written + count))
        written += count
        match chance.randrange(5):
            case 0:
                writer.recording.leave()
                writer = Writer(folder, resume=True)
            case 1 if pullable is not None:
                pullable.close()
                pullable = None
        if chance.random() < 0.7:
            pullable = pullable or Pullable(folder)
            rows, at = read(pullable, at, columns)
            seen += ticks(rows)
            assert seen == list(range(written))
    writer.recording.close()
    if pullable is not None:
        pullable.close()


def test_who_asks_is_not_kept_waiting_while_a_segment_is_thawed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, columns = Writer(tmp_path / "run"), dict[int, str]()
    writer.write(range(6))
    writer.recording.close()
    monkeypatch.setattr("gputune.recording.pulling.SHORT", 0.001)
    pullable = Pullable(writer.folder)
    piece = pullable.since(Cursor())
    assert (piece.batch.num_rows, piece.more, piece.next) == (0, True, Cursor(1))
    monkeypatch.setattr("gputune.recording.pulling.SHORT", 30.0)
    assert ticks(read(pullable, piece.next, columns)[0]) == list(range(6))
    given_up = Pullable(writer.folder)
    monkeypatch.setattr("gputune.recording.pulling.SHORT", 0.001)
    given_up.since(Cursor())
    for each in (pullable, given_up):
        each.close()
