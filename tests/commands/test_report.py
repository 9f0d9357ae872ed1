"""`gputune report`: a recording judged again gives the verdict that its run gave."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.events import INLINE, Event, Kind, Record, SpanCode
from gputune.recording import Recording
from gputune.sample import Guest, Metric, Note, Reading, Sample, now

Run = Callable[..., "subprocess.CompletedProcess[str]"]
US, MS = 1000, 1_000_000
BEGAN = 10**12  # ns of the monotonic clock: any moment
CPUS = Metric("cpu.allowed", "cores", "CPUs that this job may use.")
MAKING, STEP = 30 * MS, 10 * MS
BATCHES = 100


def readings() -> list[Reading]:
    """Return a training whose batches take 30 ms to make in its own process, and whose steps take 10 ms."""
    at = BEGAN + 500 * MS
    loader = {
        "n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0, "prefetch_factor": None,
        "pin_memory": False, "persistent_workers": False, "batch_size": 16, "in_order": True, "iterable": False,
        "length": BATCHES, "start_method": "fork",
    }  # fmt: skip
    found: list[Reading] = [
        Guest(0, 4711, 1, BEGAN, 0, "main", "ring"),
        Note(0, loader),  # type: ignore[arg-type] # mypy does not see that these values are Json
        Sample(CPUS, at, 8.0),
        Event(0, Record(Kind.ITERATOR, 0, at - MS, at, 1, 1, 0, 1, 0)),
    ]
    for index in range(BATCHES):
        made = at + MAKING
        found.append(Event(0, Record(Kind.FETCH, INLINE, at + US, made - 20 * US, 2 * MS, 0, MS, 4096, 16)))
        found.append(Event(0, Record(Kind.BATCH, 0, at, made, 1, index, -1, 0, 16)))
        found.append(Event(0, Record(Kind.STEP, 0, made + STEP - MS, made + STEP, 1, 0, 0, 0, 0)))
        at = made + STEP
    found.append(Event(0, Record(Kind.SPAN, SpanCode.CHECKPOINT, at, at + 100 * MS, 0, 0, 0, 0, 0)))
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the folder of that training, finished."""
    folder = tmp_path / "run"
    recording = Recording.create(folder, {"command": ["python", "train.py"], "started": BEGAN}, max_size=1 << 24)
    recording.take(readings())
    recording.beat(now() + 60_000 * MS)  # whenever its last beat was, this one is due
    recording.about(exit_code=0, unavailable={"nvml": "no driver"})
    recording.close()
    return folder


def test_says_what_the_run_said(gputune: Run, run: Path) -> None:
    done = gputune("report", str(run))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "python train.py" in done.stdout
    assert "1. few-workers" in done.stdout
    assert "train.py:41" in done.stdout
    assert "\x1b" not in done.stdout


def test_names_the_proof_with_the_folder_as_it_was_typed(gputune: Run, run: Path) -> None:
    lines = gputune("report", run.name).stdout.splitlines()
    assert lines[-1] == "next: gputune explain few-workers · gputune prove run"


def test_a_command_that_failed_at_once_is_told_as_its_watch_told_it(gputune: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    says = "\nno training was seen: the command failed before it used torch\n"
    assert says in gputune("watch", "--out", "run", "--", sys.executable, "fails.py").stderr
    assert says in gputune("report", "run").stdout


def test_gives_the_document_that_the_run_gave(gputune: Run, run: Path) -> None:
    (run / "findings.json").write_text(json.dumps({"overhead": {"sampler_cpu_share": 0.004}}))
    document = json.loads(gputune("report", str(run), "--json").stdout)
    assert document["batches"] == BATCHES
    assert document["samples_per_s"] == pytest.approx(400, rel=0.05)
    assert sum(row["share"] for row in document["ledger"]) == pytest.approx(1, abs=0.01)
    assert document["unavailable"] == [{"probe": "nvml", "why": "no driver", "fields": []}]
    assert document["exit_code"] == 0
    assert document["overhead"] == {"sampler_cpu_share": 0.004, "guest_us_per_batch": None}


def test_works_while_the_run_goes_on(gputune: Run, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    recording = Recording.create(folder, {"command": ["python", "train.py"], "started": BEGAN}, max_size=1 << 24)
    recording.take(readings())
    recording.beat(now() + 60_000 * MS)  # whenever its last beat was, this one is due
    document = json.loads(gputune("report", str(folder), "--json").stdout)
    shown = gputune("report", str(folder)).stdout
    recording.close()
    assert document["exit_code"] is None
    assert document["batches"] == BATCHES
    assert "gputune explain few-workers" in shown
    assert "gputune prove" not in shown  # it would run beside it
    assert document["wall_s"] == pytest.approx(4.6, abs=0.1)


def test_a_folder_that_is_no_run_is_an_error_with_a_hint(gputune: Run, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        done = gputune("report", str(folder))
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: `{folder}` is no run folder")
        assert "\n\nhint: " in done.stderr


def test_a_run_of_a_newer_gputune_is_said(gputune: Run, run: Path) -> None:
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "schema_version": 99}))
    done = gputune("report", str(run))
    assert done.returncode == 1
    assert "schema version 99" in done.stderr


def test_a_run_in_a_cluster_is_its_table(gputune, tmp_path) -> None:
    from gputune.packed import Packed, ProcRow, to_json

    row = ProcRow(index=0, pid=7, exit_code=0, log="process0.log", wall_s=9.0, samples_per_s=80.0, unit="samples/s")
    made = Packed(procs=[row], mps=False, alone=100.0, together=80.0, gain=0.8, verdict="that does not pay")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "share.json").write_bytes(to_json(made))
    shown = gputune("report", "run")
    assert (shown.returncode, "that does not pay" in shown.stdout) == (0, True), shown.stderr
    assert gputune("report", "--json", "run").stdout.encode() == to_json(made)
