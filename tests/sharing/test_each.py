"""Several different jobs: each is measured alone, and those run at once that fit beside each other."""

import json
import sys

import pytest

from gputune.sharing.each import Each
from gputune.sharing.fitting import Need, Room
from gputune.sharing.spec import Spec, TaskSpec
from gputune.sharing.tasks import tasks

GB = 1e9
NAMES = ("reads", "computes", "renders")
JOBS = tuple(TaskSpec(argv=("x",), name=name, count=2) for name in NAMES)
NEEDS = (
    Need(cores=0.2, busy=0.1, device=5 * GB),
    Need(cores=1.0, busy=0.7, device=20 * GB),
    Need(cores=3.5, busy=0.2, device=5 * GB),
)


@pytest.fixture
def each() -> Each:
    """Three jobs that were measured, on a card of 40 GB and four CPUs."""
    made = Each(JOBS)
    made.room = Room(device_free=40 * GB, host_free=50 * GB, cores=4.0)
    for job, need in zip(JOBS, NEEDS, strict=True):
        assert made.following is job
        assert made.keep(need).startswith(f"{job.name} alone takes {need.cores} of 4 CPUs, ")
    assert made.following is None
    return made


@pytest.mark.parametrize(
    ("running", "job", "fits"),
    [
        ("", "computes", True),
        ("computes", "computes", False),  # the device has no time for two
        ("renders", "renders", False),  # nor four CPUs for two of these
        ("computes", "renders", False),  # 4.5 of four
        ("computes", "reads", True),
        ("computes reads reads", "reads", True),
        ("computes reads reads reads", "reads", False),
        ("renders", "reads", True),
    ],
)
def test_who_fits_beside_whom(each, running: str, job: str, fits: bool) -> None:
    jobs = dict(zip(NAMES, JOBS, strict=True))
    assert each.admits(jobs[job], [jobs[name] for name in running.split()]) is fits


def test_memory_counts_as_well(each) -> None:
    each.room = Room(device_free=21 * GB, cores=4.0)
    assert not each.admits(JOBS[0], [JOBS[1]])


def test_what_takes_most_of_any_one_thing_comes_first(each) -> None:
    ordered = [task.job.name for task in each.ordered(tasks(Spec(jobs=JOBS)))]
    assert ordered == ["renders"] * 2 + ["computes"] * 2 + ["reads"] * 2


def test_nothing_is_known_of_a_job_that_showed_nothing(each) -> None:
    assert each.admits(TaskSpec(argv=("x",), name="other"), JOBS)


@pytest.mark.slow
def test_each_is_measured_alone_and_then_they_run(share, tmp_path) -> None:
    say = "print('it/s: 7', flush=True)"
    busy = (
        f"import time\nfor n in range(30):\n {say}; end = time.thread_time() + 0.1\n while time.thread_time() < end: 0"
    )
    idle = f"import time\nfor n in range(30): {say}; time.sleep(0.1)"
    for name, code in (("busy.py", busy), ("idle.py", idle)):
        (tmp_path / name).write_text(code)
    done = share(
        *("--trial-each", "--trial", "1", "--json", "--metric-regex", r"it/s: (\d+)", "--no-index-args"),
        *("--", f"{sys.executable} busy.py", "--", f"{sys.executable} idle.py"),
    )
    assert done.returncode == 0, done.stderr
    for name in ("job0", "job1"):
        assert f"{name} alone takes " in done.stderr
    assert [row["exit_code"] for row in json.loads(done.stdout)["procs"]] == [0, 0]
