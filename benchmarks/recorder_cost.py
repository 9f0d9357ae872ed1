"""What the recorder costs at 10 Hz beside a training with 8 workers, without and with 8 simulated GPUs.

A real `gputune watch` runs a real training loop (9 processes); once it has settled, the CPU time of the recorder and
of all its children (NVML, py-spy) is read window by window. A window holds each beat equally often (10 Hz, 1, 2 and
5 s; the rarer ones are in some), so the windows differ by noise, and by py-spy, which looks ever more rarely: the
median is the recorder as it is nearly all the time, the mean over all windows stands below it.

Then, beside a training that nobody watches, the probes of the machine and a loop on psutil take turns at reading the
same things of the same 9 processes, everything on every beat: CPU, I/O, threads and state by process, the machine's
CPUs, memory, /dev/shm, disks and network.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import per_probe
import psutil
from common import Figure, emit, figure, interval

from gputune.core.sample import Target
from gputune.host.procfs import CLOCK_TICKS, children_of, read_bytes, stat_of
from gputune.host.tree import Tree
from gputune.probes import memory, processes
from gputune.sampler.ticker import Ticker

WINDOWS, FEWER = 16, 8
WINDOW = 5.0  # s
SETTLED = 14.0  # s for imports, workers, the first bursts of stacks, and to be no longer young
HZ = 10
PAIRS = 60
MACHINE = ("cpu", "disk", "memory", "network", "processes")  # what the other loop reads
BUDGETS = {0: 0.0035, 8: 0.006}  # of a core, by devices
LOGGING = 0.02  # of a core, beside a training that does little else than to log
JOB = """
import time
from torch.utils.data import DataLoader

class Items:
    def __len__(self):
        return 10**9
    def __getitem__(self, index):
        return sum(range(500))

for batch in DataLoader(Items(), batch_size=4, num_workers=8):
    time.sleep(0.02)
"""

LOGGED = """
import os, torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.set_num_threads(1)
with open(__file__ + ".log", "w") as log:
    while True:
        for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(64 * 200, 256)), batch_size=64)):
            optimizer.zero_grad()
            (model(x) - x).abs().mean().backward()
            optimizer.step()
            for line in range(8):
                print(step, line, "#" * 60, file=log, flush=True)
                os.fsync(log.fileno())
        log.seek(0)
"""


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, of its live children and of those it has waited for: ns where there are."""
    stat = stat_of(read_bytes(f"/proc/{pid}/stat"))
    if stat is None:
        return 0.0
    threads = (read_bytes(f"{task}/schedstat").split() for task in Path(f"/proc/{pid}/task").iterdir())
    own = sum(int(words[0]) for words in threads if words) / 1e9
    return stat.waited / CLOCK_TICKS + own + sum(cpu_of(child) for child in children_of(f"/proc/{pid}"))


@contextmanager
def watched(folder: Path, devices: int, job: str = JOB) -> Iterator[tuple[int, int]]:
    """Run the training under `gputune watch`; give the pids of the recorder and of the training."""
    script = folder / "train.py"
    script.write_text(job)
    out = tempfile.mkdtemp(dir=folder) + "/run"
    command = [
        sys.executable,
        "-m",
        "gputune",
        "watch",
        "--out",
        out,
        "--",
        sys.executable,
        "-W",
        "ignore",
        str(script),
    ]
    if devices:
        simulated = Path(__file__).parent.parent / "tests" / "simgpu" / "run.py"
        command = [sys.executable, str(simulated), "--devices", str(devices), "--", *command]
    environment = dict(os.environ, GPUTUNE_ALL_DEVICES="1")
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(SETTLED)
        training = next(
            pid
            for pid in (child.pid for child in psutil.Process(process.pid).children(recursive=True))
            if read_bytes(f"/proc/{pid}/cmdline").startswith(f"{sys.executable}\0-W".encode())
        )
        supervisor = psutil.Process(training).ppid()
        (recorder,) = (pid for pid in children_of(f"/proc/{supervisor}") if pid != training)
        yield recorder, training
        os.kill(training, 9)
        process.wait(30)
    finally:
        process.kill()
        process.wait()


def recorder(folder: Path, devices: int) -> list[Figure]:
    """Return the whole recorder's share of a core, window by window, and its memory."""
    with watched(folder, devices) as (pid, _):
        shares = windows(pid, WINDOWS)
        resident = int(read_bytes(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    what = f"9 processes, {devices} devices, {HZ} Hz"
    return [
        figure(f"recorder: share of a core ({what})", "ratio", shares, BUDGETS[devices]),
        Figure(f"recorder: the same, mean over all windows ({what})", "ratio", *interval(shares, statistics.fmean)),
        Figure(f"recorder: memory ({what})", "MB", resident, resident, resident, 80),
    ]


def windows(pid: int, count: int) -> list[float]:
    """Return the share of a core that a process and its children use, window by window."""
    shares = []
    for _ in range(count):
        before, began = cpu_of(pid), time.monotonic()
        time.sleep(WINDOW)
        shares.append((cpu_of(pid) - before) / (time.monotonic() - began))
    return shares


def logging(folder: Path) -> list[Figure]:
    """Return the same beside a training that prints and syncs eight lines a step, some thousand lines a second."""
    with watched(folder, 0, LOGGED) as (pid, _):
        shares = windows(pid, FEWER)
    return [figure("recorder: share of a core (8 lines printed and synced each step)", "ratio", shares, LOGGING)]


def with_psutil(training: int) -> None:
    """Read with psutil what the probes read."""
    root = psutil.Process(training)
    for process in [root, *root.children(recursive=True)]:
        with process.oneshot():
            process.cpu_times(), process.num_threads(), process.status(), process.io_counters()
    root.memory_info()
    psutil.cpu_times(percpu=True), psutil.virtual_memory(), psutil.swap_memory()
    psutil.disk_io_counters(), psutil.net_io_counters(pernic=True), psutil.disk_usage("/dev/shm")


def timed(read: Callable[[], object]) -> float:
    """Return the CPU seconds of one reading, made after a pause as the recorder makes it: with cold caches."""
    time.sleep(1 / HZ / 2)
    before = time.thread_time()
    read()
    return time.thread_time() - before


def probes(folder: Path) -> list[Figure]:
    """Return the CPU of one reading of everything by the probes, by psutil, and their ratio."""
    script = folder / "alone.py"
    script.write_text(JOB)
    training = subprocess.Popen([sys.executable, "-W", "ignore", str(script)])
    try:
        time.sleep(SETTLED)
        tree = Tree(training.pid)
        processes.SLOW_BEAT = 0.0  # I/O on every beat, as the other loop
        processes.QUEUE_BEAT = float("inf")  # the wait for a CPU on none: psutil does not read it
        memory.FIRST_ROUND = float("inf")  # no PSS, as the other loop
        target = Target(training.pid, tree.pids)
        ticker = Ticker(target, hz=HZ, sink=lambda _: None, tree=tree, probes=MACHINE)
        pairs = []
        for _ in range(PAIRS):
            ours = [timed(lambda: ticker.tick(everything=True)) for _ in range(2)]
            theirs = [timed(lambda: with_psutil(training.pid)) for _ in range(2)]
            pairs.append((sum(ours) / 2, sum(theirs) / 2))
        if len(tree.pids()) != 9:
            raise RuntimeError(f"the training has {len(tree.pids())} processes, not 9")
        ticker.close()
    finally:
        for child in psutil.Process(training.pid).children():
            child.kill()
        training.kill()
        training.wait()
    return [
        figure("probes: one reading of everything, 9 processes", "s", [ours for ours, _ in pairs]),
        figure("psutil: one reading of the same", "s", [theirs for _, theirs in pairs]),
        figure("probes over psutil", "ratio", [ours / theirs for ours, theirs in pairs], 1 / 8),
    ]


def main() -> None:
    """Measure without and with devices."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--per-probe", action="store_true", help="print what each probe costs, and no figures")
    options.add_argument("--probes", action="store_true", help="only compare the probes with psutil")
    options.add_argument("--logging", action="store_true", help="only beside a training that logs")
    chosen = options.parse_args()
    if chosen.per_probe:
        per_probe.table(JOB)
        return
    with tempfile.TemporaryDirectory() as folder:
        if chosen.logging:
            emit(logging(Path(folder)))
            return
        for devices in () if chosen.probes else BUDGETS:
            emit(recorder(Path(folder), devices))
        if not chosen.probes:
            emit(logging(Path(folder)))
        emit(probes(Path(folder)))


if __name__ == "__main__":
    main()
