"""Disk trouble stays ours: whatever fails on it, the training's output, files and status are its own.

A preloaded library (shim.c) lets the N-th call of a kind fail, once or from then on, with one of seven errors, in every
process of the watch: supervisor, recorder, training and its workers. What was kept is read afterwards, in words.
"""

import contextlib
import errno
import itertools
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.compiled import shared
from tests.faults.row import HERE, Case, must
from tests.faults.runs import GPUTUNE, environment

TESTS = "recording/test_faults.py; watch/test_faults.py"
CALLS = ("open", "write", "mkdir", "rename", "ftruncate", "fallocate", "mmap")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE)
PLACES = ("gputune-r", "gputune-rings", "gputune-runs")  # a part of the paths: both, the rings, the run folder
TIMES = range(1, 41)
ALL = list(itertools.product(CALLS, ERRORS, PLACES, TIMES, (False, True)))
random.Random(3).shuffle(ALL)
ALL.sort(key=lambda case: case[3] > 6)  # the first calls are the ones that every run makes
QUICK, FULL, SHARE = 120, len(ALL), 7
SECONDS = 200.0
OUTPUT = "".join(f"{epoch} {index}\n" for epoch in range(2) for index in range(10))
TRAIN = """
import sys, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 20
    def __getitem__(self, i): return i

if __name__ == "__main__":
    optimizer = torch.optim.Optimizer()
    for epoch in range(2):
        for n, batch in enumerate(DataLoader(Numbers(), batch_size=2, num_workers=1)):
            assert batch == [2 * n, 2 * n + 1], batch
            optimizer.step()
            print(epoch, n)
    with open("model", "w") as file: file.write("model")
    sys.exit(3)
"""


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    shim = shared(HERE / "shim.c")

    def case(number: int) -> None:
        call, error, place, at, always = ALL[number]
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / "train.py").write_text(TRAIN)
        asked = {"FAULTS_CALL": call, "FAULTS_ERRNO": str(error), "FAULTS_AT": str(at), "FAULTS_IN": place}
        asked |= {"FAULTS_ALWAYS": "1" if always else "0", "LD_PRELOAD": str(shim), "FAULTS_HITS": str(folder / "hits")}
        command = (*GPUTUNE, "watch", "--", sys.executable, "train.py")
        done = subprocess.run(
            command,
            cwd=home,
            env=environment(**asked),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS - 20,
            check=False,
        )
        must(done.returncode == 3, f"status {done.returncode}: {done.stderr}")
        must(done.stdout == OUTPUT, f"output {done.stdout!r}, {done.stderr}")
        must((home / "model").read_text() == "model", "its file")
        must("Traceback" not in done.stderr, done.stderr)
        must(
            {file.name for file in home.iterdir()} <= {"train.py", "model", "gputune-runs", "__pycache__"},
            list(home.iterdir()),
        )
        kept(home)

    yield case


def kept(home: Path) -> None:
    """Read what was kept: a verdict, or a sentence."""
    for run in (home / "gputune-runs").glob("*/"):
        done = subprocess.run(
            (*GPUTUNE, "report", str(run)), cwd=home, capture_output=True, text=True, timeout=100, check=False
        )
        must(done.returncode in {0, 1, 2} and "Traceback" not in done.stderr, done.stderr)
        must("open an issue" not in done.stderr, done.stderr)
        must(not done.returncode or done.stderr.count("error: ") == 1, done.stderr)
