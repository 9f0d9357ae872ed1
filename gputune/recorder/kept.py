"""The recording, held at arm's length: it begins late, and whatever fails in it costs the recording only."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gputune import __version__
from gputune.launch.link import Started
from gputune.launch.run import Run
from gputune.sample import Json, Reading

if TYPE_CHECKING:
    from gputune.recording import Recording  # at run time it is imported where its failure costs only itself

BEAT = 1.0  # s between writes: what a kill -9 of the recorder may cost
LATE = 0.25  # s: importing pyarrow takes 60 ms, which a command that ends at once need not wait for

# Of the environment only these are kept: what a verdict may depend on, and nothing that could be a secret.
TELLING = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "TOKENIZERS_PARALLELISM",
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT", "NODE_RANK",
    "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTHONUNBUFFERED", "PYTHONHASHSEED",
    "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_GPUS",
    "SLURM_NNODES", "SLURM_NODEID", "SLURM_LOCALID", "KUBERNETES_SERVICE_HOST",
)  # fmt: skip


class Kept:
    """The recording of one run. `trouble` says why there is none, or only a part, in words for the user."""

    def __init__(self, run: Run, command: tuple[str, ...], started: Started, *, resumed: bool) -> None:
        self.trouble = ""
        self._run = run
        self._about = _about(run, command, started)
        self._resumed = resumed
        self._begin_at = time.monotonic() + LATE
        self._beat_due = 0.0
        self._waiting: list[list[Reading]] = []
        self._recording: Recording | None = None
        self._off = not run.folder

    def earlier(self) -> Iterator[list[Reading]]:
        """Yield what earlier lives of the recorder kept."""
        if not self._resumed or self._off:
            return
        try:
            from gputune import recording  # noqa: PLC0415 - see above

            recording.lean()
            yield from recording.readings(Path(self._run.folder))
        except Exception as error:  # noqa: BLE001 - what comes from here on is still worth recording
            self._fail("the first part of the run is not in the verdict", error)

    def take(self, readings: list[Reading]) -> None:
        """Keep the readings of one tick."""
        if self._off:
            return
        at = time.monotonic()
        if self._recording is None:
            self._waiting.append(readings)
            if at >= self._begin_at:
                self._begin()
            return
        try:
            self._recording.take(readings)
            if at >= self._beat_due:
                self._beat_due = at + BEAT
                self._recording.beat(time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - the verdict does not need the recording
            self._stop("the recording stopped", error)

    def about(self, exit_code: int | None, unavailable: Mapping[str, str]) -> None:
        """Keep how the run ended."""
        if self._recording is None:
            self._begin()
        if self._recording is not None:
            try:
                self._recording.about(exit_code=exit_code, unavailable=dict(unavailable))
            except Exception as error:  # noqa: BLE001 - as above
                self._stop("the recording stopped", error)

    def close(self) -> None:
        """Finish the recording."""
        if self._recording is None:
            return
        try:
            self._recording.close()
        except Exception as error:  # noqa: BLE001 - as above
            self._stop("the recording was not finished", error)
        else:
            if self._recording.broken:
                self.trouble = f"the recording stopped: {self._recording.broken}"

    def _begin(self) -> None:
        if self._off:
            return
        folder = Path(self._run.folder)
        try:
            from gputune import recording  # noqa: PLC0415 - see above

            recording.lean()
            if self._resumed:
                self._recording = recording.Recording.resume(folder)
            else:
                self._recording = recording.Recording.create(folder, self._about, max_size=self._run.max_size)
            for readings in self._waiting:
                self._recording.take(readings)
        except Exception as error:  # noqa: BLE001 - as above
            self._stop("nothing was recorded", error)
        self._waiting = []

    def _stop(self, what: str, error: Exception) -> None:
        self._off = True
        self._recording = None
        self._fail(what, error)

    def _fail(self, what: str, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        self.trouble = f"{what} ({why})"


def _about(run: Run, command: tuple[str, ...], started: Started) -> dict[str, Json]:
    """Return what run.json says from the start."""
    return {
        "gputune": __version__,
        "command": list(command),
        "folder": str(Path.cwd()),
        "pid": started.pid,
        "started": started.t,
        "hz": run.hz,
        "environment": {name: os.environ[name] for name in TELLING if name in os.environ},
    }
