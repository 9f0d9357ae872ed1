"""A loader that fails in a sweep is told of: the right reason, no hang, and no process is left.

A real training that holds under its own settings is started under others, drawn at random, as a sweep starts it, and
its workers then fail: what they are to get cannot be pickled, they die of a signal, leave, raise, stand in a deadlock
of OpenMP after a fork, take more memory than their control group has, or more of /dev/shm than there is.
"""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import Case, chance, must

TESTS = "commands/test_sweep_loader.py; experiment/test_starting.py"
QUICK, FULL, SHARE = 50, 500, 2
SECONDS = 200.0
FIGURE = "longest start that failed, s"
MOST = 60.0  # s of a start whose batches never come: what it was given, and the grace of its end
WITHIN = 12.0  # s for the first batch, of a deadlock: workers that are spawned import torch before
SHM = 24 << 20  # B of a /dev/shm that is soon full
GROUP = 700 << 20  # B of a control group: torch and some workers, and not what these take then
MARK = "FAULTS_LOADERS"  # in the environment of all that a case starts
COVERED = f'mount -t tmpfs -o size={SHM} none /dev/shm && exec "$@"'
OWN_SHM = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", COVERED, "sh")
MEMORY = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
DIED = "DataLoader worker (pid N) is killed by signal: {}."
OWN = {"workers": 0, "prefetch": 2, "pin_memory": False, "persistent": False, "batch_size": 4}
GONE = "exited unexpectedly, its batch not yet taken"
SIGNALS = ("KILL", "TERM", "SEGV", "BUS")
# What fails, the start methods under which it does, what the sweep is to say of it, and of which kind.
KINDS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "unpicklable": (("spawn", "forkserver"), "its dataset cannot be handed to workers", "failed"),
    "KILL": (("fork", "spawn", "forkserver"), DIED.format("Killed"), "failed"),
    "TERM": (("fork", "spawn", "forkserver"), DIED.format("Terminated"), "failed"),
    "SEGV": (("fork", "spawn", "forkserver"), DIED.format("Segmentation fault"), "failed"),
    "BUS": (("fork", "spawn", "forkserver"), "died of a bus error", "oom"),
    "leaves": (("fork", "spawn", "forkserver"), "exited unexpectedly", "failed"),
    "raises": (("fork", "spawn", "forkserver"), "ValueError: no such sample", "failed"),
    "OpenMP": (("fork",), f"no batch came in the first {WITHIN:.0f} s", "failed"),
    "memory": (("fork", "spawn"), "for want of memory", "oom"),
    "shm": (("fork", "spawn"), "shared memory (`/dev/shm`) was full", "oom"),
}
TRAIN = """
import os, signal, sys, threading, time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
KIND, AT, METHOD, STRATEGY, SIZE = {told!r}

class Data(Dataset):
    def __init__(self):
        self.held = (lambda: 0) if KIND == "unpicklable" else None
        self.kept = []
    def __len__(self): return 4000
    def __getitem__(self, i):
        time.sleep(0.002)
        if get_worker_info() is None: return torch.full((SIZE,), float(i))
        if KIND == "OpenMP":
            torch.set_num_threads(2)
            torch.ones(3_000_000).exp()
        if KIND == "memory": self.kept.append(bytearray(os.urandom(1 << 20)) * 32)
        if i >= AT:
            if KIND in ("KILL", "TERM", "SEGV", "BUS"): os.kill(os.getpid(), getattr(signal, "SIG" + KIND))
            if KIND == "leaves": os._exit(1)
            if KIND == "raises": raise ValueError("no such sample")
        return torch.full((SIZE,), float(i))

def main():
    if STRATEGY: torch.multiprocessing.set_sharing_strategy(STRATEGY)
    torch.set_num_threads(2)
    torch.ones(3_000_000).exp()
    weight = torch.zeros(1, requires_grad=True)
    loader = DataLoader(Data(), batch_size=4)
    for epoch in range(50):
        for batch in loader:
            (weight - batch[:, :1]).square().mean().backward()
            if KIND == "shm": time.sleep(0.1)

if __name__ == "__main__":
    torch.multiprocessing.set_start_method(METHOD)
    main()
"""
WHERE = f"train.py:{1 + TRAIN[: TRAIN.index('loader = DataLoader')].count(chr(10))}"


def settings(dice: random.Random) -> dict[str, object]:
    """Return the settings of a start, with workers."""
    return {
        "workers": dice.choice((1, 2, 3)),
        "prefetch": dice.choice((1, 2, 4)),
        "pin_memory": False,  # there is no device to pin for
        "persistent": dice.random() < 0.5,
        "batch_size": dice.choice((1, 4, 16)),
    }


@contextlib.contextmanager
def group() -> Iterator[str]:
    """Make a control group of little memory, and remove it; "" where that may not be."""
    top = next((each for each in MEMORY if each.is_dir() and os.access(each, os.W_OK)), None)
    made = top / f"faults-{os.getpid()}" if top else None
    try:
        if made is not None:
            made.mkdir()
            limit = next(each for each in ("memory.limit_in_bytes", "memory.max") if (made / each).exists())
            (made / limit).write_text(str(GROUP))
    except (OSError, StopIteration):
        with contextlib.suppress(OSError):
            made.rmdir()  # type: ignore[union-attr] # an OSError is of one that was made
        made = None
    try:
        yield str(made or "")
    finally:
        if made is not None:
            made.rmdir()


def marked(mark: str) -> list[str]:
    """Return the processes that a case has started and that are there yet."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def started(folder: Path, asked: dict[str, object], before: tuple[str, ...], mark: str) -> dict[str, object]:
    """Start it in a process of its own, and return what that tells."""
    (folder / "asked").write_text(json.dumps(asked))
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        (*before, sys.executable, "-m", "tests.faults.loading", str(folder / "asked")),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, MARK: mark},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS - 20,
        check=False,
    )
    must(done.returncode == 0, f"{asked}: status {done.returncode}: {done.stderr[-1500:]}")
    return dict(json.loads(done.stdout))


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    with group() as limited:
        covers = not subprocess.run((*OWN_SHM, "true"), check=False, capture_output=True).returncode
        possible = [name for name in KINDS if (name != "memory" or limited) and (name != "shm" or covers)]

        def case(number: int) -> float:
            dice = chance("loaders", number)
            kind = possible[number % len(possible)]
            methods, why, state = KINDS[kind]
            wanted, method = settings(dice), dice.choice(methods)
            if method == "forkserver" and kind in SIGNALS:  # its workers are no children of the training:
                why, state = "exited unexpectedly", "failed"  # that is all that torch knows
            size = dice.choice((1, 1000))
            if kind == "shm":  # a full queue is larger than what there is
                queue = int(str(wanted["workers"])) * int(str(wanted["prefetch"])) * int(str(wanted["batch_size"]))
                size = SHM * 5 // 4 // queue // 4
            strategy = dice.choice(("", "file_system")) if kind != "shm" else ""
            at = dice.choice((0, 0, 40, 200))
            home = folder / f"case-{number}"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            (home / "train.py").write_text(TRAIN.format(told=(kind, at, method, strategy, size)))
            asked = {"do": "fail", "where": WHERE, "own": OWN, "setting": wanted}
            asked |= {"cgroup": limited if kind == "memory" else "", "within": WITHIN if kind == "OpenMP" else 60.0}
            mark = f"{os.getpid()}-{number}-{time.monotonic_ns()}"
            found = started(home, asked, OWN_SHM if kind == "shm" else (), mark)
            words = f"{kind}, {method}, {wanted}, at {at}, {strategy}: {found}"
            left = marked(mark)
            must(not left, f"processes are left: {left}: {words}")
            said = re.sub(r"\(pid\(?s?\)? [\d, ]+\)", "(pid N)", str(found["why"]))
            if kind in (*SIGNALS, "leaves") and GONE in said:  # all that its training is told of a batch's owner
                why, state = GONE, "failed"
            must(why in said, f"another reason than {why!r}: {words}")
            must(found["state"] == state, f"another state than {state!r}: {words}")
            must(float(str(found["seconds"])) < MOST, f"it took too long: {words}")
            shutil.rmtree(home)
            return float(str(found["seconds"]))

        yield case
