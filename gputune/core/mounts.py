"""File systems by their names: which of them keep their files on another machine, and which mount holds a file."""

from collections.abc import Iterable
from typing import NamedTuple

# Kernel file systems whose files lie on another machine.
# Source: the kernel's Documentation/filesystems, and vendors' manuals.
NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "beegfs_nodev", "wekafs", "panfs",
        "glusterfs", "orangefs", "pvfs2", "afs", "coda", "9p", "ocfs2", "gfs2", "virtiofs",
    }
)  # fmt: skip
# Drivers in user space whose files are here: repackers, overlays and foreign formats. All others fetch from elsewhere.
LOCAL_FUSE = frozenset(
    {
        "fuseblk", "fuse.ntfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.mergerfs", "fuse.bindfs", "fuse.unionfs",
        "fuse.unionfs-fuse", "fuse.squashfuse", "fuse.squashfuse_ll", "fuse.fuse-overlayfs", "fuse.lxcfs",
        "fuse.gocryptfs", "fuse.encfs", "fuse.archivemount", "fuse.ratarmount", "fuse.dwarfs", "fuse.portal",
    }
)  # fmt: skip
MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
# What holds no data set. Source: proc(5), `nodev` file systems of /proc/filesystems.
PSEUDO = frozenset(
    {
        "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "debugfs", "tracefs", "securityfs", "pstore", "bpf",
        "configfs", "fusectl", "binfmt_misc", "autofs", "rpc_pipefs", "nsfs", "efivarfs", "selinuxfs", "devtmpfs",
    }
)  # fmt: skip


class Mount(NamedTuple):
    """One mounted file system: its device (`major:minor`), type, source and where it is mounted."""

    device: str
    kind: str
    source: str
    point: str

    @property
    def remote(self) -> bool:
        """Return whether its files lie on another machine (of a driver in user space that is not known: yes)."""
        if self.kind in NETWORK:
            return True
        return (self.kind == "fuse" or self.kind.startswith("fuse.")) and self.kind not in LOCAL_FUSE

    @property
    def in_memory(self) -> bool:
        """Return whether its files lie in this machine's memory."""
        return self.kind in MEMORY


def parse(text: str) -> list[Mount]:
    """Return the mounts of a `/proc/PID/mountinfo` that can hold data, in order. Source: proc_pid_mountinfo(5)."""
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if separator and len(left) >= 5 and len(right) >= 2 and right[0] not in PSEUDO:
            found.append(Mount(left[2], _plain(right[0]), _plain(right[1]), _plain(left[4])))
    return found


def _plain(word: str) -> str:
    """Take back the kernel's octal escapes of blanks and backslashes."""
    for escape, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(escape, letter)
    return word


def holding(mounts: Iterable[Mount], device: str, folder: str) -> Mount | None:
    """Return the mount of a file on `device` in `folder`, None where it is not known.

    btrfs and overlays give files other device numbers than mountinfo does: then the longest mount point above the
    folder counts, and of equals the later one, which hides the earlier.
    """
    above = [m for m in mounts if folder == m.point or folder.startswith(m.point.rstrip("/") + "/")]
    same = [m for m in above if m.device == device]
    return max(same or above, key=lambda m: (len(m.point), above.index(m)), default=None)
