"""The guest is harmless: whichever of its hooks raises, losses, order and random states stay the same.

Each function of the guest that a training calls is made to raise, from its N-th call on, in trainings of eleven
settings by three start methods, with the hooks in C and in Python; their output is compared with the bare one's. The
torch is the one in pure Python; some cases take the real one, and compare losses bit for bit. The last cases of
`make faults` let nothing raise: all settings by all start methods, with the real torch, in one process a method.
"""

import ast
import contextlib
import functools
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import HERE, Broken, Case, chance, must
from tests.faults.runs import FAKE_TORCH

TESTS = "guest/test_fast.py, test_loaders.py, test_interpreters.py, test_steered_loops.py"
GUEST = HERE.parents[1] / "probes" / "guest"
ERRORS = ("RuntimeError", "KeyError", "MemoryError", "OSError", "StopIteration", "RecursionError", "AttributeError")
TIMES = (1, 1, 1, 2, 3, 7, 30)
SETTINGS = (
    {"num_workers": 0},
    {"num_workers": 1},
    {"num_workers": 2},
    {"num_workers": 2, "prefetch_factor": 4},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 0, "shuffle": True},
    {"num_workers": 2, "shuffle": True},
    {"num_workers": 2, "drop_last": True},
    {"num_workers": 1, "timeout": 60},
    {"num_workers": 2, "batch_size": 1},
    {"num_workers": 0, "batch_size": 7},
)
METHODS = ("fork", "spawn", "forkserver")
KNOWN = {"num_workers", "batch_size"}  # to the torch in pure Python
REAL = 30  # cases to one with the real torch
LAST = ("sitecustomize", "late")  # modules that are no part of the package


def functions() -> list[str]:
    """Return every function of the guest, `module:qualified.name`, in an order that mixes its modules."""
    found = []
    for file in sorted((GUEST / "gputune_guest").glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found.append(f"{file.stem}:{node.name}")
            elif isinstance(node, ast.ClassDef):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                found += [
                    f"{file.stem}:{node.name}.{each.name}" for each in methods if "super()" not in ast.unparse(each)
                ]
    random.Random(2).shuffle(found)
    return found


ALL = functions()
WITH_FAULTS = 99
QUICK = WITH_FAULTS + len(SETTINGS) * len(METHODS)
FULL, SHARE = len(ALL) * len(SETTINGS) * len(METHODS), 8
OTHERS = 12  # functions that a case tries one after the other, until one is called
SECONDS = 500.0
TRAIN = """
import sys; sys.path.insert(0, {here!r}); import faulty; del sys.path[0]
import hashlib, multiprocessing, random, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 24
    def __getitem__(self, i): return i

class Shuffled:
    def __init__(self, seed): self.chance = random.Random(seed)
    def __len__(self): return 24
    def __iter__(self):
        order = list(range(24))
        self.chance.shuffle(order)
        return iter(order)

def train(settings):
    random.seed(5)
    if settings.pop("shuffle", False): settings["sampler"] = Shuffled(3)
    settings.setdefault("batch_size", 4)
    {more}
    loader = DataLoader(Numbers(), **settings)
    for epoch in range(2 if settings.get("persistent_workers") else {epochs}):
        for batch in loader:
            {step}
    torch.save({{}}, "model.pt")
    print(hashlib.md5(repr(random.getstate()).encode()).hexdigest())

def main():
    multiprocessing.set_start_method({method!r})
    for settings in {settings!r}:
        print("settings", settings)
        train(settings)

if __name__ == "__main__":
    main()
"""
FAKE = (
    "optimizer = torch.optim.Optimizer()",
    "torch.autograd.backward(); optimizer.step(); print(list(batch), random.random())",
)
TRUE = (
    "torch.manual_seed(1); model = torch.nn.Linear(1, 1); optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)",
    "optimizer.zero_grad(); loss = model(batch.float().reshape(-1, 1)).square().mean(); loss.backward(); "
    "optimizer.step(); print(batch.tolist(), loss.item().hex(), torch.rand(1).item().hex())",
)


Which = tuple[int | None, str, bool]  # settings (None: all of them), start method, whether the torch is the real one


class Trainings:
    """A folder of trainings, run bare or with the guest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.met = folder / "met"
        (folder / "rings").mkdir(mode=0o700)

    def run(self, which: Which, *, guest: bool, **more: str) -> "subprocess.CompletedProcess[str]":
        setting, method, real = which
        begin, step = TRUE if real else FAKE
        asked = SETTINGS if setting is None else SETTINGS[setting : setting + 1]
        settings = [{name: value for name, value in each.items() if real or name in KNOWN} for each in asked]
        epochs = 1 if setting is None else 2
        code = TRAIN.format(here=str(HERE), settings=settings, method=method, more=begin, step=step, epochs=epochs)
        (self._folder / "train.py").write_text(code)
        path = [*([str(GUEST)] if guest else []), *([] if real else [str(FAKE_TORCH)])]
        env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "FAULTY"}}
        env |= {
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FAULTY_MET": str(self.met),
            **more,
        }
        if guest:
            env |= {"GPUTUNE_RINGS": str(self._folder / "rings"), "GPUTUNE_HOST_PID": str(os.getpid())}
        done = subprocess.run(
            (sys.executable, "train.py"),
            cwd=self._folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS - 30,
            check=False,
        )
        for ring in (self._folder / "rings").iterdir():
            ring.unlink()
        return done


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    trainings = Trainings(folder)

    @functools.cache
    def bare(which: Which) -> str:
        done = trainings.run(which, guest=False)
        must(done.returncode == 0, f"the bare run {which}: {done.stderr}")
        return done.stdout

    called: dict[tuple[bool, str], set[str]] = {}  # by whether there are workers, and whether all hooks are in Python
    listing = folder / "called"
    for setting, pure in itertools.product((0, 4), ("", "1")):
        done = trainings.run((setting, "fork", False), guest=True, FAULTY_LISTING=str(listing), GPUTUNE_GUEST_PURE=pure)
        must(done.returncode == 0, done.stderr)
        called[setting == 4, pure] = set(listing.read_text().split()) & set(ALL)
    must(len(set().union(*called.values())) > 50, f"only {called} are called")

    def faulted(number: int, which: Which, dice: random.Random) -> None:
        """Let functions raise until one was called: what some settings call others do not."""
        pure, at, error = dice.choice(("", "1")), dice.choice(TIMES), dice.choice(ERRORS)
        workers = bool(SETTINGS[which[0] or 0]["num_workers"])
        first = number % len(ALL)
        names = [each for each in ALL[first:] + ALL[:first] if each in called[workers, pure]]
        for name, n in [(names[0], at)] * (at > 1) + [(name, 1) for name in names[:OTHERS]]:
            tried(f"{name}:{n}:{error}", which, pure)
            if trainings.met.exists():
                return
        raise Broken(f"{names[:OTHERS]}, {which}: nothing raised")

    def tried(fault: str, which: Which, pure: str) -> None:
        trainings.met.unlink(missing_ok=True)
        done = trainings.run(which, guest=True, FAULTY=fault, GPUTUNE_GUEST_PURE=pure)
        words = f"{fault}, {which}, {'in Python' if pure else 'in C'}"
        must(done.returncode == 0, f"{words}: status {done.returncode}: {done.stderr}")
        must(done.stdout == bare(which), f"{words}: another output: {done.stdout} instead of {bare(which)}")
        must("fault of the suite" not in done.stderr, f"{words}: {done.stderr}")

    @functools.cache
    def guided(method: str) -> str:
        pure = "1" if method == "spawn" else ""
        done = trainings.run((None, method, True), guest=True, GPUTUNE_GUEST_PURE=pure)
        must(done.returncode == 0, f"{method}: status {done.returncode}: {done.stderr}")
        return done.stdout

    def case(number: int) -> None:
        dice = chance("guest", number)
        method = METHODS[number // len(SETTINGS) % len(METHODS)]  # so that 33 cases in a row have all of both
        if WITH_FAULTS <= number < QUICK:
            setting, words = number % len(SETTINGS), f"{SETTINGS[number % len(SETTINGS)]}, {method}"
            without, beside = bare((None, method, True)), guided(method)
            parts = [text.split("settings ")[1:] for text in (without, beside)]
            must([len(each) for each in parts] == [len(SETTINGS)] * 2, f"{words}: settings are missing: {parts}")
            must(parts[0][setting] == parts[1][setting], f"{words}: another output: {parts}")
        else:
            faulted(number, (number % len(SETTINGS), method, number % REAL == REAL - 1), dice)

    yield case
