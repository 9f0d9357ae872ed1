"""A run folder followed while it grows: nothing twice, nothing left out."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from gputune.core.events import Event, Record
from gputune.core.sample import Sample, now
from gputune.recording import Recording, readings
from gputune.recording.about import offset, read
from gputune.recording.following import Follower


def flat(ticks) -> list:
    """Return everything of a list of ticks, in an order of its own."""
    plain = (r._replace(record=Record(*map(int, r.record))) if isinstance(r, Event) else r for t in ticks for r in t)
    return sorted(plain, key=repr)


def follow(folder) -> Follower:
    """Return a follower of a folder."""
    return Follower(folder, offset(read(folder)))


def all_of(follower: Follower) -> list:
    """Return all that there is now."""
    found = follower.look()
    while follower.behind:
        found += follower.look()
    return found


def test_each_look_brings_what_is_new(tmp_path, ticks) -> None:
    every = ticks(4)
    recording = Recording.create(tmp_path / "run", {"started": 0})
    follower = follow(tmp_path / "run")
    assert all_of(follower) == []
    seen = []
    for part in range(4):
        for readings_ in every[10 * part : 10 * part + 10]:
            recording.take(readings_)
        recording.beat(now() + (part + 1) * 10**10)
        new = all_of(follower)
        assert new
        seen += new
        assert all_of(follower) == []
    assert flat(seen) == flat(every)
    recording.close()


def test_columns_that_were_declared_before_are_known_after(tmp_path, ticks) -> None:
    recording = Recording.create(tmp_path / "run", {"started": 0})
    follower = follow(tmp_path / "run")
    for part, readings_ in enumerate(ticks(1)):
        recording.take(readings_)
        recording.beat(now() + (part + 1) * 10**10)
        (tick,) = [t for t in all_of(follower) if any(isinstance(r, Sample) for r in t)]
        assert {r.column for r in tick if isinstance(r, Sample)} >= {"cpu.busy", "gpu.busy[0]", "gpu.energy[0]"}
    recording.close()


def test_a_finished_run_is_followed_like_one_that_goes_on(finished) -> None:
    folder = finished(3)
    assert flat(all_of(follow(folder))) == flat(readings(folder))


def test_what_became_parquet_between_two_looks_is_not_seen_twice(unfinished, ticks) -> None:
    recording, folder = unfinished(3)
    follower = follow(folder)
    before = all_of(follower)
    more = [[r._replace(t=r.t + 3 * 10**9) for r in tick if isinstance(r, Sample)] for tick in ticks(1)]
    for tick in more:
        recording.take(tick)
    recording.close()
    after = all_of(follower)
    assert len(before) >= 30
    assert [r for tick in after for r in tick if isinstance(r, Sample)] == [r for tick in more for r in tick]
    assert all_of(follower) == []


def test_a_torn_frame_waits_for_its_rest(unfinished) -> None:
    _, folder = unfinished(2)
    (file,) = folder.glob("frames-*")
    data = file.read_bytes()
    whole = flat(readings(folder))
    file.write_bytes(data[: len(data) - 100])
    follower = follow(folder)
    seen = all_of(follower)
    assert 0 < len(flat(seen)) < len(whole)
    with file.open("r+b") as rest:
        rest.seek(len(data) - 100)
        rest.write(data[-100:])
    assert flat(seen + all_of(follower)) == whole


def held(folder: Path) -> int:
    """Return how many descriptors of this process lead into a folder."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            found += str(descriptor.readlink()).startswith(str(folder))
    return found


def test_between_two_looks_nothing_is_held_open(unfinished) -> None:
    _, folder = unfinished(2)
    before = held(folder)
    follower = follow(folder)
    assert all_of(follower)
    assert held(folder) == before


def test_another_folder_with_its_name_is_not_read(unfinished, tmp_path) -> None:
    _, folder = unfinished(2)
    follower = follow(folder)
    assert all_of(follower)
    folder.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", folder)
    with pytest.raises(FileNotFoundError):
        follower.look()
