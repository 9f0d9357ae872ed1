"""A run folder that somebody made to harm its reader: it is no run, or damaged, and neither takes long nor much."""

import errno
import json
import os
import random
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gputune.core import opening
from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Reading
from gputune.launch.job import seats
from gputune.recording import (
    Damaged,
    NotARun,
    Recording,
    encoding,
    frames,
    load,
    parquet,
    readings,
    replaying,
    tables,
)
from gputune.recording.about import sealed
from gputune.recording.folder import Folder
from gputune.recording.following import Follower
from gputune.recording.frames import FrameTable, frame
from gputune.recording.rows import ROWS
from gputune.report.rejudging import rejudge
from gputune.verdict import packed

Make = Callable[..., Path]
LONGEST = 20  # s, on a machine that does other things as well: what blocks never ends
NESTED = "[" * 200_000
MS = 1_000_000


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """End a test that waits for a FIFO."""

    def late(*_: object) -> None:
        raise TimeoutError("it blocks")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def replaced(file: Path, how: str) -> None:
    """Put something in a file's place that is no file."""
    file.unlink(missing_ok=True)
    if how == "fifo":
        os.mkfifo(file)
    elif how == "device":
        file.symlink_to("/dev/zero")
    elif how == "folder":
        file.mkdir()
    else:
        with file.open("wb") as sparse:
            sparse.truncate(1 << 40)


@pytest.mark.parametrize("how", ["fifo", "device", "folder", "huge"])
def test_what_is_no_file_of_a_run_is_not_read(finished: Make, how: str) -> None:
    for name in ("run.json", "batches/00001.parquet"):
        folder = finished(1, f"run-{name[:3]}")
        replaced(folder / name, how)
        with pytest.raises((NotARun, Damaged)):
            list(readings(folder))
        with pytest.raises((NotARun, Damaged)):
            load(folder)


@pytest.mark.parametrize("how", ["fifo", "device", "huge"])
def test_documents_beside_a_recording_are_not_read_either(finished: Make, how: str) -> None:
    folder = finished(1)
    replaced(folder / "findings.json", how)
    replaced(folder / packed.FILE, how)
    assert rejudge(folder).command == ["python", "train.py"]
    assert packed.read(folder) is None


@pytest.mark.parametrize("how", ["fifo", "device", "huge"])
def test_frames_that_are_no_file_are_not_read(unfinished: Callable[..., tuple[object, Path]], how: str) -> None:
    _, folder = unfinished(1)
    replaced(folder / "frames-00001", how)
    with pytest.raises(Damaged):
        list(readings(folder))


def test_links_inside_of_a_run_folder_lead_nowhere(finished: Make, tmp_path: Path) -> None:
    folder = finished(1)
    other = finished(1, "other")
    (folder / "batches").rename(tmp_path / "elsewhere")
    (folder / "batches").symlink_to(tmp_path / "elsewhere")
    assert len(load(folder).tables["batches"]) == 0
    (folder / "rank-00000").symlink_to(other)
    assert seats(str(folder)) == []


@pytest.mark.parametrize("text", [NESTED, '{"schema_version": ' + NESTED, '{"a": ' * 100_000])
def test_json_without_an_end_of_brackets_is_damage(finished: Make, text: str) -> None:
    folder = finished(1)
    (folder / "findings.json").write_text(text)
    (folder / packed.FILE).write_text(text)
    assert rejudge(folder).command == ["python", "train.py"]
    assert packed.read(folder) is None
    (folder / "run.json").write_text(text)
    with pytest.raises(NotARun, match="damaged"):
        list(readings(folder))


def segment(folder: Path, *parts: bytes) -> None:
    """Give the run one segment of frames, after our own schemas, and nothing else."""
    for file in folder.glob("*/*.parquet"):
        file.unlink()
    (folder / "frames-00009").write_bytes(encoding.schema_frames() + b"".join(parts))


def evil(offsets: tuple[int, int]) -> bytes:
    """Return a frame of one tick whose columns begin and end where there is nothing."""
    many = list(range(77))
    columns = [pa.array([value], field.type) for value, field in zip((1, many, [1.0] * 77), ROWS, strict=True)]
    whole = bytes(pa.RecordBatch.from_arrays(columns, schema=ROWS).serialize())
    at = whole.rindex(struct.pack("ii", 0, 77))
    return frame(FrameTable.SAMPLES, whole[:at] + struct.pack("ii", *offsets) + whole[at + 8 :])


@pytest.mark.parametrize("offsets", [(0, 2**31 - 1), (-(2**30), 1), (2**30, 2**30 + 4), (5, 1)])
def test_offsets_that_lead_out_of_a_frame_kill_nobody(finished: Make, offsets: tuple[int, int]) -> None:
    folder = finished(1)
    about = [pa.array([1], pa.uint16()), pa.array([json.dumps(["a", "1", "", "gauge", "", ""])])]
    columns = pa.RecordBatch.from_arrays(about, schema=encoding.SCHEMAS[FrameTable.COLUMNS])
    segment(folder, frame(FrameTable.COLUMNS, bytes(columns.serialize())), evil(offsets))
    code = f"""
from pathlib import Path
from gputune.core.errors import GputuneError
from gputune.recording import readings, load
from gputune.recording.following import Follower
from gputune.recording.pulling import Cursor, Pullable
def follow(folder):
    follower = Follower(folder, 0)
    follower.look()
    print(*("damaged" for _ in follower.lost))
for read in (lambda f: list(readings(f)), load, follow, lambda f: Pullable(f).since(Cursor())):
    try:
        read(Path({str(folder)!r}))
    except GputuneError as error:
        print("damaged" if "damaged" in str(error) else error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["damaged"] * 4


@pytest.mark.parametrize("bomb", ["rows", "words", "lists"])
def test_a_small_file_that_becomes_gigabytes_is_damage(finished: Make, bomb: str) -> None:
    folder = finished(1)
    rows = 1 << 22 if bomb == "rows" else 1 << 12
    word = "x" * (1 << 20) if bomb == "words" else "x"
    many = 1 << 14 if bomb == "lists" else 1
    text = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([word]))
    lists = pa.ListArray.from_arrays(
        pa.array(range(0, rows * many + 1, many), pa.int32()), pa.repeat("f", rows * many) if many > 1 else text
    )
    columns = {
        "time": pa.repeat(pa.scalar(0, pa.int64()).cast(tables.US), rows),
        "pid": pa.repeat(pa.scalar(1, pa.int32()), rows),
    }
    table = pa.table({**columns, "frames": lists, "count": columns["pid"]})
    (folder / "stacks").mkdir(exist_ok=True)
    file = folder / "stacks" / "00001.parquet"
    pq.write_table(table, file, compression="zstd", use_dictionary=True)
    assert file.stat().st_size < 1 << 20
    with pytest.raises(Damaged, match="stacks"):
        list(readings(folder))


@pytest.mark.parametrize("name", ["batches", "samples", "notes", "stacks"])
def test_small_files_that_each_hold_little_too_much_are_damage_in_sum(finished: Make, name: str) -> None:
    folder = finished(1)
    table = parquet.decode((folder / name / "00001.parquet").read_bytes())
    rows = min(parquet.ROWS, parquet.ALWAYS // table.num_columns // 2)
    same = [pa.repeat(table[column][0], rows) for column in table.column_names]
    data = parquet.encode(pa.Table.from_arrays(same, schema=table.schema))
    kept = 0
    for number in range(2, 12):  # each of them alone would be read
        (folder / name / f"{number:05d}.parquet").write_bytes(data)
    lost: dict[str, str] = {}
    with Folder(folder) as opened:
        for segment in replaying.segments(opened, lost):
            kept += sum(len(part) * part.num_columns for part in segment.tables.values())
    assert kept <= parquet.ALWAYS + parquet.DENSEST * sum(file.stat().st_size for file in folder.glob("*/*.parquet"))
    assert 3 <= len(lost) < 10
    assert all("as no run has so many in so little" in why for why in lost.values())


def test_who_follows_a_run_bounds_its_files_in_sum(finished: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ALWAYS", 10_000)
    monkeypatch.setattr(parquet, "DENSEST", 0)
    folder = finished(3)
    assert len(list(readings(folder, {}))) > 1
    for number in range(2, 40):
        for name in ("samples", "batches"):
            (folder / name / f"{number:05d}.parquet").write_bytes((folder / name / "00001.parquet").read_bytes())
    lost: dict[str, str] = {}
    list(readings(folder, lost))
    follower = Follower(folder, json.loads((folder / "run.json").read_text())["unix_minus_monotonic_ns"])
    while follower.behind:
        follower.look()
    assert follower.lost == lost
    assert 0 < len(lost) < 2 * 38
    with pytest.raises(Damaged, match="no run has so many"):
        load(folder)


def test_a_loop_more_regular_than_any_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ALWAYS", 0)
    recording = Recording.create(tmp_path / "run", {"started": 0})
    chance = random.Random(2)
    found: list[Reading] = [Guest(0, 10, 1, 0, 0, "main", "ring")]
    at = 0
    for n in range(20_000):
        wait, step = (int(part * MS * (1 + 0.002 * chance.random())) for part in (2, 8))
        found.append(Event(0, Record(Kind.BATCH, 0, at, at + wait, 1, n, -1, 0, 16)))
        found.append(Event(0, Record(Kind.STEP, 0, at + wait, at + wait + step, 7, 0, 0, 0, 0)))
        at += wait + step
    recording.take(found)
    recording.close()
    assert not recording.broken
    assert sum(isinstance(one, Event) for tick in readings(tmp_path / "run") for one in tick) == 40_000


def test_markers_of_frames_that_are_none_cost_no_more_than_reading_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    head = frames._HEAD.pack(frames.MAGIC, 1, frames.VERSION, 0, 0)
    count = 4096
    size = (len(head) + 4) * count
    starts = range(0, size, len(head) + 4)
    data = b"".join(
        frames._HEAD.pack(frames.MAGIC, 1, frames.VERSION, 0, size - at - frames.HEADER) + b"\0\0\0\0" for at in starts
    )
    summed = 0
    crc32 = zlib.crc32

    def counted(part: bytes, value: int = 0) -> int:
        nonlocal summed
        summed += len(part)
        return crc32(part, value)

    monkeypatch.setattr(frames.zlib, "crc32", counted)
    assert list(frames.whole(data)) == []
    assert summed < 20 * len(data)


NOTES = ["[" * 100_000, "[]", "7", "{}", '{"process": []}', '{"process": "x", "pid": {}}', '{"n": {"a": []}}']


@pytest.mark.parametrize("what", ["guest", "note", "open"])
@pytest.mark.parametrize("fields", NOTES)
def test_what_was_never_said_by_a_guest_is_damage_or_left_alone(finished: Make, what: str, fields: str) -> None:
    folder = finished(1)
    row = [pa.array([5]), pa.array([what]), pa.array([0]), pa.array([fields])]
    batch = pa.RecordBatch.from_arrays(row, schema=encoding.SCHEMAS[FrameTable.NOTES])
    segment(folder, frame(FrameTable.NOTES, bytes(batch.serialize())))
    with suppress(Damaged):
        rejudge(folder)


@pytest.mark.parametrize("about", ["[]", "[" * 100_000, "[1, 2, 3, 4, 5, 6]", '[[], "", "", "", "", ""]', "7"])
def test_a_column_that_declares_nonsense_is_damage(unfinished: Callable[..., tuple[object, Path]], about: str) -> None:
    _, folder = unfinished(1)
    row = [pa.array([1], pa.uint16()), pa.array([about])]
    batch = pa.RecordBatch.from_arrays(row, schema=encoding.SCHEMAS[FrameTable.COLUMNS])
    with (folder / "frames-00001").open("ab") as file:
        file.write(frame(FrameTable.COLUMNS, bytes(batch.serialize())))
    with pytest.raises(Damaged, match="frames-00001"):
        list(readings(folder))


@pytest.mark.parametrize("clocks", [10**19, -(10**30), "1" * 5000])
def test_clocks_beyond_all_time_are_damage(finished: Make, clocks: object) -> None:
    folder = finished(1)
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_bytes(sealed({**about, "unix_minus_monotonic_ns": clocks}))
    with pytest.raises(NotARun, match="damaged"):
        list(readings(folder))


def test_another_users_run_says_whose_it_is(finished: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = finished(1)
    monkeypatch.setattr(opening, "name_of", lambda uid: f"user {uid}")

    def refused(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as closed:
        closed.setattr(opening.os, "open", refused)
        closed.setattr(opening.os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(NotARun, match=rf"Permission denied: it is user {os.getuid()}'s"):
            list(readings(folder))
