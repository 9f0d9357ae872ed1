"""`gputune report`: a recording judged again gives the verdict that its run gave."""

import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gputune import __version__
from gputune.commands import _progress
from gputune.core.events import Event, FetchCode, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Reading, Sample, now
from gputune.recording import Damaged, Recording
from gputune.recording.about import sealed
from gputune.report.rejudging import Way, rejudge
from tests.conftest import Run

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
        found.append(Event(0, Record(Kind.FETCH, FetchCode.INLINE, at + US, made - 20 * US, 2 * MS, 0, MS, 4096, 16)))
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


def test_one_damaged_table_costs_that_table(gputune: Run, run: Path) -> None:
    file = next((run / "fetches").iterdir())
    (run / "findings.json").write_bytes(b"{}")
    file.write_bytes(file.read_bytes()[:-10])
    done = gputune("report", run.name)
    assert done.returncode == 0
    assert "python train.py" in done.stdout
    assert "gputune: `fetches/00001.parquet` is damaged (" in done.stderr
    assert "the verdict at the end of the run is in `run/findings.json`" in done.stderr
    told = json.loads(gputune("report", run.name, "--json").stdout)["unavailable"]
    assert {"probe": "recording", "why": "fetches/00001.parquet is damaged"}.items() <= told[-1].items()


@pytest.mark.parametrize("name", ["samples", "batches", "fetches"])
def test_without_what_predictions_rest_on_nothing_is_predicted(gputune: Run, run: Path, name: str) -> None:
    file = next((run / name).iterdir())
    file.write_bytes(file.read_bytes()[:-10])
    told = json.loads(gputune("report", run.name, "--json").stdout)
    assert (told["findings"], told["perhaps"]) == ([], [])
    assert told["abstained"] == f"`{name}` of the recording cannot be read, on which predictions rest"
    done = gputune("report", run.name)
    assert f"`{name}` of the recording cannot be read" in done.stdout
    assert "nothing" not in done.stdout


def test_a_recording_whose_samples_are_gone_predicts_nothing(gputune: Run, run: Path) -> None:
    shutil.rmtree(run / "samples")
    told = json.loads(gputune("report", run.name, "--json").stdout)
    assert told["abstained"] == "`samples` of the recording cannot be read, on which predictions rest"


@pytest.mark.parametrize("how", ["gone", "cut", "empty", "of another kind"])
def test_what_was_said_of_a_run_whose_notes_are_lost_is_in_its_run_json(gputune: Run, run: Path, how: str) -> None:
    whole = json.loads(gputune("report", run.name, "--json").stdout)
    (file,) = (run / "notes").iterdir()
    if how == "gone":
        shutil.rmtree(run / "notes")
    elif how == "of another kind":
        shutil.copy(run / "steps" / file.name, file)
    else:
        file.write_bytes(file.read_bytes()[:-10] if how == "cut" else b"")
    done = gputune("report", run.name, "--json")
    told = json.loads(done.stdout)
    assert "`notes" in done.stderr
    assert told["abstained"] == "`notes` of the recording cannot be read, on which predictions rest"
    assert (told["findings"], told["perhaps"]) == ([], [])
    for name in ("ledger", "samples_per_s", "batches", "loaders", "wall_s", "command"):
        assert told[name] == whole[name], name
    about = json.loads((run / "run.json").read_text())
    for processes in (7, [7, {}, {"process": "x"}, {**about["processes"][0], "notes": [1]}]):
        (run / "run.json").write_bytes(sealed({**about, "processes": processes, "machine": processes}))
        assert "Traceback" not in gputune("report", run.name, "--json").stderr


@pytest.mark.parametrize("name", ["notes", "events"])
def test_a_table_that_each_training_has_is_missed(gputune: Run, run: Path, name: str) -> None:
    shutil.rmtree(run / name)
    done = gputune("report", run.name)
    assert f"`{name}` is damaged" in done.stderr
    assert "it is not there" in done.stderr
    assert "nothing found" not in done.stdout
    assert "no training was seen" not in done.stdout


def test_without_a_batch_of_those_that_its_verdict_tells_of_it_is_damaged(gputune: Run, run: Path) -> None:
    (run / "findings.json").write_text('{"batches": 100}')
    shutil.rmtree(run / "batches")
    done = gputune("report", run.name)
    assert done.returncode == 1
    assert "tells of 100 batches, and none are here" in done.stderr


def test_a_link_in_the_place_of_a_table_is_no_table(gputune: Run, run: Path) -> None:
    shutil.rmtree(run / "steps")
    (run / "steps").symlink_to("/etc")
    done = gputune("report", run.name)
    assert "`steps` is damaged (it is a link)" in done.stderr


def test_a_damaged_run_json_leads_to_the_verdict_that_was_kept(gputune: Run, run: Path) -> None:
    (run / "findings.json").write_bytes(b"{}")
    (run / "run.json").write_bytes(b"{")
    done = gputune("report", run.name)
    assert done.returncode == 1
    assert "is in `run/findings.json`" in done.stderr


def test_without_its_batches_a_run_is_damaged_and_no_run_without_a_training(gputune: Run, run: Path) -> None:
    for name in ("batches", "steps"):
        next((run / name).iterdir()).write_bytes(b"")
    done = gputune("report", run.name)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "findings.json" in done.stderr


def test_cut_or_hit_anywhere_a_recording_is_a_verdict_or_damaged(run: Path) -> None:
    chance = random.Random(15)
    refused = 0
    for file in sorted(run.glob("*/*.parquet")):
        data = file.read_bytes()
        for _ in range(20):
            at, torn = chance.randrange(len(data)), bytearray(data)
            torn[at] ^= 1 << chance.randrange(8)
            file.write_bytes(data[:at] if chance.random() < 0.5 else bytes(torn))
            try:
                assert rejudge(run, {}, way=Way(lost={})).command == ["python", "train.py"]
            except Damaged:
                refused += 1
        file.write_bytes(data)
    assert refused <= 20 * 2  # of batches, of what says which loader made them


def test_that_a_run_has_no_end_is_said(gputune: Run, run: Path) -> None:
    story = json.loads((run / "run.json").read_text())
    (run / "run.json").write_bytes(sealed({**story, "exit_code": None, "finished": False}))
    done = gputune("report", run.name)
    assert (done.returncode, done.stderr) == (0, "gputune: `run` still goes on: this is its verdict so far\n")
    for file in (run, *run.rglob("*")):
        os.utime(file, (1e9, 1e9))
    done = gputune("report", run.name, "--json")
    assert done.stderr.startswith("gputune: `run` has no end: its gputune was killed, or its machine went down. ")
    assert json.loads(done.stdout)["exit_code"] is None


def test_a_link_to_a_run_is_a_run(gputune: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run)
    done = gputune("report", "latest")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "next: gputune explain few-workers · gputune prove latest"
    shown = json.loads(gputune("tui", "latest", "--json").stdout)
    assert shown["runs"][0]["why"] == ""
    assert gputune("prove", "latest", "--against", "latest").returncode in {0, 3}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_another_users_run_says_whose(gputune: Run, run: Path) -> None:
    os.chown(run, 54321, -1)
    done = gputune("report", run.name)
    assert done.stderr == "gputune: `run` is user 54321's\n"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user may pass through: pytest's own are its user's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


HIDDEN = """
import os, sys
from gputune import cli
cli.run([*sys.argv[1:2], "nowhere", *sys.argv[3:]])  # what is imported may not be readable for them
os.setgroups([])
os.setegid(54322)
os.seteuid(54322)
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("command", [("report",), ("tui", "--json"), ("prove",)])
@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_a_run_that_another_user_hides_says_whose(
    run: Path, reachable: Path, command: tuple[str, ...], mode: int
) -> None:
    """By default what hides it is the folder of all runs: not even whether it is there can be seen then."""
    reachable.chmod(0o755)  # what hides it is the folder of runs, and none above that
    above = reachable / "runs"
    above.mkdir(mode)
    os.chown(above, 54321, -1)
    shutil.copytree(run, above / "one", copy_function=shutil.copy2)
    for each in (above / "one", *(above / "one").rglob("*")):
        os.chown(each, 54321, -1)
    (above / "one").chmod(0o700)
    asked = [sys.executable, "-c", HIDDEN, command[0], str(above / "one"), *command[1:]]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
    assert "user 54321's" in done.stderr, done.stderr
    assert (done.returncode, done.stdout) == (1, "")


def test_a_command_that_failed_at_once_is_told_as_its_watch_told_it(gputune: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    says = "\nthe command failed with status 3 before it used torch\n"
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
    assert document["overhead"] == {"sampler_cpu_share": 0.004, "guest_us_per_batch": None, "in_python": []}


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
        assert done.returncode == 2
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
    from gputune.verdict.document import to_json
    from gputune.verdict.packed import Packed, ProcRow

    row = ProcRow(index=0, pid=7, exit_code=0, log="process0.log", wall_s=9.0, samples_per_s=80.0, unit="samples/s")
    made = Packed(procs=[row], mps=False, alone=100.0, together=80.0, gain=0.8, verdict="that does not pay")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "share.json").write_bytes(to_json(made))
    shown = gputune("report", "run")
    assert (shown.returncode, "that does not pay" in shown.stdout) == (0, True), shown.stderr
    assert gputune("report", "--json", "run").stdout.encode() == to_json(made)


# What was kept is shown: no replay, however long the run was.


@pytest.fixture
def kept(gputune: Run, run: Path) -> Path:
    """Return that training with the verdict of this version in its folder."""
    (run / "findings.json").write_text(gputune("report", "--again", "--json", str(run)).stdout)
    return run


def changed(run: Path, **fields: object) -> None:
    """Write other words into the kept verdict."""
    file = run / "findings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def is_shown(gputune: Run, run: Path, *options: str) -> bool:
    """Return whether the kept verdict is shown, which tells of as many batches as no recording of these tests has."""
    changed(run, batches=123_456)
    return json.loads(gputune("report", "--json", *options, str(run)).stdout)["batches"] == 123_456


def test_the_kept_verdict_is_shown_without_a_look_at_the_tables(gputune: Run, kept: Path) -> None:
    again, document = gputune("report", "--again", str(kept)), (kept / "findings.json").read_text()
    for name in ("samples", "batches", "steps", "fetches"):
        next((kept / name).iterdir()).write_bytes(b"nothing")
    shown = gputune("report", str(kept))
    assert (shown.returncode, shown.stderr, shown.stdout) == (0, "", again.stdout)
    assert gputune("report", "--json", str(kept)).stdout == document


@pytest.mark.parametrize("price", ["3", "0.25"])
def test_a_price_makes_of_the_kept_verdict_what_it_makes_of_the_recording(gputune: Run, kept: Path, price: str) -> None:
    shown, again = (gputune("report", "--price", price, *how, str(kept)).stdout for how in ((), ("--again",)))
    assert f"(price {float(price):.2f} an hour)" in shown
    assert shown == again
    told = [json.loads(gputune("report", "--json", "--price", price, *h, str(kept)).stdout) for h in ((), ("--again",))]
    for name, value in told[1]["spent"].items():
        assert told[0]["spent"][name] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)


def test_again_judges_anew_and_says_nothing_of_it_where_there_is_no_terminal(gputune: Run, kept: Path) -> None:
    assert is_shown(gputune, kept)
    assert not is_shown(gputune, kept, "--again")
    assert gputune("report", "--again", str(kept)).stderr == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"gputune": "0.0.9"},
        {"gputune": ""},
        {"schema_version": 2},
        {"ledger": [{"span": "step", "seconds": 1.0, "share": 1e300}]},
        {"ledger": 7},
        {"unavailable": [{"probe": "recorder", "why": "the recorder was lost"}]},
    ],
)
def test_what_another_version_or_nobody_has_judged_is_judged_anew(
    gputune: Run, kept: Path, fields: dict[str, object]
) -> None:
    changed(kept, **fields)
    assert not is_shown(gputune, kept)


def test_a_torn_or_empty_verdict_is_judged_anew(gputune: Run, kept: Path) -> None:
    whole = (kept / "findings.json").read_bytes()
    for torn in (whole[: len(whole) // 2], b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000):
        (kept / "findings.json").write_bytes(torn)
        done = gputune("report", str(kept))
        assert (done.returncode, "python train.py" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("about", [{"finished": False}, {"absent": ["rank-00003"]}])
def test_a_run_of_which_there_may_be_more_by_now_is_judged_anew(
    gputune: Run, kept: Path, about: dict[str, object]
) -> None:
    told = json.loads((kept / "run.json").read_text())
    (kept / "run.json").write_bytes(sealed({**told, **about}))
    assert not is_shown(gputune, kept)


def test_an_advisor_that_failed_is_named_as_it_was(gputune: Run, kept: Path) -> None:
    changed(kept, unjudged={"few-workers": "ZeroDivisionError: \x1b[31m"})
    done = gputune("report", str(kept))
    assert done.stderr == "gputune: advisor `few-workers` failed (ZeroDivisionError: \\x1b[31m)\n"


def test_nothing_that_was_kept_reaches_a_terminal_as_it_is(gputune: Run, kept: Path) -> None:
    evil = "\x1b]52;c;aGk=\x07\u202e"
    told = json.loads((kept / "findings.json").read_text())
    for row in told["ledger"]:
        row["span"] = evil
    changed(kept, ledger=told["ledger"], abstained=evil, command=[evil], unjudged={evil: evil})
    done = gputune("report", str(kept))
    assert done.returncode == 0
    assert not {"\x1b", "\x07", "\u202e"} & {*done.stdout, *done.stderr}


def test_a_watch_leaves_a_verdict_that_is_shown_as_it_was_said(gputune: Run, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    before = datetime.now(timezone.utc).replace(microsecond=0)
    said = gputune("watch", "--out", "run", "--price", "2", "--", sys.executable, "ends.py").stderr
    found = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert found["gputune"] == __version__
    assert before <= datetime.fromisoformat(found["started"]) <= datetime.now(timezone.utc)
    assert [line for line in gputune("report", "run").stdout.splitlines() if line not in said.splitlines()] == []
    assert is_shown(gputune, tmp_path / "run")


def test_a_long_replay_says_on_a_terminal_how_far_it_has_come(kept: Path, monkeypatch) -> None:
    monkeypatch.setattr(_progress, "SILENT_S", 0.0)
    monkeypatch.setattr(_progress, "WORD_EVERY_S", 0.0)
    told = io.StringIO()
    monkeypatch.setattr(told, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", told)
    with _progress.ReadingProgress(BEGAN, BEGAN + 100 * 1000 * MS) as progress:
        rejudge(kept, {}, way=Way(beside=progress.take, lost={}))
    assert told.getvalue().startswith("\r\x1b[Kreading the recording: 0.50 s of 100 s")
    assert told.getvalue().endswith("\r\x1b[K")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with _progress.ReadingProgress(BEGAN, 0) as progress:
        progress.take(readings())
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined] # a StringIO


def test_an_error_makes_visible_what_a_terminal_would_obey(gputune: Run) -> None:
    """The name of a folder may come out of anybody's archive."""
    done = gputune("report", "a\x9b31m\u202e\x1b]52;c;aGk=\x07b")
    assert done.returncode == 2
    assert done.stderr.startswith("error: `a\\x9b31m\\u202e\\x1b]52;c;aGk=\\x07b` is no run folder")
