"""Limits of control groups, as both versions write them."""

from pathlib import Path

import pytest

from gputune.host.cgroup import cpu_quota, folders, memory_limit

V2 = "31 23 0:28 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.fixture
def write(tmp_path: Path):
    def to(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return to


def quota(tmp_path: Path) -> float | None:
    return cpu_quota(7, tmp_path / "proc", tmp_path / "sys")


def test_no_group_is_no_limit(tmp_path: Path) -> None:
    assert quota(tmp_path) is None


def test_the_tightest_ancestor_counts(tmp_path: Path, write) -> None:
    write("proc/7/cgroup", "0::/a/b/c\n")
    write("proc/7/mountinfo", V2)
    write("sys/fs/cgroup/a/cpu.max", "200000 100000\n")
    write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    write("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n")
    assert quota(tmp_path) == 2.0


def test_version_one_counts_in_two_files(tmp_path: Path, write) -> None:
    write("proc/7/cgroup", "3:cpu,cpuacct:/box\n0::/\n")
    write("proc/7/mountinfo", V1.format(root="/"))
    write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n")
    write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n")
    write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert quota(tmp_path) == 0.5


def test_a_path_of_the_host_is_looked_for_below_the_mount_of_the_container(tmp_path: Path, write) -> None:
    write("proc/7/cgroup", "3:cpu,cpuacct:/docker/abc\n")
    write("proc/7/mountinfo", V1.format(root="/docker/abc"))
    assert list(folders(7, "cpu", tmp_path / "proc", tmp_path / "sys")) == [tmp_path / "sys/fs/cgroup/cpu,cpuacct"]


def test_a_path_outside_of_the_mount_leaves_the_mount_itself(tmp_path: Path, write) -> None:
    write("proc/7/cgroup", "0::/../other\n")
    write("proc/7/mountinfo", V2)
    write("sys/fs/cgroup/cpu.max", "300000 100000\n")
    assert quota(tmp_path) == 3.0


def test_the_highest_number_of_version_one_is_no_limit(tmp_path: Path, write) -> None:
    write("proc/7/cgroup", "4:memory:/\n")
    write("proc/7/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(7, tmp_path / "proc", tmp_path / "sys") is None
