"""Disk trouble stays ours: whatever fails on it, the training's output, files and status are its own.

A preloaded library (shim.c) lets the N-th call of a kind fail, once or from then on, with one of five errors, in every
process of the watch: supervisor, recorder, training and its workers. N is one that such a run comes to, which is
counted first, and a case in which nothing failed is a failure. What was kept is read afterwards, in words.
"""

import contextlib
import errno
import itertools
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.compiled import shared
from tests.faults.row import HERE, Broken, Case, must
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


class Home:
    """A folder in which the training is watched, while something fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.hits = folder / "hits"
        self._shim = str(shared(HERE / "shim.c"))
        (folder / "count").touch()
        self.watch(FAULTS_COUNT=str(folder / "count"), FAULTS_IN=PLACES[0])
        made = Counter(self._kinds((folder / "count").read_text()))
        self.most: dict[tuple[str, str], int] = {}  # calls of a kind that one process makes
        for (_, call, place), count in made.items():
            self.most[call, place] = max(count, self.most.get((call, place), 0))
        print(self.most, file=sys.stderr)

    @staticmethod
    def _kinds(text: str) -> Iterator[tuple[str, str, str]]:
        for line in text.splitlines():
            pid, call, path = line.split(" ", 2)
            yield from ((pid, call, place) for place in PLACES if place in path)

    def watch(self, **asked: str) -> "subprocess.CompletedProcess[str]":
        """Watch the training with the library before all others."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "train.py").write_text(TRAIN)
        self.hits.unlink(missing_ok=True)
        return subprocess.run(
            (*GPUTUNE, "watch", "--", sys.executable, "train.py"),
            cwd=self.folder,
            env=environment(**asked, LD_PRELOAD=self._shim, FAULTS_HITS=str(self.hits)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS / 2,
            check=False,
        )


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    home = Home(folder)

    def case(number: int) -> None:
        call, error, place, at, always = ALL[number]
        while (call, place) not in home.most:  # the next one that is made there
            call = CALLS[(CALLS.index(call) + 1) % len(CALLS)]
        at = (at - 1) % home.most[call, place] + 1
        for n in (at, 1):  # how often a process comes to write is not the same each time
            asked = {"FAULTS_CALL": call, "FAULTS_ERRNO": str(error), "FAULTS_AT": str(n), "FAULTS_IN": place}
            done = home.watch(**asked, FAULTS_ALWAYS="1" if always else "0")
            words = f"{call} {n} {'and all later ones' if always else 'once'}, {place}, {errno.errorcode[error]}"
            judged(home.folder, done, words)
            if home.hits.exists():
                return
        raise Broken(f"{words}: nothing failed")

    yield case


def judged(home: Path, done: "subprocess.CompletedProcess[str]", words: str) -> None:
    """Look at what the training and the watch have left."""
    must(done.returncode == 3, f"{words}: status {done.returncode}: {done.stderr}")
    must(done.stdout == OUTPUT, f"{words}: output {done.stdout!r}, {done.stderr}")
    must((home / "model").read_text() == "model", f"{words}: its file")
    must("Traceback" not in done.stderr, f"{words}: {done.stderr}")
    names = {file.name for file in home.iterdir()}
    must(names <= {"train.py", "model", "gputune-runs", "__pycache__"}, f"{words}: {names}")
    kept(home)


def kept(home: Path) -> None:
    """Read what was kept: a verdict, or a sentence."""
    for run in (home / "gputune-runs").glob("*/"):
        done = subprocess.run(
            (*GPUTUNE, "report", str(run)), cwd=home, capture_output=True, text=True, timeout=100, check=False
        )
        must(done.returncode in {0, 1, 2} and "Traceback" not in done.stderr, done.stderr)
        must("open an issue" not in done.stderr, done.stderr)
        must(not done.returncode or done.stderr.count("error: ") == 1, done.stderr)
