"""What a control group allows a process, in both versions of the hierarchy: the tightest of it and its ancestors.

Inside a container /proc/PID/cgroup may name a path of the host: what of it is visible here follows from the root of the
mount in /proc/PID/mountinfo. Source: cgroups(7), kernel documentation of cgroup-v1 and cgroup-v2.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gputune.host.procfs import read_text


def folders(pid: int, controller: str, proc: Path, sys: Path) -> Iterator[Path]:
    """Yield the folders that may limit `pid` through `controller` (`cpu`, `memory`), the process's own first."""
    paths = _paths(read_text(proc / str(pid) / "cgroup") or "", controller)
    for line in (read_text(proc / str(pid) / "mountinfo") or "").splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.partition(" ")
        if kind not in {"cgroup", "cgroup2"} or kind not in paths:
            continue
        if kind == "cgroup" and controller not in options.rpartition(" ")[2].split(","):
            continue
        root, mount = front.split()[3:5]
        yield from _upwards(_below(sys, mount), root, paths[kind])


def _paths(text: str, controller: str) -> dict[str, str]:
    """Return the process's path in the unified hierarchy (`cgroup2`) and in that of the controller (`cgroup`)."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found["cgroup2"] = path
        elif controller in controllers.split(","):
            found["cgroup"] = path
    return found


def _below(sys: Path, mount: str) -> Path:
    """Place a mount point of /sys below the given root of it."""
    return sys / mount.removeprefix("/sys/") if mount.startswith("/sys/") else Path(mount)


def _upwards(mount: Path, root: str, path: str) -> Iterator[Path]:
    """Yield the folder of `path` and its ancestors up to the mount point; that alone if the path lies outside it."""
    inside = PurePosixPath(path)
    parts = inside.relative_to(root).parts if inside.is_relative_to(root) and ".." not in inside.parts else ()
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])


def cpu_quota(pid: int, proc: Path, sys: Path) -> float | None:
    """Return the CPUs (cores) that bandwidth control allows `pid`, or None without a limit. Affinity is not in it."""
    quotas = [quota for folder in folders(pid, "cpu", proc, sys) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _quota(folder: Path) -> float | None:
    text = read_text(folder / "cpu.max")
    if text is None:
        text = f"{read_text(folder / 'cpu.cfs_quota_us') or ''} {read_text(folder / 'cpu.cfs_period_us') or ''}"
    words = text.split()
    if len(words) != 2 or words[0] in {"max", "-1"} or int(words[1]) <= 0:
        return None
    return int(words[0]) / int(words[1])


def memory_limit(pid: int, proc: Path, sys: Path) -> tuple[int, Path] | None:
    """Return the tightest memory limit of `pid` in bytes and the folder it stands in, or None without a limit."""
    limits = [
        (limit, folder)
        for folder in folders(pid, "memory", proc, sys)
        # 1 << 60 B; version 1 says "no limit" as the highest page-aligned number
        if (limit := _number(folder, "memory.max", "memory.limit_in_bytes")) is not None and limit < 1 << 60
    ]
    return min(limits, default=None)


def memory_used(folder: Path) -> int | None:
    """Return what counts against that limit in bytes, without the page cache that would be given up first."""
    used = _number(folder, "memory.current", "memory.usage_in_bytes")
    if used is None:
        return None
    cache = 0
    for line in (read_text(folder / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"}:
            cache = max(cache, int(value))
    return max(0, used - cache)


def _number(folder: Path, *names: str) -> int | None:
    for name in names:
        text = (read_text(folder / name) or "").strip()
        if text.isdigit():
            return int(text)
    return None


class ReadLimit(NamedTuple):
    """How fast a group may read from one device: B/s and requests/s, None without a limit."""

    rate: float | None = None
    requests: float | None = None

    def tighter(self, other: "ReadLimit") -> "ReadLimit":
        """Return the tighter of both limits, each by itself."""
        return ReadLimit(_least(self.rate, other.rate), _least(self.requests, other.requests))


def _least(one: float | None, other: float | None) -> float | None:
    known = [limit for limit in (one, other) if limit is not None]
    return min(known, default=None)


def read_limits(pid: int, proc: Path, sys: Path) -> dict[str, ReadLimit]:
    """Return by device (`major:minor`) how fast `pid` may read from it; devices without a limit are not in it."""
    found: dict[str, ReadLimit] = {}
    for controller in ("io", "blkio"):  # its names in the unified hierarchy and before
        for folder in folders(pid, controller, proc, sys):
            for device, limit in _limits(folder):
                found[device] = limit.tighter(found.get(device, ReadLimit()))
    return {device: limit for device, limit in found.items() if limit != ReadLimit()}


def _limits(folder: Path) -> Iterator[tuple[str, ReadLimit]]:
    for line in (read_text(folder / "io.max") or "").splitlines():
        device, *pairs = line.split()
        values = dict(pair.split("=") for pair in pairs if "=" in pair)
        yield device, ReadLimit(_maybe(values.get("rbps")), _maybe(values.get("riops")))
    for line in (read_text(folder / "blkio.throttle.read_bps_device") or "").splitlines():
        yield line.split()[0], ReadLimit(rate=_maybe(line.split()[-1]))
    for line in (read_text(folder / "blkio.throttle.read_iops_device") or "").splitlines():
        yield line.split()[0], ReadLimit(requests=_maybe(line.split()[-1]))


def _maybe(word: str | None) -> float | None:
    return float(word) if word is not None and word.isdigit() else None
