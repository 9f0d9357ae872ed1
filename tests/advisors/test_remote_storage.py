"""remote-storage speaks when batches are blocked and their files lie on another machine."""

from dataclasses import replace

import pytest

from gputune.advisors.remote_storage import advise
from gputune.core.mounts import Mount
from gputune.features import Storage

MB = 1_000_000
SHARE = Mount("0:45", "nfs4", "server:/export", "/data")


def blocked(run):
    """Two workers whose batches are blocked for 38 of 40 ms, with steps of 5 ms."""
    return run(num_workers=2, cpu=0.002, blocked=0.038, step=0.005, cpus=4)


def test_is_silent_about_a_local_disk(run, reading) -> None:
    assert list(advise(reading(blocked(run), mount=Mount("0:45", "xfs", "/dev/sdb", "/data")))) == []


def test_is_silent_where_the_way_is_short(run, reading) -> None:
    made = run(num_workers=2, cpu=0.040, blocked=0.001, step=0.005, cpus=2)
    assert list(advise(reading(made, mount=SHARE))) == []


def test_is_silent_while_batches_come_in_time(run, reading) -> None:
    made = run(num_workers=8, cpu=0.002, blocked=0.030, step=0.010)
    assert list(advise(reading(made, mount=SHARE))) == []


@pytest.mark.parametrize("kind", ["nfs4", "fuse.s3fs", "cifs", "lustre", "ceph"])
def test_names_the_file_system_and_how_long_copying_takes(run, reading, kind: str) -> None:
    (finding,) = advise(reading(blocked(run), asked=8 * MB, mount=SHARE._replace(kind=kind)))
    assert finding.id == "remote-storage"
    assert f"lie on {kind} (/data)" in finding.says
    assert "38 of its 40 ms" in finding.says
    assert "2.5 GB" in finding.do  # 10,000 samples, 32 a batch
    assert "some 6.2" in finding.do  # two workers, 8 MB in 40 ms each
    assert finding.evidence["read_B_s"] == pytest.approx(400e6, rel=0.01)


def test_promises_the_pace_of_a_local_disk(run, reading) -> None:
    (finding,) = advise(reading(blocked(run), asked=8 * MB, mount=SHARE))
    # 2 ms of CPU and 8 of reading, two at a time: the step sets the pace, and taking the batch over
    assert 2.8 < finding.speedup.likely < 4.0


def here_too(run, folder: str = "/home/me"):
    """The same run with some of its batches' files on the disk of this machine."""
    process = run.processes[0]
    return replace(run, processes=(replace(process, folders={**process.folders, "254:0": folder}), *run.processes[1:]))


def test_files_here_that_hardly_anything_is_read_from_change_nothing(run, reading) -> None:
    idle = Storage(disk="vda", rate=1e5, best=1e6, busy=0.01, queue=0.01, request=4096.0)
    made = reading(blocked(run), asked=8 * MB, mount=SHARE, disk=idle)
    (alone,), (finding,) = advise(made), advise(here_too(made))
    assert (finding.speedup, finding.says) == (alone.speedup, alone.says)
    assert finding.evidence["share_here"] < 0.01


def test_where_a_disk_here_gives_much_as_well_nothing_is_sure(run, reading) -> None:
    full = Storage(disk="vda", rate=400e6, best=400e6, busy=0.99, queue=8.0, request=512 * 1024)
    made = reading(blocked(run), asked=16 * MB, stored=8 * MB, mount=SHARE, disk=full)
    (alone,), (finding,) = advise(made), advise(here_too(made))
    assert finding.says.startswith("some of the files lie on nfs4 (/data)")
    assert finding.speedup.sure == 1.0
    assert 1.0 < finding.speedup.likely < alone.speedup.likely  # what the disk needs stays
    assert "not known" in finding.basis
