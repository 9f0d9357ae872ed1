"""What can be measured on this machine, and how to get the rest: one check for each instrument.

Every check tries the thing itself, the way a run would use it (py-spy is asked to read a sibling process, the guest is
sent into the user's own interpreter), because permissions read from settings are wrong in containers. A check that
fails by surprise says so in its own row.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from gputune.core.isolation import own_python
from gputune.host import cgroup, native

State = Literal["ok", "limited", "missing"]

DEADLINE_S = 10.0  # for any one program that a check starts: NVML can hang for ever in the driver
INSIDE = "the guest takes them from inside, without telling who holds the interpreter; none with `watch --pid`"
NO_DEVICE = "install the NVIDIA driver; in a container, start it with `--gpus all`"
PYTHON = "python"
GUEST = Path(__file__).parents[1] / "probes" / "guest"

NVML = """
import json, pynvml
pynvml.nvmlInit()
text = lambda s: s.decode() if isinstance(s, bytes) else s
rows = []
for i in range(pynvml.nvmlDeviceGetCount()):
    try:
        device = pynvml.nvmlDeviceGetHandleByIndex(i)
        row = {"name": text(pynvml.nvmlDeviceGetName(device)), "gpm": False, "mig": False, "why": ""}
    except Exception as error:
        rows.append({"name": "", "gpm": False, "mig": False, "why": str(error)})
        continue
    try:
        row["gpm"] = bool(pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice)
    except Exception:
        pass
    try:
        row["mig"] = pynvml.nvmlDeviceGetMigMode(device)[0] == 1
    except Exception:
        pass
    rows.append(row)
print(json.dumps({"driver": text(pynvml.nvmlSystemGetDriverVersion()), "devices": rows}))
"""


class DriverRow(TypedDict):
    """What the driver says of one device. `why`: it says nothing, for this reason."""

    name: str
    gpm: bool
    mig: bool
    why: str


class DriverReport(TypedDict):
    """What the program above prints."""

    driver: str
    devices: list[DriverRow]


@dataclass(frozen=True, slots=True)
class Check:
    """One row: what was tried, how it went, and what would help where it did not go well."""

    name: str
    state: State
    says: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Roots:
    """Where to look: every root is a field so that a test is a folder."""

    python: str = PYTHON
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    shm: Path = Path("/dev/shm")  # noqa: S108 - where DataLoader workers pass batches; nothing is created in it here
    here: Path = Path()


def run(place: Roots) -> list[Check]:
    """Return the row of every check, in the order in which a reader needs them."""
    return [row for name, check in CHECKS for row in _alone(name, check, place)]


def _alone(name: str, check: Callable[[Roots], Iterator[Check]], place: Roots) -> list[Check]:
    try:
        return list(check(place))
    except Exception as error:  # noqa: BLE001 - one row's surprise must not take the table
        return [Check(name, "missing", f"could not be checked: {type(error).__name__}: {error}")]


def guest(place: Roots) -> Iterator[Check]:
    """Send the guest into the user's interpreter and see whether it says hello."""
    python = shutil.which(place.python)
    if python is None and place.python == PYTHON:
        python = shutil.which("python3")  # many systems have no `python` outside of an environment
    if python is None:
        yield Check("guest", "missing", f"`{place.python}` was not found", "gputune doctor --python PATH")
        return
    with tempfile.TemporaryDirectory(prefix="gputune-doctor-") as rings:
        own = os.environ.get("PYTHONPATH")
        path = f"{GUEST}{os.pathsep}{own}" if own else str(GUEST)
        environ = {**os.environ, "PYTHONPATH": path, "GPUTUNE_RINGS": rings}
        code = "import importlib.util as u, sys; print('%d.%d' % sys.version_info[:2], bool(u.find_spec('torch')))"
        try:
            done = subprocess.run(
                [python, "-c", code], env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Check("guest", "missing", f"`{python}` did not run: {error}", "gputune doctor --python PATH")
            return
        heard = any(Path(rings).glob("*.hello"))
    version, _, torch = done.stdout.strip().rpartition("\n")[2].partition(" ")
    if done.returncode or not version:
        yield Check("guest", "missing", f"`{python}` is no Python that runs", "gputune doctor --python PATH")
    elif not heard:
        fix = "run `gputune doctor --python PATH` with the interpreter of your training (3.8 or later)"
        yield Check("guest", "missing", f"Python {version} at `{python}` was not reached", fix)
    else:
        with_torch = "with torch" if torch == "True" else "without torch"
        yield Check("guest", "ok", f"Python {version} at `{python}`, {with_torch}")


def compiled(_place: Roots) -> Iterator[Check]:
    """Look for the parts that are built in C: without them gputune records the same, and costs more."""
    slow = [*([] if native.hooks_are_built() else [native.HOOKS]), *native.unbuilt()]
    if slow:
        yield Check("compiled", "limited", f"{', '.join(slow)} run in Python, and cost more than in C", native.FIX)
    else:
        yield Check("compiled", "ok", "what costs most runs in C: hooks, reading of processes, rows")


def nvml(_place: Roots) -> Iterator[Check]:
    """Ask the driver in a process of its own, behind a deadline."""
    try:
        done = subprocess.run(own_python(NVML), capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        fix = "look for Xid errors in `dmesg`; `nvidia-smi` will hang as well"
        yield Check("nvml", "missing", f"the driver did not answer within {DEADLINE_S:.0f} s", fix)
        return
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].rpartition(": ")[2]
        yield Check("nvml", "missing", f"no device can be read ({reason})", NO_DEVICE)
        return
    yield from _devices(json.loads(done.stdout))


def _devices(answer: DriverReport) -> Iterator[Check]:
    """Return what the driver says of its devices: a lost one is named, and the others count."""
    rows = answer["devices"]
    well = [row for row in rows if not row["why"]]
    names = ", ".join(sorted({row["name"] for row in well})) or "no device"
    yield Check("nvml", "ok" if well else "missing", f"{len(well)} × {names}, driver {answer['driver']}", NO_DEVICE)
    for index, row in enumerate(rows):
        if row["why"]:
            fix = "look for Xid errors in `dmesg`; the device needs a reset"
            yield Check("nvml", "limited", f"device {index} cannot be read ({row['why']})", fix)
    if any(row["mig"] for row in well):
        yield Check("mig", "limited", "utilisation cannot be measured on MIG instances")
    if well and all(row["gpm"] for row in well):
        yield Check("gpm", "ok", "SM and tensor activity can be read")
    elif well:
        yield Check("gpm", "missing", "SM and tensor activity need Hopper or later")


def stacks(place: Roots) -> Iterator[Check]:
    """Let py-spy read a process that it did not start, as it must during a run; else the guest looks by itself."""
    beside = Path(sys.executable).with_name("py-spy")
    binary = str(beside) if beside.exists() else shutil.which("py-spy")
    if binary is None:
        yield Check("stacks", "limited", f"py-spy is not installed: {INSIDE}", "pip install py-spy")
        return
    with _sleeper() as pid:
        done = subprocess.run(
            [binary, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
    if done.returncode == 0:
        yield Check("stacks", "ok", "taken from outside: py-spy may read the stacks of processes")
        return
    scope = _first_line(place.proc / "sys" / "kernel" / "yama" / "ptrace_scope")
    if scope in {"1", "2", "3"}:
        fix = "sysctl kernel.yama.ptrace_scope=0; in a container, start it with `--cap-add SYS_PTRACE`"
        why = f"reading processes is forbidden (kernel.yama.ptrace_scope is {scope})"
        yield Check("stacks", "limited", f"{why}: {INSIDE}", fix)
        return
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[0].removeprefix("Error: ")
    fix = "in a container, start it with `--cap-add SYS_PTRACE`"
    yield Check("stacks", "limited", f"{reason}: {INSIDE}", fix)


@contextmanager
def _sleeper() -> Iterator[int]:
    """Hold a Python process that waits on its standard input; it ends with ours, whatever happens."""
    code = "print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(own_python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None  # noqa: S101 - tells mypy what PIPE says
        child.stdout.readline()
        yield child.pid
    finally:
        child.kill()
        child.communicate()


def pressure(place: Roots) -> Iterator[Check]:
    """Look for the kernel's account of tasks that wait for storage or memory."""
    if _first_line(place.proc / "pressure" / "io") is None:
        yield Check("pressure", "missing", "this kernel has no pressure stall information", "boot with `psi=1`")
    else:
        yield Check("pressure", "ok", "waiting for CPU, storage and memory can be read")


def schedstat(place: Roots) -> Iterator[Check]:
    """Look for run-queue delays: they tell a worker that wants a CPU from one that waits for data."""
    words = (_first_line(place.proc / "self" / "schedstat") or "").split()
    if len(words) == 3 and words[0] != "0":
        yield Check("schedstat", "ok", "time spent waiting for a CPU can be read")
    else:
        says = "the kernel does not count time spent waiting for a CPU"
        yield Check("schedstat", "missing", says, "sysctl kernel.sched_schedstats=1")


def cpus(place: Roots) -> Iterator[Check]:
    """Return what affinity and control groups leave of the machine's CPUs."""
    seen = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0))
    quota = cgroup.cpu_quota(os.getpid(), place.proc, place.sys)
    allowed = affinity if quota is None else min(float(affinity), quota)
    if allowed >= seen:
        yield Check("cpus", "ok", f"all {seen} CPUs may be used")
        return
    why = "the control group's quota" if quota is not None and quota < affinity else "CPU affinity"
    yield Check("cpus", "ok", f"{allowed:.3g} of {seen} CPUs may be used ({why}); num_workers is judged by that")


def shm(place: Roots) -> Iterator[Check]:
    """Look at where DataLoader workers pass their batches, and gputune's rings lie."""
    try:
        disk = shutil.disk_usage(place.shm)
    except OSError as error:
        yield Check("shm", "missing", f"`{place.shm}`: {error.strerror}", "mount a tmpfs at /dev/shm")
        return
    says = f"{_size(disk.free)} free of {_size(disk.total)}"
    # 32 << 20 B of /dev/shm for a hundred processes' rings
    # 64 << 20 B; what a container gets when nobody asked for more: too little for most loaders
    if disk.free < 32 << 20 or disk.total <= 64 << 20:
        fix = "in a container, start it with `--shm-size 8g` (or `--ipc host`)"
        yield Check("shm", "limited", f"{says}: little for DataLoader workers", fix)
    else:
        yield Check("shm", "ok", says)


def folder(place: Roots) -> Iterator[Check]:
    """See whether recordings can go where they do unless `--out` says otherwise."""
    here = place.here.resolve()
    free = shutil.disk_usage(here).free
    if not os.access(here, os.W_OK):
        yield Check("folder", "limited", f"`{here}` cannot be written to", "gputune watch --out DIR -- …")
    elif free < 512 << 20:  # B; the largest recording by default
        yield Check("folder", "limited", f"{_size(free)} free for recordings", "gputune watch --out DIR -- …")
    else:
        yield Check("folder", "ok", f"{_size(free)} free for recordings in `gputune-runs/`")


CHECKS: tuple[tuple[str, Callable[[Roots], Iterator[Check]]], ...] = (
    ("guest", guest),
    ("compiled", compiled),
    ("nvml", nvml),
    ("stacks", stacks),
    ("cpus", cpus),
    ("pressure", pressure),
    ("schedstat", schedstat),
    ("shm", shm),
    ("folder", folder),
)


def _first_line(path: Path) -> str | None:
    """Return the first line of a small file, None where it cannot be read (PSI that is off opens and then refuses)."""
    try:
        return path.read_text().partition("\n")[0].strip()
    except OSError:
        return None


def _size(number: int) -> str:
    return f"{number / 2**30:.3g} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
