"""The recording, held at arm's length: pyarrow comes late, and whatever fails costs the recording only."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gputune.core.events import Event
from gputune.core.sample import Json, Reading, now
from gputune.core.units import NS
from gputune.launch.link import Started
from gputune.launch.run import WatchedRun
from gputune.recording.gap import unread, unwritten
from gputune.watching.recorder.batch import job

if TYPE_CHECKING:
    from gputune.recording import Recording  # at run time it is imported where its failure costs only itself
    from gputune.watching.recorder.facts import Facts


ABOUT = "run.json"
CLOSED = "closed"  # what a recording says of itself after a good end

# Of the environment only these are kept: what a verdict may depend on, and nothing that could be a secret.
TELLING = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "TOKENIZERS_PARALLELISM",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE",
    "MPI_LOCALRANKID", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
    "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "GLOO_SOCKET_IFNAME",
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT", "NODE_RANK",
    "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTHONUNBUFFERED", "PYTHONHASHSEED",
    "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_GPUS",
    "SLURM_NNODES", "SLURM_NODEID", "SLURM_LOCALID", "KUBERNETES_SERVICE_HOST",
    "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID", "JOB_NAME",
)  # fmt: skip


class RunRecording:
    """The recording of one run. `trouble` says why there is none, or only a part, in words for the user."""

    def __init__(self, run: WatchedRun, command: tuple[str, ...], started: Started, *, resumed: bool) -> None:
        self.trouble = ""
        self._folder = Path(run.folder) if run.folder else None
        # an earlier life may have been killed before it wrote anything
        self._resumed = resumed and self._folder is not None and (self._folder / ABOUT).exists()
        # 0.3 s: a command that ends before, and trained nothing, does not wait 60 ms for pyarrow to keep 3 readings
        self._brief_until = started.t + int(0.3 * NS)
        self._held: list[list[Reading]] = []
        self._began = False
        self._recording: Recording | None = None
        self._command, self._pid, self._attached = command, started.pid, bool(run.pid)
        self._facts: Facts | None = None
        # 2.0 s after the start: a command that is just starting is not to share its CPU with git
        self._facts_due = 0 if self._resumed else started.t + int(2.0 * NS)  # 0: they were asked for
        self._nothing = False  # what writes it could not be loaded
        if self._folder is not None:
            self._open(self._folder, run, _about(run, command, started))

    @property
    def there(self) -> bool:
        """Return whether there is a recording that can be named: its folder may have been taken away meanwhile."""
        folder = self._folder
        return self._recording is not None and not self._nothing and folder is not None and (folder / ABOUT).is_file()

    def earlier(self) -> Iterator[list[Reading]]:
        """Yield what earlier lives of the recorder kept."""
        if not self._resumed or self._folder is None:
            return
        try:
            from gputune import recording  # noqa: PLC0415 - where its failure costs only itself

            recording.lean()
            yield from recording.readings(self._folder)
        except Exception as error:  # noqa: BLE001 - what comes from here on is still worth a verdict
            self.trouble = f"the first part of the run is missing in the verdict ({_why(error)})"

    def take(self, readings: list[Reading]) -> None:
        """Keep the readings of one tick; they are written once a second."""
        if self._recording is None:
            return
        if not self._began:
            self._held.append(readings)
            if now() < self._brief_until and not any(isinstance(r, Event) for r in readings):
                return
            self._begin()
        else:
            self._recording.take(readings)
        self._recording.beat(now())
        if self._facts is not None:
            self._tell(self._facts.look())
        elif self._facts_due and now() >= self._facts_due:
            self._ask()

    def _ask(self) -> None:
        """Put down where it runs; what takes longer comes in later."""
        from gputune.watching.recorder.facts import Facts  # noqa: PLC0415 - in a recorder that has begun

        self._facts_due = 0
        where = _theirs(self._pid) if self._attached else _cwd()
        self._facts = Facts(self._pid, self._command, where)
        self._tell(self._facts.begin())

    def _tell(self, facts: dict[str, Json]) -> None:
        if facts and self._recording is not None:
            self._recording.about(**facts)

    def about(self, **changes: Json) -> None:
        """Keep how the run ended."""
        if self._recording is not None:
            self._recording.about(**changes)

    def make_room(self) -> None:
        """Have room on the disk for the verdict, also where it is full."""
        if self._recording is not None:
            self._recording.make_room()

    def check(self) -> None:
        """Find out whether everything could be written so far."""
        if self._recording is not None and self._recording.broken not in {"", CLOSED}:
            self.trouble = f"the recording is not whole: {self._recording.broken}"
        elif self._recording is not None and (why := unwritten(self._recording.missed)):
            self.trouble = f"the recording is not whole: {why}"

    def resumed(self, since: int) -> None:
        """Put down that nothing was read since then (ns): the recorder before this one was lost."""
        if self._recording is not None and not self._recording.broken:
            self._recording.unread(since)

    @property
    def unread(self) -> str:
        """Return for how long nothing was read, in words; "" where that never was so."""
        return "" if self._recording is None else unread(self._recording.missed)

    def close(self) -> None:
        """Finish the recording."""
        if self._recording is not None:
            if self._facts_due and self._began:
                self._ask()
            if self._facts is not None:
                self._tell(self._facts.close())
            self._recording.close()
            self.check()

    def _open(self, folder: Path, run: WatchedRun, about: dict[str, Json]) -> None:
        try:
            from gputune.recording import Recording  # noqa: PLC0415 - as above

            if self._resumed:
                self._recording = Recording.resume(folder)
                self._begin()
            else:
                self._recording = Recording.create(folder, about, max_size=run.max_size)
        except Exception as error:  # noqa: BLE001 - the verdict does not need the recording
            self._recording = None
            self.trouble = f"nothing was recorded ({_why(error)})"

    def _begin(self) -> None:
        """Load what writes tables, and write what was held back."""
        if self._recording is None:
            return
        self._began = True
        try:
            from gputune.recording import lean  # noqa: PLC0415 - as above

            lean()
        except Exception as error:  # noqa: BLE001 - the recording will find it missing too, and say so
            self._nothing = True
            self.trouble = f"nothing was recorded ({_why(error)})"
        for readings in self._held:
            self._recording.take(readings)
        self._held = []


def _about(run: WatchedRun, command: tuple[str, ...], started: Started) -> dict[str, Json]:
    """Return what run.json says from the start."""
    return {
        "command": list(command),
        "cwd": _cwd(),
        "pid": started.pid,
        "started": started.t,
        "hz": run.hz,
        **({} if run.price is None else {"price": run.price}),
        "host": os.uname().nodename,
        **({"attached": True} if run.pid else job(os.environ)),
        "environment": {} if run.pid else {name: os.environ[name] for name in TELLING if name in os.environ},
    }


def _cwd() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _theirs(pid: int) -> str:
    """Return the current folder of a process that ran before us: ours says nothing of it."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:  # it has ended, or is not to be looked at
        return ""


def _why(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
