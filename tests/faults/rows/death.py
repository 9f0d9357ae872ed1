"""The death of gputune's own processes costs the training nothing: it goes on as it was, and nobody is left.

Supervisor, recorder, NVML's process, py-spy and, of `share`, the launcher are killed, ended, stopped or left without
memory at a random step of a training on two simulated cards: each of them in turn, and then up to two more. What dies
with the launcher is its tasks, and no process stays.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.faults.row import Case, chance, must
from tests.faults.runs import GPUTUNE, environment, eventually

sys.path.insert(0, str(Path(__file__).parents[2] / "simgpu"))
from simgpu import build, create

TESTS = "watch/test_death.py; sharing/test_lives.py"
QUICK, FULL, SHARE = 200, 10_000, 6
SECONDS = 300.0
OOM = "no memory"
WHO = ("supervisor", "recorder", "nvml", "py-spy", "launcher")
APPEARS = 20.0  # s for who is to be harmed to be there
BURST = 0.6  # s for py-spy, which is there from time to time: else it is somebody else
WAYS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, OOM)
TRAIN = """
import os, pathlib, sys, time, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 400
    def __getitem__(self, i): return i

if __name__ == "__main__":
    optimizer = torch.optim.Optimizer()
    total = n = 0
    while True:
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=1):
            total += sum(batch)
            optimizer.step()
            n += 1
            with open("new", "w") as file: file.write(str(n))
            os.replace("new", "step")
            time.sleep(0.005)
            if n >= 40 and pathlib.Path("enough").exists(): break
        else:
            continue
        break
    print(n, total == sum(sum(range(4 * (k % 100), 4 * (k % 100) + 4)) for k in range(n)))
    sys.exit(3)
"""
HOW = {
    "watch": (*GPUTUNE, "watch", "--all-devices", "--quiet", "--", sys.executable, "train.py"),
    "share": (*GPUTUNE, "share", "--procs", "1", "--no-index-args", "--trial", "0", "--", sys.executable, "train.py"),
}


class Watched:
    """A training under gputune, and which processes are whose."""

    def __init__(self, how: str, home: Path) -> None:
        self.home = home
        self.how = how
        self._out = (home / "out").open("w+")
        self._popen = subprocess.Popen(
            HOW[how],
            cwd=home,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=(home / "err").open("w"),
        )
        self.supervisor = psutil.Process(self._popen.pid)
        self.ours: set[psutil.Process] = {self.supervisor}
        eventually(lambda: self.step() > 0 or self._popen.poll() is not None, "the first step")
        must(self._popen.poll() is None, f"it ended before it began: {(home / 'err').read_text()}")
        found = {p for p in self._below() if _runs(p, "train.py") and not _runs(p, "gputune")}
        self.training = next(p for p in found if p.parent() not in found)  # the others are its workers

    def step(self) -> int:
        file = self.home / "step"
        return int(file.read_text()) if file.exists() else 0

    def look(self) -> dict[str, psutil.Process]:
        """Return the processes of gputune's that live, by what they are."""
        theirs = {self.training, *_children(self.training)}
        found = {"supervisor": self.supervisor}
        for process in self._below() - theirs:
            with contextlib.suppress(psutil.Error):
                found[_kind(process, self.training)] = process
        self.ours |= set(found.values())
        return {name: process for name, process in found.items() if lives(process)}

    def ended(self, hit: object) -> int:
        """Let the training end, and return the status of the supervisor."""
        (self.home / "enough").touch()
        eventually(lambda: not lives(self.training), f"{hit}: the end of the training, {self.training}")
        for process in self.ours:
            with contextlib.suppress(psutil.Error):
                process.resume()
        return self._popen.wait(200)

    def close(self) -> None:
        """End what a broken promise has left."""
        for process in (*self.ours, self.training, *self._below()):
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._popen.wait()
        self._out.close()

    def _below(self) -> set[psutil.Process]:
        return set(_children(self.supervisor))


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _runs(process: psutil.Process, what: str) -> bool:
    try:
        return what in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _kind(process: psutil.Process, training: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "gputune.nvml.child" in line:
        return "nvml"
    if "py-spy" in line:
        return "py-spy"
    return "launcher" if process == training.parent() else "recorder"


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def harm(process: psutil.Process, way: object) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if way == OOM:
            size = process.memory_info().vms
            resource.prlimit(process.pid, resource.RLIMIT_AS, (size, size))
        else:
            process.send_signal(way)


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(build()), os.environ.get("LD_LIBRARY_PATH", "")]))
    os.environ["SIMGPU_STATE"] = str(create(folder / "cards", 2))

    def case(number: int) -> None:
        dice = chance("death", number)
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / "train.py").write_text(TRAIN)
        wanted = WHO[number % len(WHO)]
        watched = Watched("share" if wanted == "launcher" else "watch", home)
        try:
            hit = [_hit(watched, dice, wanted)] + [_hit(watched, dice) for _ in range(dice.choice((0, 0, 1, 2)))]
            must(hit[0] and (hit[0][0] == wanted or wanted == "py-spy"), f"no {wanted} is there: {hit}")
            check(watched, [one for one in hit if one])
        finally:
            watched.close()

    yield case


def _hit(watched: Watched, dice: random.Random, wanted: str = "") -> tuple[str, object] | None:
    """Harm one of our processes at a step of the training, who is wanted if it is there; nobody where none is."""
    step = watched.step() + dice.randrange(1, 60)
    eventually(lambda: watched.step() >= step or not lives(watched.training), f"step {step}")
    until = time.monotonic() + (BURST if wanted == "py-spy" else APPEARS)
    while wanted not in (there := watched.look()) and wanted and time.monotonic() < until:
        time.sleep(0.1)
    name = wanted if wanted in there else dice.choice(sorted(there) or ["supervisor"])
    way = dice.choice(WAYS)
    if name == "supervisor" and way == signal.SIGTERM:  # a wish, which is passed on
        way = signal.SIGKILL
    if name in there:
        harm(there[name], way)
        return name, way
    return None


def check(watched: Watched, hit: list[tuple[str, object]]) -> None:
    """Look at what became of the training, and of us."""
    dead = {name for name, way in hit if way in {signal.SIGKILL, signal.SIGTERM} or (name, way) == ("launcher", OOM)}
    watched.look()
    code = watched.ended(hit)
    err = (watched.home / "err").read_text()
    must("Traceback" not in err, f"{hit}: {err}")
    out = "".join(file.read_text() for file in (watched.home / "out", *watched.home.glob("gputune-runs/*/*.log")))
    if watched.how == "watch" or not dead & {"launcher", "supervisor"}:
        must(out.split()[-1:] == ["True"], f"{hit}: the training said {out!r}, {err}")
    if not dead & {"supervisor", "launcher"}:
        must(code == 3, f"{hit}: status {code}, {err}")
    eventually(lambda: not any(map(lives, watched.ours)), f"{hit}: the end of all that is ours", 60)
    runs = [json.loads(file.read_text()) for file in watched.home.glob("gputune-runs/*/run.json")]
    lost = "supervisor" in dead or OOM in {way for _, way in hit}
    must(runs or lost, f"{hit}: no run is kept")
