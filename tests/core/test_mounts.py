"""Mounts: which lie on another machine, and which one holds a file."""

import pytest

from gputune.core.mounts import Mount, holding, parse

INFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw
41 27 0:45 / /mnt/my\\040data rw,relatime shared:9 - nfs4 server:/export\\134a rw,vers=4.2
42 27 0:46 /sub /mnt/pool rw - btrfs /dev/sdb1 rw
43 27 0:47 / /mnt/pool/inner rw - fuse.s3fs s3fs rw
a line that is none
"""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "ceph", "lustre", "9p", "fuse", "fuse.s3fs", "fuse.sshfs"])
def test_these_lie_on_another_machine(kind: str) -> None:
    assert Mount("0:1", kind, "x", "/x").remote


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "squashfs", "fuseblk", "fuse.mergerfs"])
def test_these_are_here(kind: str) -> None:
    assert not Mount("0:1", kind, "x", "/x").remote


def test_reads_what_can_hold_data_and_takes_back_escapes() -> None:
    found = {mount.point: mount for mount in parse(INFO)}
    assert set(found) == {"/", "/dev/shm", "/mnt/my data", "/mnt/pool", "/mnt/pool/inner"}
    assert found["/mnt/my data"] == Mount("0:45", "nfs4", "server:/export\\a", "/mnt/my data")
    assert found["/dev/shm"].in_memory


@pytest.mark.parametrize(
    ("device", "folder", "point"),
    [
        ("254:0", "/home/me/data", "/"),
        ("0:45", "/mnt/my data/train", "/mnt/my data"),
        ("0:99", "/mnt/pool/train", "/mnt/pool"),  # a subvolume's device is not in mountinfo
        ("0:47", "/mnt/pool/inner", "/mnt/pool/inner"),
        ("0:99", "/mnt/pools", "/"),
    ],
)
def test_finds_the_mount_that_holds_a_file(device: str, folder: str, point: str) -> None:
    found = holding(parse(INFO), device, folder)
    assert found is not None
    assert found.point == point


def test_of_two_mounts_in_one_place_the_later_hides_the_earlier() -> None:
    two = [Mount("0:1", "ext4", "a", "/data"), Mount("0:2", "nfs", "b", "/data")]
    assert holding(two, "0:9", "/data/x") is two[1]


def test_knows_nothing_of_a_file_in_no_mount() -> None:
    assert holding([], "254:0", "/data") is None
