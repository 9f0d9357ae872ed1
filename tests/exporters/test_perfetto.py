"""The trace holds against its format, and what happened lies in it where the recording says."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gputune.core.sample import Sample
from gputune.exporters import ExportRequest, perfetto
from gputune.recording import Recording, load
from tests.exporters.conftest import BEGAN, EVERY, MS, POWER, batch

Events = list[dict[str, Any]]
SCHEMA = json.loads((Path(__file__).parent / "trace.schema.json").read_text())


def events(file: Path) -> Events:
    document = json.loads(gzip.decompress(file.read_bytes()))
    jsonschema.validate(document, SCHEMA)
    found: Events = document["traceEvents"]
    return found


def exported(folder: Path, said: list[str] | None = None, **wish: Any) -> Events:
    sent = perfetto.export(
        ExportRequest(run=folder, typed=str(folder), say=([] if said is None else said).append, **wish)
    )
    assert sent.lost == {}
    return events(folder / "perfetto.json.gz")


def tracks(found: Events) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}


def test_a_batch_lies_where_the_recording_says(run: Callable[..., Path]) -> None:
    folder = run(5)
    found = exported(folder)
    recorded = load(folder)
    start = BEGAN + int(str(recorded.about["unix_minus_monotonic_ns"]))
    batches = [e for e in found if e["name"] == "loader.wait"]
    rows = recorded.tables["batches"].to_pylist()
    assert len(batches) == len(rows) == 25
    by_number = {e["args"]["batch"]: e for e in batches}
    for row in rows:
        event = by_number[row["index"]]
        at = round(row["time"].timestamp() * 1e6) + row["us"] - start // 1000
        assert (event["ts"], event["dur"]) == (at, round(row["wait"] * 1e6))
        assert tracks(found)[event["pid"], event["tid"]] == "training thread"


def test_each_batch_is_tied_to_the_making_of_it(run: Callable[..., Path]) -> None:
    found = exported(run(5))
    ends = {kind: {e["id"]: e for e in found if e["ph"] == kind} for kind in "sf"}
    assert len(ends["s"]) == 25
    for number, begin in ends["s"].items():
        end = ends["f"][number]
        making, taking = slice_at(found, begin), slice_at(found, end)
        assert (making["name"], taking["name"]) == ("fetch", "loader.wait")
        assert making["args"]["batch"] == taking["args"]["batch"]
        worker = tracks(found)[making["pid"], making["tid"]]
        assert worker == f"worker {taking['args']['batch'] % 2} (pid {11 + taking['args']['batch'] % 2})"


def slice_at(found: Events, end: dict[str, Any]) -> dict[str, Any]:
    """Return what lasts on the track of an arrow's end while it is there."""
    lasting = [e for e in found if e["ph"] == "X" and (e["pid"], e["tid"]) == (end["pid"], end["tid"])]
    (at,) = [e for e in lasting if e["ts"] <= end["ts"] <= e["ts"] + e["dur"]]
    return at


def test_what_is_nested_is_whole(run: Callable[..., Path]) -> None:
    by_track = defaultdict(list)
    for event in exported(run(5)):
        if event["ph"] == "X":
            by_track[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_track.values():
        for begun, ended in spans:
            assert all(
                ended <= b or begun >= e or (b <= begun and ended <= e) or (begun <= b and e <= ended) for b, e in spans
            )


def test_a_stretch_in_the_middle_is_tied_as_the_whole_is(run: Callable[..., Path]) -> None:
    folder = run(5)
    whole = {(e["args"]["batch"], e["ts"]) for e in exported(folder) if e["name"] == "fetch"}
    part = [e for e in exported(folder, since=2.3, until=3.1) if e["name"] == "fetch"]
    assert 0 < len(part) < 25
    assert {(e["args"]["batch"], e["ts"]) for e in part} < whole


def test_without_a_stretch_it_is_the_minute_that_waited_most(run: Callable[..., Path]) -> None:
    said: list[str] = []
    folder = run(150, range(70, 110))
    waits = [e for e in exported(folder, said) if e["name"] == "loader.wait"]
    assert len([e for e in waits if e["dur"] > 50_000]) == 40 * 5
    assert 58_000_000 <= waits[-1]["ts"] - waits[0]["ts"] <= 62_000_000
    assert "it has most loader.wait, 20 s" in said[0]


def test_counters_are_in_their_units_and_what_only_grows_is_a_rate(run: Callable[..., Path]) -> None:
    counters = {(e["name"], e["args"]["value"]) for e in exported(run(5)) if e["ph"] == "C"}
    assert ("gpu.power[0] (W)", 250.0) in counters
    assert ("gpu.energy[0] (J/s)", 70.0) in counters


def test_a_pause_says_where_and_a_process_which_rank(run: Callable[..., Path]) -> None:
    found = exported(run(5))
    (save,) = [e for e in found if e["name"] == "checkpoint"]
    assert save["args"]["where"] == "train.py:30"
    assert {e["args"]["name"] for e in found if e["name"] == "process_name"} == {"rank 3 (pid 10)", "machine"}


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(recorded: Callable[..., tuple[Recording, Path]]) -> None:
    recording, folder = recorded(5)
    assert len([e for e in exported(folder) if e["name"] == "loader.wait"]) == 25
    recording.close()


def test_batches_that_do_not_fit_are_not_tied(recorded: Callable[..., tuple[Recording, Path]]) -> None:
    """The record of a worker's first making was lost: each of its others would be taken for the one before it."""
    recording, folder = recorded(0, name="torn")
    recording.take([Sample(POWER, BEGAN + 1000 * MS, 250.0, "0")])
    for k in range(25):
        recording.take(batch(k, EVERY)[0 if k else 1 :])
    recording.close()
    found = exported(folder)
    arrows = [e for e in found if e["ph"] == "f"]
    assert {slice_at(found, e)["args"]["batch"] % 2 for e in arrows} <= {1}


def seats(run: Callable[..., Path], tmp_path: Path) -> Path:
    """Return the folder of a job of two ranks, each with a watch of its own."""
    job = tmp_path / "job"
    job.mkdir()
    (job / "job").write_text("torch-1")
    for rank in range(2):
        run(5, name=f"seat{rank}", host=f"m{rank}").rename(job / f"rank-{rank}")
    return job


def test_of_jobs_with_a_watch_a_rank_all_ranks_are_in_it(run: Callable[..., Path], tmp_path: Path) -> None:
    names = {e["args"]["name"] for e in exported(seats(run, tmp_path)) if e["name"] == "process_name"}
    assert names == {"rank 3 (pid 10) on m0", "rank 3 (pid 10) on m1", "machine m0", "machine m1"}


@pytest.mark.parametrize("damage", ["batches", "samples"])
def test_a_damaged_file_is_named_and_the_rest_is_there(run: Callable[..., Path], damage: str) -> None:
    folder = run(5)
    file = next((folder / damage).iterdir())
    file.write_bytes(file.read_bytes()[:-40])
    sent = perfetto.export(ExportRequest(run=folder, typed="run", say=print))
    assert list(sent.lost) == [f"{damage}/{file.name}"]
    assert [e for e in events(folder / "perfetto.json.gz") if e["name"] == "fetch"]


def test_more_than_one_file_holds_ends_earlier(
    run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    job = seats(run, tmp_path)
    whole = exported(job, said)
    assert said == []
    monkeypatch.setattr(perfetto, "FILE_B", 1000)
    assert 0 < len(exported(job, said)) < len(whole)
    assert "the trace ends at" in said[0]
