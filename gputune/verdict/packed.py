"""The shape of `share.json`: several processes on one card, a row for each. docs/share.md describes it.

It is in the run folder from the first seconds on, and `share --json` prints its last state. Fields are only ever added
within one `schema_version`. Times in s, memory in B, shares 0 to 1, null where nothing was measured.
"""

import time
from pathlib import Path
from typing import Final

import msgspec

from gputune.core import opening

FILE: Final = "share.json"  # in the run folder
SCHEMA_VERSION: Final = 1
LOST: Final = "lost"  # how a process is whose launcher was lost: it was ended with it, and nobody saw how
SILENT = 15.0  # s without a word of a launcher, which writes every two, after which it is gone, or stopped


class ProcRow(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `exit_code` is negative for a signal, null if it has not ended; `device_share` of the SMs' time.

    `state`: waiting, running, paused (by us), ended, lost (with its launcher). `samples_per_s` is its mean, `recent`
    that of its last seconds, both in `unit`. A `trial` copy is only to be measured (`--procs auto`): its end is not the
    run's.
    """

    index: int
    pid: int
    exit_code: int | None
    log: str
    wall_s: float | None
    samples_per_s: float | None
    name: str = ""
    state: str = "ended"
    why: str = ""
    attempts: int = 1
    batches: int = 0
    unit: str = ""
    recent: float | None = None
    device_memory: float | None = None
    host_memory: float | None = None
    device_share: float | None = None
    card: str = ""  # its CUDA_VISIBLE_DEVICES, where it was chosen here
    trial: bool = False


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. `alone` and `together` are in `unit`, of one process by itself and of `at_once` at a time.

    `phase` is one of alone, trying, clearing and packed while it is `running`; `exit_code` is null until it has ended.
    """

    schema_version: int = SCHEMA_VERSION
    running: bool = False
    phase: str = ""
    procs: list[ProcRow]
    mps: bool
    alone: float | None
    together: float | None
    gain: float | None
    unit: str = ""
    at_once: int = 0
    limit: str = ""  # what keeps all together from doing more: `device`, `CPUs`; "" where nothing is full
    device: str = ""
    compute_mode: str = ""  # of the card, as nvidia-smi calls it; "" where it was not told
    device_busy: float | None = None
    cpu_busy: float | None = None
    verdict: str = ""
    notes: list[str] = []
    exit_code: int | None = 0
    wall_s: float = 0.0


def read(folder: Path) -> Packed | None:
    """Return the document in a run folder, None where it was no packed run. It may still be running, or cut off."""
    try:
        return opening.document(folder / FILE, Packed)
    except (OSError, msgspec.DecodeError):
        return None


def bereft(document: Packed, why: str, exit_code: int | None) -> Packed:
    """Return what is left to tell once the launcher is lost: nobody saw the end, and nobody else writes of it."""
    procs = [
        msgspec.structs.replace(row, state=LOST, recent=None) if row.state in {"running", "paused"} else row
        for row in document.procs
    ]
    return msgspec.structs.replace(document, running=False, phase="", procs=procs, verdict=why, exit_code=exit_code)


def silence(folder: Path) -> float:
    """Return the s since the document in a run folder was written."""
    try:
        return max(0.0, time.time() - (folder / FILE).stat().st_mtime)
    except OSError:
        return 0.0
