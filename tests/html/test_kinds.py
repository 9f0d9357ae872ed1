"""Each kind of folder has its page, and a folder that is none of ours is refused."""

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import making
import msgspec
import pytest

from gputune.html import about, ledgers
from gputune.html.kinds import page
from gputune.launch.job import MARK
from gputune.proving import proof
from gputune.proving.proof import Proof, ProofTrial
from gputune.recording import NewerRun, NotARun
from gputune.recording.about import sealed
from gputune.report import attached, following, heading, notes, promises, summary
from gputune.report.ranks import rank_rows
from gputune.sweep import result
from gputune.sweep.result import MeasuredSetting, Sweep
from gputune.verdict.advised import documentation
from gputune.verdict.document import SpeedupRow, to_json

Copy = Callable[[str], Path]


@pytest.fixture
def copy(recording: Path, tmp_path: Path) -> Copy:
    """Return what makes a run folder of one's own, with a verdict."""

    def make(name: str) -> Path:
        return making.judged(Path(shutil.copytree(recording, tmp_path / name)), making.KINDS["loader"])

    return make


def told(folder: Path) -> str:
    """Return a folder's page."""
    return html.unescape(page(folder, folder.name).decode())


def test_a_run_is_one_small_file_that_names_no_address(recording: Path) -> None:
    made = page(recording, "run", making.KINDS["loader"])
    assert len(made) < 300_000
    text = made.decode()
    assert "http-equiv" in text
    outside = [part[:40] for part in text.split("http")[1:] if part.startswith(("://", "s://"))]
    assert [each for each in outside if not each.startswith("s://github.com/leeoniya/uPlot")] == []  # its own head line
    assert "src=" not in text.replace("data:", "")


@pytest.mark.parametrize("kind", making.KINDS)
def test_it_says_what_the_terminal_says(recording: Path, kind: str) -> None:
    verdict = making.KINDS[kind]
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", page(recording, "run", verdict).decode())).split())
    said = [summary.sentence(verdict), *heading.facts(verdict), *notes.notes(verdict), *notes.own_part(verdict)]
    said += [promises.worth(row) for row in (*verdict.findings, *verdict.perhaps)]
    said += [promises.results(row) for row in verdict.findings]
    said += [line.strip() for line in rank_rows(verdict.processes, 500)]
    said += following.commands(verdict, "run", again=True) if kind != "attached" else [attached.NEXT]
    assert [each for each in said if each not in text] == []


def test_the_shares_of_the_ledger_add_to_a_hundred(recording: Path) -> None:
    for verdict in making.KINDS.values():
        rows = ledgers.of_training(verdict)
        assert sum(row.width for row in rows) in {0, ledgers.WIDTH}
        assert all(row.start + row.width <= ledgers.WIDTH for row in rows)
        assert sum(row.of_loop or 0 for row in rows) in {0, ledgers.WIDTH}


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    text = told(making.recorded(tmp_path / "run", ended=False))
    assert "the run went on when this was written, or its recorder was killed" in text
    assert 'id="measured"' in text


def test_a_run_without_a_verdict_is_judged(copy: Copy) -> None:
    folder = copy("run")
    (folder / "findings.json").unlink()
    assert "python train.py" in told(folder)


def test_a_run_without_tables_is_told_without_plots(copy: Copy) -> None:
    folder = copy("run")
    for name in ("samples", "batches", "steps", "spans"):
        shutil.rmtree(folder / name)
    text = told(folder)
    assert "57% of the loop is spent waiting" in text
    assert 'id="measured"' not in text


def test_a_damaged_table_costs_its_lines(copy: Copy) -> None:
    folder = copy("run")
    for file in (folder / "batches").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    data = json.loads(told(folder).split('id="measured">')[1].split("</script>")[0])
    assert [plot["title"] for plot in data["plots"]][:2] == ["device busy", "SMs active"]
    assert "pace" in [plot["title"] for plot in data["plots"]]  # of steps, now


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    if name == "empty":
        (tmp_path / name).mkdir()
    with pytest.raises(NotARun):
        page(tmp_path / name, name)


def test_a_run_of_a_newer_gputune_without_a_verdict_is_refused(copy: Copy) -> None:
    folder = copy("run")
    (folder / "findings.json").unlink()
    story = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**story, "schema_version": 99}))
    with pytest.raises(NewerRun):
        page(folder, "run")


def test_a_job_names_its_watches_and_what_is_missing(copy: Copy, tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / MARK).write_text("torch-1")
    for number in range(3):
        copy("seat").rename(job / f"rank-{number}")
    shutil.rmtree(job / "rank-1")
    (job / "rank-1").mkdir()
    making.judged(job, making.KINDS["ranks"])
    text = told(job)
    assert "gputune <span>job</span>" in text
    assert text.count("few-workers: 57%") == 2
    assert "<code>rank-1</code>" in text
    assert "no verdict" in text
    assert "of rank-0" in text or '"of":"rank-0"' in text


def test_several_on_one_card_are_a_table(copy: Copy) -> None:
    text = told(making.side_by_side(copy("run")))
    assert "two at a time do ×1.80" in text
    assert "process1.log" in text


def test_of_a_cluster_only_the_table_is_there(tmp_path: Path) -> None:
    assert "two at a time do ×1.80" in told(making.side_by_side(tmp_path))


def gain(likely: float) -> SpeedupRow:
    """Return a speed-up of about that."""
    return SpeedupRow(low=likely - 0.1, likely=likely, high=likely + 0.1)


def test_a_proof_shows_what_was_promised_and_what_came(copy: Copy) -> None:
    run = copy("run")
    folder = run / "proof-1"
    folder.mkdir()
    copy("trial").rename(folder / "changed-1")
    rows = [
        ProofTrial(
            variant=name, rate=rate, unit="samples/s", batches=40, seconds=2.0, exit_code=None,
            folder=f"/elsewhere/proof-1/{name}-1", log="x.log",
        )
        for name, rate in (("as it is", 100.0), ("changed", 210.0))
    ]  # fmt: skip
    made = Proof(
        kind="change", id="few-workers", where="train.py:3", change={"num_workers": 6}, predicted=gain(2.2),
        realised=gain(2.1), state="held", held=True, says="few-workers at train.py:3", trials=rows,
    )  # fmt: skip
    (folder / "proof.json").write_bytes(to_json(made))
    for text in (told(folder), told(run)):
        assert proof.words(made).splitlines()[-1] in text
    assert "<code>changed-1</code>" in told(folder)
    assert "few-workers: 57%" in told(folder)


def test_a_sweep_is_its_trials_and_several_are_all_of_them(tmp_path: Path) -> None:
    settings = {"prefetch_factor": 2, "pin_memory": False, "persistent_workers": False, "batch_size": 16}
    made = Sweep(
        where="train.py:3", baseline=MeasuredSetting(num_workers=1, samples_per_s=100.0, **settings),
        best=MeasuredSetting(num_workers=6, samples_per_s=220.0, **settings), speedup=gain(2.2), ceiling=None,
        trials=[], seconds=60.0, starts=3, stopped=False, effect="same-order", says=[], folder="", written="",
    )  # fmt: skip
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / result.FILE).write_bytes(to_json(made))
    assert result.sentences(made)[0] in told(tmp_path / "first")
    assert told(tmp_path).count("num_workers=6") == 2


def test_the_change_is_a_diff_where_the_script_is_as_it_was(copy: Copy, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(making.SCRIPT)
    folder = copy("run")
    story = json.loads((folder / "run.json").read_text())
    loader = {"n": "loader", "where": "train.py:3", "file": str(script)}
    story |= {"processes": [{"notes": [loader]}], "unix_minus_monotonic_ns": 10**18 * 3}
    (folder / "run.json").write_bytes(sealed(story))
    text = told(folder)
    assert "+    data, batch_size=16, num_workers=6, shuffle=True" in text
    (folder / "run.json").write_bytes(sealed({**story, "unix_minus_monotonic_ns": 0}))
    assert "no diff: the script has changed since this run" in told(folder)
    script.unlink()
    assert "no diff: the script is not on this machine" in told(folder)


def test_secrets_are_masked_as_in_the_recording(recording: Path) -> None:
    verdict = msgspec.structs.replace(making.KINDS["loader"], command=["python", "train.py", "--api-key", "***"])
    assert "--api-key &#39;***&#39;" in page(recording, "run", verdict).decode()


def test_what_a_finding_means_is_told_whole(recording: Path) -> None:
    text = html.unescape(re.sub(r"<[^>]*>", "", page(recording, "run", making.KINDS["loader"]).decode()))
    said = documentation("few_workers").replace("`", "")
    assert [each for each in said.split("\n\n") if " ".join(each.split()) not in " ".join(text.split())] == []


def test_however_much_there_is_the_page_stays_below_two_megabytes(tmp_path: Path) -> None:
    long = "<&" * 4000
    row = making.finding(says=long, do=long, basis=long, falsified_by=long, where=long, evidence={long: 1.0} | {
        str(n): 1.0 for n in range(1000)
    })  # fmt: skip
    whole = making.verdict(
        *[row] * 500,
        processes=[making.process(rank=n, host=long) for n in range(5000)],
        loaders=making.KINDS["loader"].loaders * 2000,
    )
    made = page(making.many_devices(tmp_path / "run", 16), "run", whole)
    assert len(made) < 2_000_000
    text = made.decode()
    assert "and 468 more" in text
    assert "and 4968 more" in text
    assert "and 1968 more" in text
    assert text.count('"name":"gpu.busy[') == 8
    assert '"more":8' in text


def test_where_and_with_what_it_ran_is_told_as_far_as_it_is_known() -> None:
    assert about.rows({}) == []
    story = {
        "host": "node1", "cpus": {"online": 64, "allowed": 7.5}, "memory": 512e9, "driver": "570.1", "cwd": "/p",
        "machine": [{"n": "driver", "cuda": 12080}, *[{"n": "device", "name": "H200"}] * 8],
        "commit": {"id": "0123456789abcdef" * 2, "branch": "main", "dirty": True},
        "job": {"system": "slurm", "id": "77"},
        "training": {"python": "3.12", "torch": "2.7", "cuda": "12.6"}, "environment": {"B": "2", "A": "1"}, "hz": 10.0,
    }  # fmt: skip
    assert dict(about.rows(story)) == {
        "host": "node1", "CPUs": "7.5 of 64", "memory": "512 GB", "device": "8 × H200", "driver": "570.1, CUDA 12.8",
        "folder": "/p", "commit": "0123456789ab (main), with changes", "job": "Slurm 77", "Python": "3.12",
        "torch": "2.7, built for CUDA 12.6", "environment": "A=1 B=2", "readings": "10 a second",
    }  # fmt: skip


@pytest.mark.parametrize("value", [None, 1, "x", [], {"a": []}, [{}], True])
def test_a_strange_run_json_costs_its_rows_only(value: object) -> None:
    names = (
        "host",
        "cpus",
        "memory",
        "driver",
        "commit",
        "job",
        "training",
        "environment",
        "hz",
        "machine",
        "processes",
    )
    for name in (*names, "started", "unix_minus_monotonic_ns", "cwd", "gputune"):
        assert isinstance(about.rows({name: value}), list)
