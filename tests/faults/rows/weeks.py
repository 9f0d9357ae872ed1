"""It runs for weeks: memory, descriptors and threads of gputune's own processes stay flat.

A training of nine processes on eight simulated devices is watched beside all other rows, for as long as the suite may
take; what gputune's processes hold is looked at each second, and the second half is compared with the quarter before
it, when all was learnt. A full run goes on with twice as long each time, up to 40 hours in one run and 81 in all.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from gputune.core.sample import Sample
from gputune.recording import readings
from tests.faults.row import Case, must
from tests.faults.runs import GPUTUNE, environment, eventually

sys.path.insert(0, str(Path(__file__).parents[2] / "simgpu"))
from simgpu import build, create

TESTS = "benchmarks/long_run.py; recording/test_long.py"
LASTS = 570.0  # s of the first case, of which a quarter is left out: until then it learns
QUICK, FULL, SHARE = 1, 9, 0
SECONDS = LASTS * 2 ** (FULL - 1) + 300
FIGURE = "most that memory has grown, MiB, in the second half of a run (`make faults`: of 9.5 minutes, beside all rows)"
DEVICES, PROCESSES = 8, 9
MEMORY = 6 << 20  # B that may come and go: pyarrow's pools, and what a beat holds
DISK = 100 << 20  # B an hour as frames: a segment of 8 MiB becomes Parquet of a fraction of that (docs/recording.md)
TRAIN = """
import os, pathlib, time, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 4000
    def __getitem__(self, i): return i

if __name__ == "__main__":
    optimizer = torch.optim.Optimizer()
    while not pathlib.Path("enough").exists():
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=8):
            optimizer.step()
            time.sleep(0.05)
            if pathlib.Path("enough").exists(): break
"""


def parted(supervisor: psutil.Process) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return gputune's own processes that last, and those of the training."""
    ours, theirs = [supervisor], []
    for process in supervisor.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if line == [sys.executable, "train.py"]:
                theirs.append(process)
            elif line and "py-spy" not in process.name():  # that comes and goes
                ours.append(process)
    return ours, theirs


def held(ours: list[psutil.Process]) -> tuple[int, int, int]:
    """Return memory (B, unshared), descriptors and threads of all of them."""
    memory = files = threads = 0
    for process in ours:
        with contextlib.suppress(psutil.Error):
            memory += process.memory_full_info().uss
            files += process.num_fds()
            threads += process.num_threads()
    return memory, files, threads


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(build()), os.environ.get("LD_LIBRARY_PATH", "")]))
    os.environ["SIMGPU_STATE"] = str(create(folder / "cards", DEVICES))

    def case(number: int) -> float:
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / "train.py").write_text(TRAIN)
        command = (*GPUTUNE, "watch", "--all-devices", "--quiet", "--out", "run", "--", sys.executable, "train.py")
        began = time.monotonic()
        running = subprocess.Popen(command, cwd=home, env=environment(), stdin=subprocess.DEVNULL)
        looks, most = [], 0
        try:
            eventually((home / "run" / "frames-00001").exists, "the first frames")
            while time.monotonic() - began < LASTS * 2**number:
                must(running.poll() is None, "it ended before its time")
                disk = sum(file.stat().st_size for file in (home / "run").rglob("*") if file.is_file())
                ours, theirs = parted(psutil.Process(running.pid))
                most = max(most, len(theirs))
                looks.append((*held(ours), disk))
                time.sleep(1.0)
        finally:
            (home / "enough").touch()
            running.wait(200)
        must(most == PROCESSES, f"the training had {most} processes")
        seen = {each.instance for tick in readings(home / "run") for each in tick if _tells_of_a_device(each)}
        must(len(seen) == DEVICES, f"of {len(seen)} devices only was anything recorded")
        return judged(looks, LASTS * 2**number)

    yield case


def _tells_of_a_device(reading: object) -> bool:
    return isinstance(reading, Sample) and reading.metric.name == "gpu.busy"


def judged(looks: list[tuple[int, int, int, int]], lasted: float) -> float:
    """Compare the second half with the quarter before it, and return by how much memory has grown (MiB)."""
    half = len(looks) // 2
    middles = [
        [statistics.median(each) for each in zip(*part, strict=True)]
        for part in (looks[half // 2 : half], looks[half:])
    ]
    (memory, files, threads, _), later = middles
    must(later[0] - memory < MEMORY, f"memory grows from {memory / 2**20:.1f} to {later[0] / 2**20:.1f} MiB")
    must(later[1] <= files + 1, f"descriptors grow from {files} to {later[1]}")
    must(later[2] <= threads + 1, f"threads grow from {threads} to {later[2]}")
    grown = (looks[-1][3] - looks[half][3]) / (lasted / 2) * 3600
    must(grown < DISK, f"the disk would grow by {grown / 2**20:.0f} MiB an hour as frames")
    return (later[0] - memory) / 2**20
