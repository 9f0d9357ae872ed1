"""This machine and its runs, and one recording, as feeds."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.feeds import local
from gputune.feeds.local import LocalFeed
from gputune.feeds.one_run import GONE
from gputune.feeds.recorded import RecordedFeed
from gputune.feeds.rows import Update

Make = Callable[..., Any]
PATIENCE = 60.0  # s


def everything(feed: LocalFeed | RecordedFeed, since: int = 0) -> Update:
    """Return the last update, once nothing more is to be had at once."""
    update = feed.poll(since)
    end = time.monotonic() + PATIENCE
    while update.more:
        assert time.monotonic() < end
        update = feed.poll(since)
    return update


def test_this_machine_is_a_row_with_what_can_be_read_of_it() -> None:
    seen: list[int] = []
    feed = LocalFeed("here", find=list, beside=lambda readings: seen.append(len(readings)))
    try:
        update = everything(feed)
        (node,) = update.nodes
        assert (node.name, node.link) == ("here", "local")
        assert node.memory_total is not None
        assert node.memory_total > 2**20
        assert node.cpus is not None
        assert node.seen == pytest.approx(time.time(), abs=60)
        assert seen[0] > 3
    finally:
        feed.close()


def test_all_devices_are_there_not_only_those_of_a_job(
    simgpu: Make, monkeypatch: pytest.MonkeyPatch, eventually: Make
) -> None:
    simgpu(devices=3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    feed = LocalFeed("here", find=list)
    try:
        eventually(lambda: [d.index for d in feed.poll(0).nodes[0].devices if d.busy is not None] == list("012"))
    finally:
        feed.close()


def test_a_run_is_found_told_once_and_stays_when_it_has_ended(recorded: Make) -> None:
    recording, folder = recorded(4)
    feed = LocalFeed("here", find=lambda: [folder])
    try:
        update = everything(feed)
        (run,) = update.runs
        assert (run.id, run.state) == ("here/run", "live")
        assert update.nodes[0].runs == ("here/run",)
        assert feed.poll(update.until).runs == ()
        assert feed.poll(0).runs == (run,)
        recording.about(exit_code=0)
        recording.close()
        (ended,) = everything(feed, update.until).runs
        assert ended.state == "ended"
        feed.seek("here/run", 2.0)
        (then,) = feed.poll(feed.poll(0).until - 1).runs
        assert then.at == 2.0
    finally:
        feed.close()


def test_a_node_is_in_the_jobs_of_its_live_runs(recorded: Make) -> None:
    made = [recorded(4, name) for name in ("a", "b", "c")]
    for (recording, _), job in zip(made, ("77", "4711", "77"), strict=True):
        recording.about(environment={"SLURM_JOB_ID": job})
    feed = LocalFeed("here", find=lambda: [folder for _, folder in made])
    try:
        assert everything(feed).nodes[0].job == "4711, 77"
        made[1][0].about(exit_code=0)
        for recording, _ in made:
            recording.close()
        assert feed.poll(0).nodes[0].job == ""
    finally:
        feed.close()


def test_another_run_in_the_place_of_one_that_is_gone_is_a_run_of_its_own(
    recorded: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "LOOK_S", 0.0)
    first, folder = recorded(4)
    feed = LocalFeed("here", find=lambda: [folder] if folder.is_dir() else [])
    try:
        (before,) = everything(feed).runs
        first.close()
        shutil.rmtree(folder)
        (gone,) = everything(feed).runs
        assert (gone.why, gone.verdict) == (GONE, before.verdict)
        second, _ = recorded(2)
        second.about(started=10**12 + 10**9)
        end = time.monotonic() + PATIENCE
        while (row := everything(feed).runs[0]).why:
            assert time.monotonic() < end
        assert (row.state, row.started) == ("live", before.started + 1)
        second.close()
    finally:
        feed.close()


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    feed = LocalFeed("here", find=lambda: [tmp_path])
    try:
        assert feed.poll(0).runs == ()
    finally:
        feed.close()


def test_a_recording_is_a_machine_and_a_run(finished: Make) -> None:
    feed = RecordedFeed(finished())
    update = everything(feed)
    (node,), (run,) = update.nodes, update.runs
    assert (node.name, node.link, node.runs) == (run.node, "recorded", (run.id,))
    assert node.devices[0].name == "a card"
    assert node.devices[0].busy == 0.25
    assert run.id == feed.run
    assert feed.poll(update.until + 1).runs == ()
    feed.seek(run.id, 3.0)
    (then,) = feed.poll(feed.poll(0).until).runs or feed.poll(0).runs
    assert then.at == 3.0
    feed.close()


def test_looking_changes_nothing(finished: Make) -> None:
    folder = finished()
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*") if file.is_file()}
    feed = RecordedFeed(folder)
    everything(feed)
    feed.close()
    after = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*") if file.is_file()}
    assert before == after
    assert list(folder.parent.iterdir()) == [folder]
