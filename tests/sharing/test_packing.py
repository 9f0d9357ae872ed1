"""On a simulated card: what fits, what pays, who is stopped as memory runs out, and numbers that are right."""

import json
import os
import sys
from pathlib import Path

import pytest

TASK = str(Path(__file__).parent / "task.py")
GB = 10**9
QUICK = ("--trial", "1", TASK, "--batch", "4")


def told(done) -> dict:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_pack_says_what_one_does_alone_and_all_together(share, simgpu) -> None:
    simgpu()
    done = share("--procs", "2", "--json", *QUICK, "--kernel", "0.004", "--idle", "0.016", "--steps", "450")
    assert done.returncode == 0, done.stderr
    found = told(done)
    assert found["unit"] == "samples/s"
    assert found["alone"] == pytest.approx(200, rel=0.3)  # 4 samples in 20 ms, on a machine that does other things too
    assert found["gain"] == pytest.approx(found["together"] / found["alone"])
    assert found["gain"] > 1.2
    assert [row["batches"] for row in found["procs"]] == [450, 450]
    for row in found["procs"]:
        assert row["device_memory"] >= 512 << 20  # its context
        assert row["host_memory"] > 5_000_000
        assert 0 < row["device_share"] <= 1
    assert "2 at once did" in found["verdict"]


def test_what_does_not_fit_is_refused_with_the_numbers(share, simgpu, tmp_path) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share("--procs", "3", *QUICK, "--memory", str(30 * GB), "--steps", "4000", "--idle", "0.01")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "3 copies do not fit on GPU 0" in done.stderr
    assert "one takes 30.5 GB (its CUDA context included), 3 take 91.6 GB" in done.stderr
    assert "hint: `--procs 2` fits" in done.stderr
    assert len(list((tmp_path / "gputune-runs").glob("*/process*.log"))) == 1


def test_a_need_that_was_said_is_refused_before_anything_starts(share, simgpu, tmp_path) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share("--procs", "3", "--memory", "30GB", TASK)
    assert done.returncode == 2
    assert "one takes 30 GB (as given), 3 take 90 GB, and 80 GB of its 80 GB are free" in done.stderr
    assert not list((tmp_path / "gputune-runs").glob("*/process*.log"))


@pytest.mark.slow
def test_with_a_queue_as_many_run_as_fit(share, simgpu) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share(
        "--procs", "4", "--queue", "--json", *QUICK, "--memory", str(30 * GB), "--steps", "250", "--idle", "0.02"
    )
    assert done.returncode == 0, done.stderr
    found = told(done)
    assert [row["exit_code"] for row in found["procs"]] == [0] * 4
    assert found["at_once"] == 2
    assert "2 of 4 run at once" in done.stderr


@pytest.mark.slow
def test_auto_finds_how_many_pay(share, simgpu) -> None:
    simgpu()
    done = share("--procs", "auto", "--json", *QUICK, "--kernel", "0.024", "--idle", "0.016", "--steps", "350")
    assert done.returncode == 0, done.stderr
    found = told(done)
    assert len(found["procs"]) in {2, 3}
    assert all(row["exit_code"] == 0 for row in found["procs"])
    assert "chosen" in done.stderr


@pytest.mark.slow
def test_what_does_not_pay_goes_on_with_fewer_at_once(share, simgpu) -> None:
    simgpu()
    done = share(
        "--procs", "2", "--json", "--min-gain", "1.5", *QUICK, "--kernel", "0.02", "--idle", "0.001", "--steps", "300"
    )
    assert done.returncode == 0, done.stderr
    assert "process 1 is paused until its turn" in done.stderr
    assert [row["batches"] for row in told(done)["procs"]] == [300, 300]


def test_a_metric_in_the_logs_serves_where_nothing_is_heard_from_inside(share) -> None:
    code = "import time\nfor n in range(80): print('it/s:', 7 + n % 2, flush=True); time.sleep(0.1)"
    done = share(
        *("--procs", "2", "--no-index-args", "--trial", "1", "--json", "--metric-regex", r"it/s: ([\d.]+)"),
        *("--", sys.executable, "-c", code),
    )
    assert done.returncode == 0, done.stderr
    found = told(done)
    assert found["unit"] == "metric"
    assert found["alone"] == pytest.approx(7.5, abs=0.6)
    assert found["gain"] == pytest.approx(2.0, abs=0.3)


@pytest.mark.slow
def test_the_newest_is_stopped_before_the_card_is_full(share, simgpu) -> None:
    simgpu().set(memory_total=20 * GB, memory_reserved=0)
    done = share(
        *("--procs", "2", "--trial", "0", "--json", "--guard", "end", TASK, "--memory", str(8 * GB)),
        *("--grow", str(GB // 100), "--only", "1", "--idle", "0.02", "--steps", "500"),
    )
    assert "process 1, the newest, is ended" in done.stderr
    rows = told(done)["procs"]
    assert rows[0]["exit_code"] == 0
    assert rows[1]["exit_code"] == -15


def test_one_that_runs_out_of_memory_takes_nobody_with_it(share, simgpu) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share(
        *("--procs", "2", "--trial", "0", "--json", "--guard", "off", TASK),
        *("--grow", str(2 * GB), "--only", "1", "--idle", "0.02", "--steps", "100"),
    )
    rows = told(done)["procs"]
    assert [row["exit_code"] for row in rows] == [0, 1]
    assert rows[1]["why"] == "out of memory"
    assert done.returncode == 1


def test_the_emptiest_card_is_chosen(share, simgpu, log) -> None:
    cards = simgpu(devices=2)
    cards.ghost(4_000_000, 60 * GB, 0.9, device=0)
    done = share(
        *(
            "--procs",
            "1",
            "--gpu",
            "auto",
            "--no-index-args",
            "--trial",
            "0",
            "--",
            "sh",
            "-c",
            "echo $CUDA_VISIBLE_DEVICES",
        )
    )
    assert done.returncode == 0, done.stderr
    assert "GPU 1" in done.stderr
    assert log().startswith("GPU-")


def test_a_card_that_is_not_there_is_said(share, simgpu) -> None:
    simgpu()
    done = share("--procs", "1", "--gpu", "7", TASK)
    assert done.returncode == 2
    assert "there is no GPU `7` here" in done.stderr
    assert "hint: those that may be used: 0" in done.stderr


@pytest.mark.slow
def test_the_report_shows_a_row_for_each(share, simgpu, tmp_path) -> None:
    import subprocess

    simgpu()
    done = share("--procs", "2", *QUICK, "--kernel", "0.002", "--idle", "0.01", "--steps", "250")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "gputune-runs").glob("[!.]*")
    shown = subprocess.run(
        [sys.executable, "-m", "gputune", "report", str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "process0.log" in shown.stdout
    assert "2 training processes" in shown.stdout
    findings = json.loads((folder / "findings.json").read_text())
    assert len(findings["processes"]) == 2


CONTROL = """#!{python}
import os, sys
from pathlib import Path
here = Path(__file__).parent
asked = sys.stdin.readline().strip()
if asked == "get_server_list":
    print(1)
elif asked.startswith("get_client_list"):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "environ").read_bytes().split(b"\\0")
            except OSError:
                continue
            if any(word in words for word in (b"GPUTUNE_SHARE_SLOT=%d" % n for n in range({through}))):
                print(entry.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("through", "says"), [(2, "all of them go through"), (1, "process 1 does not go through")])
def test_mps_clients_are_told_from_those_that_are_none(  # noqa: PLR0917 - fixtures
    share, simgpu, tmp_path, monkeypatch, through, says
) -> None:
    simgpu()
    control = tmp_path / "bin" / "nvidia-cuda-mps-control"
    control.parent.mkdir()
    control.write_text(CONTROL.format(python=sys.executable, through=through))
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{control.parent}:{os.environ['PATH']}")
    done = share("--procs", "2", "--trial", "0", "--json", TASK, "--idle", "0.02", "--steps", "600")
    assert "an MPS daemon runs, and is used; compute mode Default: a process could go past it" in done.stderr
    found = told(done)
    assert found["mps"] is (through == 2)
    assert says in done.stderr


def test_each_card_gets_its_own(share, simgpu, log) -> None:
    simgpu(devices=3)
    done = share(
        *("--procs", "1", "--gpus", "0,2", "--no-index-args", "--trial", "0", "--json"),
        *("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $GPUTUNE_PROCESS_NUM"),
    )
    assert done.returncode == 0, done.stderr
    first, second = log("process0").split(), log("process1").split()
    assert first[0] != second[0]
    assert first[1] == second[1] == "2"


def test_a_card_for_one_process_at_a_time_is_not_packed(share, simgpu) -> None:
    simgpu().set(compute_mode=3)
    done = share("--procs", "2", *QUICK, "--kernel", "0.002", "--idle", "0.02", "--steps", "4000")
    assert done.returncode == 2, done.stderr
    assert "is in compute mode Exclusive_Process: one process at a time may use it, and 2 are to run" in done.stderr
    assert "hint: `--mps on` takes them through one daemon, `--at-once 1` in turn" in done.stderr


def test_a_card_that_nobody_may_use_is_said(share, simgpu) -> None:
    simgpu().set(compute_mode=2)
    done = share("--procs", "1", "--trial", "0", TASK, "--idle", "0.02", "--steps", "150")
    assert "compute mode Prohibited: no process may use it" in done.stderr


def test_weights_without_mps_are_said_to_mean_nothing(share, simgpu) -> None:
    simgpu()
    done = share("--procs", "2", "--weights", "2,1", "--trial", "0", TASK, "--idle", "0.01", "--steps", "20")
    assert done.returncode == 0, done.stderr
    assert "weights count under MPS only" in done.stderr


def test_a_mig_instance_is_a_card_to_be_named(share, simgpu, tmp_path) -> None:
    simgpu().set(mig=1)
    tell = ("--no-index-args", "--trial", "0", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    done = share("--procs", "1", "--gpu", "0", "--log-dir", "whole", *tell)
    assert done.returncode == 0, done.stderr
    uuid = (tmp_path / "whole" / "process0.log").read_text().strip()
    instance = f"MIG-f{uuid.removeprefix('GPU-')[1:]}"  # as tests/simgpu calls it
    done = share("--procs", "1", "--gpu", instance, "--memory", "1GB", "--log-dir", "part", *tell)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "part" / "process0.log").read_text() == f"{instance}\n"
    assert "is parted (MIG): what is free in an instance is not read" in done.stderr
