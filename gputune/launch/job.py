"""Watches of one job find each other: one run folder, in it a seat for each, and the lowest one has the last word.

`srun gputune watch -- python train.py` starts a watch a rank, and a PyTorchJob one a node. Nothing goes over the
network: they meet in the folder of their runs, on one machine or on a file system that they share (docs/ranks.md).
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping

from gputune.core.errors import BadUsage
from gputune.launch import folders

MARK = "job"  # the file that makes a folder a job's; it holds the job's key
SEAT = "rank-"
CLOSED = "findings.json"  # of the whole job: nobody may sit down any more
LATE = 600.0  # s after the first one sat down: a watch that comes later is one of another start
LONGEST_KEY = 48  # characters

# (launcher, rank, size, what tells this job from all others), the innermost launcher first, as in the guest's table
LAUNCHERS = (
    ("torch", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")),
    ("horovod", "HOROVOD_RANK", "HOROVOD_SIZE", ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")),
    (
        "openmpi",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    ("mpi", "PMI_RANK", "PMI_SIZE", ("PMI_JOBID", "PMI_PORT", "HYDRA_LAUNCHER_ID")),
    ("slurm", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")),
)

NODES = {  # a launcher, and what in its command says that it starts on several machines
    "torchrun": r" --nnodes(?![= ]1(:1)?( |$))",
    "srun": r" (-N(?! ?1( |$))|--nodes(?![= ]1( |$)))",
    "mpirun": r" (-H|--?host|--?hostfile|--?machinefile)[= ]",
}


class Job:
    """What the launcher says of this watch: the job's key, fit for a file name, and this watch's number in it."""

    __slots__ = ("key", "rank", "size")

    def __init__(self, key: str, rank: int, size: int) -> None:
        self.key = key
        self.rank = rank
        self.size = size


def told(environ: Mapping[str, str]) -> "Job | None":
    """Return the job that a launcher started this watch in, as one of several; None where there is none."""
    for launcher, rank_name, size_name, names in LAUNCHERS:
        rank, size = _number(environ.get(rank_name)), _number(environ.get(size_name))
        if rank is not None:
            if size is None or size < 2 or rank >= size:
                return None
            said = [environ[name] for name in names if environ.get(name)]
            return Job(_key(launcher, said or [f"of-{os.getsid(0)}"]), rank, size)
    return None


def _number(text: "str | None") -> "int | None":
    return int(text) if text is not None and text.isdigit() else None


def _key(launcher: str, said: "list[str]") -> str:
    words = re.sub(r"[^A-Za-z0-9.]+", "_", "_".join(said)).strip("_.")
    return f"{launcher}-{words[-LONGEST_KEY:]}"


def inside(command: "tuple[str, ...]", out: str) -> str:
    """Return the command whose watches join in one folder, where this one starts a job on several nodes; else ""."""
    launcher = os.path.basename(command[0]) if command else ""
    if launcher not in NODES or not re.search(NODES[launcher], " ".join(command)):
        return ""
    runs = "torchrun --no-python" if launcher == "torchrun" else launcher
    return f"{runs} gputune watch --out {out} -- python train.py"


def sit_down(job: Job, command: "tuple[str, ...]", out: "str | None") -> "tuple[str, str]":
    """Return (the job's run folder, this watch's own folder in it), both made if need be.

    Raises BadUsage where `out` is something else, OSError where folders cannot be made.
    """
    parent = os.path.dirname(os.path.abspath(out)) if out else folders.RUNS
    if out:
        os.makedirs(parent, exist_ok=True)
    else:
        folders.make_runs()
    with _alone(parent):
        if out:
            seat = _seat(out, job) if _of(out, job) or _made(out, job) else None
            if seat is None:
                raise BadUsage(
                    f"`{out}` already holds another run", hint=f"name a new folder, like `--out {out.rstrip('/')}-2`"
                )
            return os.path.realpath(out), seat
        tail = f"-{job.key}-{folders.name_of(command)}"
        for name in sorted(os.listdir(parent), reverse=True):
            folder = os.path.join(parent, name)
            if tail in name and _of(folder, job):
                seat = _seat(folder, job)
                if seat is not None:
                    return os.path.realpath(folder), seat
        base = os.path.join(parent, time.strftime("%Y%m%d-%H%M%S") + tail)
        for n in range(1, folders.TRIES):
            folder = base if n == 1 else f"{base}-{n}"
            if _made(folder, job):
                seat = _seat(folder, job)
                if seat is not None:
                    return os.path.realpath(folder), seat
    raise FileExistsError(f"{base} and {folders.TRIES} names like it are taken")


def _made(folder: str, job: Job) -> bool:
    """Make the job's folder, unless there is something by that name that is not an empty folder."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder) or os.listdir(folder):
            return False
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mark = os.open(os.path.join(folder, MARK), flags, 0o600)
    try:
        os.write(mark, job.key.encode())
    finally:
        os.close(mark)
    return True


def _of(folder: str, job: Job) -> bool:
    """Return whether this folder is this job's, of this start, and still open."""
    mark = os.path.join(folder, MARK)
    try:
        with open(mark, "rb") as file:
            fresh = time.time() - os.fstat(file.fileno()).st_mtime < LATE
            return fresh and file.read().decode() == job.key and not os.path.exists(os.path.join(folder, CLOSED))
    except (OSError, ValueError):
        return False


def _seat(folder: str, job: Job) -> "str | None":
    """Return this rank's own folder, None where somebody sits there: an earlier start of the same job."""
    seat = os.path.join(os.path.realpath(folder), f"{SEAT}{job.rank:05d}")
    try:
        os.mkdir(seat, 0o700)
    except FileExistsError:
        return None
    return seat


def seats(folder: str) -> "list[str]":
    """Return the seats taken in a job's folder, the lowest rank first. A link in it is no seat."""
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.name.startswith(SEAT) and e.is_dir(follow_symlinks=False))
    return [os.path.join(folder, name) for name in names]


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Let one watch after the other sit down; where a file system knows no locks, they hope for the best."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        end = time.monotonic() + 2.0  # s to wait for others who sit down; they take milliseconds
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.002)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)
