"""Kills, full disks, damage: what was on the disk stays readable, and nothing escapes into the run."""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Metric, Note, Sample, now
from gputune.recording import NewerRun, NotARun, Recording, load, parquet, readings
from gputune.recording import folder as folders
from gputune.recording.about import CRC, read
from gputune.recording.gap import LOST, unread, unwritten
from gputune.report.rejudging import _miss

A = Metric("a", "1", "")


def events(folder: Path) -> list[Event]:
    """Return every record of a run."""
    return [r for tick in readings(folder) for r in tick if isinstance(r, Event)]


def test_cut_anywhere_the_frames_give_every_whole_second_that_was_written(unfinished) -> None:
    _, folder = unfinished(3)
    frames = folder / "frames-00001"
    data = frames.read_bytes()
    sound = events(folder)
    before = -1
    for size in range(0, len(data), 611):
        frames.write_bytes(data[:size])
        found = events(folder)
        kept = set(found)
        assert found == [e for e in sound if e in kept]
        assert len(found) >= before
        before = len(found)
    assert before >= len(sound) * 2 // 3


@pytest.mark.slow
def test_a_flipped_bit_loses_no_more_than_the_frame_it_hit_and_changes_nothing(unfinished) -> None:
    _, folder = unfinished(3)
    frames = folder / "frames-00001"
    data = frames.read_bytes()
    sound = {repr(r) for tick in readings(folder) for r in tick if not isinstance(r, Sample)}
    samples = {repr(r) for tick in readings(folder) for r in tick if isinstance(r, Sample)}
    chance = random.Random(3)
    for _ in range(150):
        torn = bytearray(data)
        bit = chance.randrange(len(data) * 8)
        torn[bit // 8] ^= 1 << bit % 8
        frames.write_bytes(torn)
        found = [r for tick in readings(folder) for r in tick]
        assert {repr(r) for r in found if not isinstance(r, Sample)} <= sound
        assert {repr(r) for r in found if isinstance(r, Sample)} <= samples
        assert len(found) >= (len(sound) + len(samples)) * 0.5


def test_a_flipped_bit_in_parquet_is_never_silently_wrong(finished) -> None:
    folder = finished(5)
    part = folder / "batches" / "00001.parquet"
    data = part.read_bytes()
    sound = parquet.decode(data)
    chance = random.Random(7)
    noticed = 0
    for _ in range(400):
        torn = bytearray(data)
        at = chance.randrange(4, _footer(data))
        torn[at] ^= 1 << chance.randrange(8)
        try:
            assert parquet.decode(bytes(torn)).equals(sound)  # a page's header may hold bits that nobody reads
        except (OSError, ValueError, UnicodeDecodeError):
            noticed += 1
    assert noticed > 300


def _footer(data: bytes) -> int:
    """Return where Parquet's footer begins: it carries no checksum, pages do."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def test_parquet_that_does_not_read_back_leaves_the_frames(unfinished, monkeypatch) -> None:
    recording, folder = unfinished(2)
    sound = events(folder)
    encode = parquet.encode
    monkeypatch.setattr(parquet, "encode", lambda table: encode(table.slice(1)))
    recording.close()
    assert "did not read back" in recording.broken
    assert (folder / "frames-00001").exists()
    assert events(folder) == sound
    assert load(folder).about["finished"] is True  # the recorder has come to its end, and told how the run did


def test_a_killed_recorder_loses_no_more_than_the_second_it_was_in_and_its_next_life_goes_on(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from gputune.recording import Recording
        from gputune.core.sample import Metric, Sample, now
        recording = Recording.create(Path(sys.argv[1]), {"command": ["x"]})
        for n in range(25):
            recording.take([Sample(Metric("a", "1", ""), n * 1000, float(n))])
            if n % 10 == 9:
                recording.beat(10**18 + n * 10**9)
        print("ready", flush=True)
        sys.stdin.read()
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    with (tmp_path / "run" / "frames-00001").open("ab") as frames:
        frames.write(b"\x89GPT half a frame")
    second = Recording.resume(tmp_path / "run")
    second.take([Sample(A, 99_000, 99.0), Sample(Metric("late", "1", ""), 99_000, 1.0)])
    second.close()
    assert not second.broken
    run = load(tmp_path / "run")
    assert run.tables["samples"]["a"].to_pylist() == [*map(float, range(20)), 99.0]
    assert run.about["command"] == ["x"]
    assert not list((tmp_path / "run").glob("frames-*"))


@pytest.mark.parametrize("why", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_ends_the_recording_only_and_what_was_written_stays(unfinished, monkeypatch, why) -> None:
    recording, folder = unfinished(2)
    sound = events(folder)
    write = os.write

    def fails(fd: int, data: bytes) -> int:
        if len(data) > 100:
            return write(fd, data[:100])
        raise OSError(why, os.strerror(why))

    with monkeypatch.context() as disk:
        disk.setattr(folders.os, "write", fails)
        recording.take([Sample(A, 1, 1.0)])
        recording.beat(10**19)
        assert recording.broken.startswith(os.strerror(why))
        first = recording.broken
        recording.take([Sample(A, 2, 1.0)])
        recording.beat(10**20)
        recording.about(exit_code=0)
        recording.close()
    assert recording.broken == first
    assert events(folder) == sound


def test_a_disk_that_fails_for_a_while_costs_that_while(unfinished, monkeypatch) -> None:
    recording, folder = unfinished(2)
    before = len(events(folder))

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(folders.os, "write", fails)
        for second in range(1, 5):
            recording.take([Sample(A, now(), float(second))])
            recording.beat(10**18 + second * 10**9)
        assert recording.broken
        assert len(events(folder)) == before
    for second in range(5, 100):
        recording.take([Sample(A, now(), float(second))])
        recording.beat(10**18 + second * 10**9)
    assert not recording.broken
    recording.close()
    assert not recording.broken
    (missed,) = recording.missed
    assert missed["why"] == os.strerror(errno.ENOSPC)
    run = load(folder)
    assert (run.about["finished"], run.about["missed"]) == (True, [missed])
    assert str(missed["from"]) <= str(missed["to"])
    kept = [value for value in run.tables["samples"]["a"].to_pylist() if value is not None]
    assert kept[-1] == 99.0
    assert len(kept) >= 99 - 8  # tried after 1, 2, 4 s
    assert len(events(folder)) == before


def test_who_came_while_the_disk_failed_is_known_when_it_does_not(unfinished, monkeypatch) -> None:
    """A training that begins in the gap is one: later batches are of its loader, and what is gone is counted."""
    recording, folder = unfinished(1)
    came = Guest(5, 4321, 1, now(), 0, "main", "ring")
    loader = Note(5, {"n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0})
    iterator = Event(5, Record(Kind.ITERATOR, 0, now(), now(), 1, 1, 0, 1, 0))
    batch = Event(5, Record(Kind.BATCH, 0, now(), now(), 1, 0, 0, 0, 32))

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(folders.os, "write", fails)
        for second, readings in enumerate(([came, loader, iterator], [batch] * 3, [batch] * 4), 1):
            recording.take([*readings, Sample(A, now(), 1.0)])
            recording.beat(10**18 + second * 10**9)
    assert recording.broken
    for second in range(5, 100):
        recording.take([Event(5, batch.record._replace(t1=now(), b=second))])
        recording.beat(10**18 + second * 10**9)
    recording.close()
    (process,) = [one for one in load(folder).about["processes"] if one["pid"] == 4321]
    assert {"n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0} in process["notes"]
    lost = sum(note["records"] for note in process["notes"] if note["n"] == "lost")
    written = load(folder).tables["batches"].num_rows
    assert lost >= 7
    assert written + lost == 50 + 3 + 4 + 95


def test_parts_of_a_segment_that_was_not_turned_whole_are_not_missed(unfinished) -> None:
    """A disk that fills up while frames become tables leaves some tables, and the frames with all of it."""
    recording, folder = unfinished(5)
    recording.close()
    assert list((folder / "batches").iterdir())
    lost: dict[str, str] = {}
    shutil.rmtree(folder / "events")
    _miss(folder, lost)
    assert lost == {"events": "it is not there"}
    (folder / "frames-00001").write_bytes(b"")
    lost.clear()
    _miss(folder, lost)
    assert lost == {}


def test_a_disk_that_stays_full_is_tried_ever_more_rarely(unfinished, monkeypatch) -> None:
    recording, _folder = unfinished(1)
    tries = []

    def fails(*_: object) -> int:
        tries.append(1)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folders.os, "write", fails)
    for second in range(1, 3600):
        recording.take([Sample(A, now(), 1.0)])
        recording.beat(10**18 + second * 10**9)
    assert len(tries) < 80
    monkeypatch.undo()
    recording.close()
    assert "stops here" in recording.broken
    assert len(recording.missed) == 1


def test_a_folder_that_cannot_be_made_costs_the_recording_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recording = Recording.create(tmp_path / "file" / "run", {})
    assert recording.broken
    recording.take([Sample(A, 1, 1.0)])
    recording.beat(10**19)
    recording.close()


def test_another_run_is_never_written_over(finished) -> None:
    folder = finished(1)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    recording = Recording.create(folder, {"command": ["other"]})
    assert "another run" in recording.broken
    recording.take([Sample(A, 1, 1.0)])
    recording.close()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_run_json_is_whole_whenever_it_is_read(unfinished) -> None:
    recording, folder = unfinished(1)
    for number in range(50):
        recording.about(number=number)
        assert json.loads((folder / "run.json").read_text())["number"] == number
    assert not list(folder.glob(".run.json*"))


def test_no_changed_bit_of_run_json_is_read_as_truth(finished) -> None:
    folder = finished(1)
    file = folder / "run.json"
    data, whole = file.read_bytes(), read(folder)
    for bit in range(len(data) * 8):
        torn = bytearray(data)
        torn[bit // 8] ^= 1 << bit % 8
        file.write_bytes(torn)
        with contextlib.suppress(NotARun, NewerRun):
            assert read(folder) == whole  # it was a space between two fields


def test_run_json_without_a_checksum_is_one_of_an_older_version_or_changed_by_hand(finished) -> None:
    folder = finished(1)
    file = folder / "run.json"
    whole = read(folder)
    file.write_text(file.read_text().replace("train.py:41", "x.py:41"))
    with pytest.raises(NotARun, match="changed by hand") as refused:
        read(folder)
    assert f"`{CRC}`" in refused.value.hint
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if CRC not in line))
    assert read(folder).keys() == whole.keys()
    assert read(folder) != whole


def test_how_a_run_ended_is_told_on_a_disk_that_is_full_to_the_end(unfinished, monkeypatch) -> None:
    recording, folder = unfinished(1)
    write = os.write
    assert (folder / ".room").stat().st_blocks * 512 >= 1 << 16

    def full(descriptor: int, data: bytes) -> int:
        if (folder / ".room").exists():  # nothing is left beside what was taken at the start
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(folders.os, "write", full)
    for second in range(1, 20):
        recording.take([Sample(A, now(), 1.0)])
        recording.beat(10**18 + second * 10**9)
    recording.about(exit_code=3)
    recording.close()
    told = load(folder).about
    assert (told["finished"], told["exit_code"]) == (True, 3)
    assert [gap["why"] for gap in told["missed"]] == [os.strerror(errno.ENOSPC)]
    assert not (folder / ".room").exists()


def test_what_was_not_measured_for_want_of_room_is_told_with_its_length() -> None:
    gap = {
        "from": "2026-11-21 10:00:00+00:00",
        "to": "2026-11-21 10:01:30.500000+00:00",
        "why": "No space left on device",
    }
    assert unwritten([gap]) == "for 90.5 s it could not be written: No space left on device"
    lost = {**gap, "why": LOST}
    assert unread([lost, gap]) == "nothing was read for 90.5 s: the recorder was lost, and started again"
    assert unread([lost, lost]) == "nothing was read for 3 min 1 s: the recorder was lost, and started again 2 times"
    assert unread([gap]) == unwritten([lost]) == ""
    for odd in ({}, {"why": 3}, {"from": 7, "to": None, "why": LOST}, "x", {**lost, "to": "2026-11-21 10:00:00"}):
        assert isinstance(unread([odd]) + unwritten([odd]), str)
