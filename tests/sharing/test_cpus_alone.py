"""Without a card: how many copies are chosen where little is known, what splitting threads brings, memory in turn."""

import json
import os
import sys

import psutil
import pytest

WITHOUT = ("--no-index-args", "--json")
TRAINING = """
import time, torch
net = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
end = time.monotonic() + 12
while time.monotonic() < end:
    net(torch.ones(64, 512)).sum().backward()
    optimizer.step()
print(torch.get_num_threads())
"""


@pytest.fixture(autouse=True)
def no_driver(tmp_path, monkeypatch) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


@pytest.mark.parametrize("code", ["pass", "import time; time.sleep(1)"])
def test_tasks_that_end_before_they_are_measured_are_no_more_than_there_are_cpus(share, code) -> None:
    done = share("--procs", "auto", "--trial", "2", *WITHOUT, "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["procs"]) <= len(os.sched_getaffinity(0))


def test_of_one_alone_no_gain_is_told(share) -> None:
    metric = "import time\nfor n in range(40): print('it/s: 7', flush=True); time.sleep(0.1)"
    done = share(
        *("--procs", "1", "--trial", "1", *WITHOUT, "--metric-regex", r"it/s: (\d+)"),
        *("--", sys.executable, "-c", metric),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["gain"] is None
    assert "x1" not in told["verdict"]


@pytest.mark.long
def test_copies_are_tried_with_the_threads_split_among_them(share, tmp_path, log) -> None:
    pytest.importorskip("torch")
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("one CPU: nothing can be split")
    (tmp_path / "train.py").write_text(TRAINING)
    done = share("--procs", "auto", "--trial", "1", *WITHOUT, "train.py")
    assert done.returncode == 0, done.stderr
    assert f"one has {cpus} CPUs for its threads: {min(cpus, 16)} with fewer each are tried" in done.stderr
    copies = len(json.loads(done.stdout)["procs"])
    assert log("process0").split()[-1] == str(cpus // copies)
    assert copies == 1 or f"{cpus // copies} of {cpus} threads each, which alone brings x" in done.stderr


def jobs(tmp_path, share, *more: str):
    """Two jobs that each are said to take most of the host's memory, and write down when they were at work."""
    most = int(psutil.virtual_memory().available * 0.6)
    at_work = "date +%s%N; sleep 0.3; date +%s%N"
    (tmp_path / "jobs.toml").write_text(
        "".join(f"[[jobs]]\ncommand = ['sh', '-c', '{at_work}']\nhost-memory = '{most}'\n" for _ in range(2))
    )
    return share("--jobs", "jobs.toml", *more)


def test_with_a_queue_who_would_not_fit_into_the_hosts_memory_waits(share, tmp_path, log) -> None:
    done = jobs(tmp_path, share, "--queue")
    assert done.returncode == 0, done.stderr
    (_, first), (second, _) = (map(int, log(f"job{n}").split()) for n in range(2))
    assert first <= second


def test_without_one_jobs_that_do_not_fit_there_are_refused(share, tmp_path) -> None:
    done = jobs(tmp_path, share)
    assert done.returncode == 2, done.stderr
    assert "the jobs do not fit into this machine's memory: together they take" in done.stderr
    assert "`--queue`" in done.stderr
