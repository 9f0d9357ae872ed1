"""The dry run says what would be started, and starts nothing."""

import json
import os
import sys

import pytest

GB = 10**9


@pytest.fixture(autouse=True)
def script(tmp_path) -> None:
    (tmp_path / "train.py").write_text("open('started', 'w')\n")


def test_it_prints_commands_variables_and_the_memorys_arithmetic(share, simgpu, tmp_path) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share(
        *("--procs", "2", "--memory", "30GB", "--index-env", "PART", "--python", sys.executable, "--dry-run"),
        *("train.py", "--lr", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert "PART_INDEX=1 PART_NUM=2" in done.stdout
    assert f"{sys.executable} train.py --lr 1\n" in done.stdout
    assert "80 GB of 80 GB are free; as given, all at once take 60 GB: that fits" in done.stdout
    assert "compute mode Default" in done.stdout
    assert "the first one runs alone until it has made batches for 5 s" in done.stdout
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "gputune-runs").exists()


def test_what_would_be_refused_is_refused_with_the_same_words(share, simgpu) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    done = share("--procs", "3", "--memory", "30GB", "--dry-run", "train.py")
    assert done.returncode == 2
    assert "all at once take 90 GB: that does not fit" in done.stdout
    assert "one takes 30 GB (as given), 3 take 90 GB, and 80 GB of its 80 GB are free" in done.stderr
    assert "hint: `--procs 2` fits" in done.stderr


def test_it_is_a_document_too(share, simgpu) -> None:
    simgpu(devices=2)
    done = share("--procs", "1", "--gpus", "0,1", "--dry-run", "--json", "train.py", "--token", "sk-verysecret12345678")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["schema_version"], plan["auto"], plan["at_once"]) == (1, False, 2)
    cards = {row["environment"]["CUDA_VISIBLE_DEVICES"] for row in plan["procs"]}
    assert len(cards) == 2
    assert all(card.startswith("GPU-") for card in cards)
    assert plan["procs"][1]["command"][-4:] == ["--process_index", "1", "--process_num", "2"]
    assert [memory["name"].split(" (")[0] for memory in plan["memory"]] == ["host", "GPU 0", "GPU 1"]
    assert "verysecret" not in done.stdout


def test_a_card_that_is_not_there_is_refused(share, simgpu) -> None:
    simgpu()
    done = share("--procs", "1", "--gpu", "3", "--dry-run", "train.py")
    assert done.returncode == 2
    assert "there is no GPU `3` here" in done.stderr


def test_the_emptiest_card_is_looked_for_as_the_run_would(share, simgpu) -> None:
    simgpu(devices=2).ghost(4_000_000, 60 * GB, 0.9, device=0)
    chosen = []
    for wish in ("auto", "1"):
        done = share("--procs", "1", "--gpu", wish, "--dry-run", "--json", "train.py")
        assert done.returncode == 0, done.stderr
        (proc,) = json.loads(done.stdout)["procs"]
        chosen.append(proc["environment"]["CUDA_VISIBLE_DEVICES"])
    assert chosen[0] == chosen[1]
    assert chosen[0].startswith("GPU-")


def test_without_a_driver_no_card_is_planned_with(share, monkeypatch, tmp_path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for rehearsed in (("--dry-run",), ()):
        done = share("--procs", "1", "--gpu", "auto", *rehearsed, "train.py")
        assert done.returncode == 1, done.stderr
        assert "no card can be chosen: " in done.stderr
        assert "CUDA_VISIBLE_DEVICES=" not in done.stdout


@pytest.mark.parametrize("rehearsed", [("--dry-run",), ()])
@pytest.mark.parametrize(
    ("memory", "queue", "says"),
    [
        (("50GB", "40GB"), (), "the jobs do not fit on GPU 0"),
        (("50GB", "90GB"), ("--queue",), "one takes 90 GB (as given)"),
    ],
)
def test_jobs_that_do_not_fit_are_refused_as_the_run_would(  # noqa: PLR0917 - fixtures
    share, simgpu, tmp_path, memory, queue, says, rehearsed
) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    jobs = (f'[[jobs]]\ncommand = "touch started"\nmemory = "{each}"\n' for each in memory)
    (tmp_path / "jobs.toml").write_text("".join(jobs))
    done = share("--jobs", "jobs.toml", *queue, *rehearsed)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert not (tmp_path / "started").exists()


def test_jobs_that_wait_their_turn_are_planned(share, simgpu, tmp_path) -> None:
    simgpu().set(memory_total=80 * GB, memory_reserved=0)
    (tmp_path / "jobs.toml").write_text('[[jobs]]\ncommand = "true"\nmemory = "50GB"\n' * 2)
    done = share("--jobs", "jobs.toml", "--queue", "--dry-run")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def control(tmp_path, monkeypatch) -> None:
    """A control program of MPS in PATH: no daemon runs."""
    (tmp_path / "nvidia-cuda-mps-control").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "nvidia-cuda-mps-control").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.parametrize("rehearsed", [("--dry-run",), ()])
def test_more_than_mps_takes_is_refused_as_the_run_would(share, simgpu, control, tmp_path, rehearsed) -> None:
    simgpu()
    done = share("--procs", "49", "--mps", "on", *rehearsed, "train.py")
    assert done.returncode == 1, done.stderr
    assert "no MPS daemon: MPS takes 48 clients on this card, and 49 are to run" in done.stderr
    assert "hint: `--mps auto` goes on without one" in done.stderr
    assert not (tmp_path / "started").exists()


def test_as_many_as_mps_takes_are_planned_with_a_daemon(share, simgpu, control) -> None:
    simgpu()
    done = share("--procs", "2", "--mps", "on", "--dry-run", "train.py")
    assert done.returncode == 0, done.stderr
    assert "MPS: an MPS daemon would be started for this run" in done.stdout


def test_a_number_that_is_to_be_found_out_is_said(share) -> None:
    done = share("--procs", "auto", "--dry-run", "train.py")
    assert done.returncode == 0, done.stderr
    assert "how many: found out by trying" in done.stdout


def test_weights_that_would_count_for_nothing_are_said(share, simgpu, monkeypatch) -> None:
    simgpu()
    weighted = ("--procs", "2", "--weights", "2,1", "--dry-run", "train.py")
    assert "weights count under MPS only" in share(*weighted).stdout
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "there is no card here: they count for nothing" in share(*weighted).stdout
