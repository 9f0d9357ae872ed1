"""The guest's C part is sound: AddressSanitizer and UBSan report nothing, with threads, forks and interrupts.

`_fast.c` is compiled with both, and random trainings run on it: loops in several threads, forked children in the
middle, signals whose handlers raise, iterators dropped half-way, optimizers that come and go, samples that raise.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.faults.compiled import shared
from tests.faults.row import HERE, Case, NotHere, chance, must
from tests.faults.runs import FAKE_TORCH

TESTS = "guest/test_fast.py"
QUICK, FULL, SHARE = 40, 10_000, 2
SECONDS = 200.0
GUEST = HERE.parents[1] / "probes" / "guest"
HEAD = """
import gc, os, random, signal, sys, threading, torch
from torch.utils.data import DataLoader
from gputune_guest import here
assert here.fast is not None and "sanitised" in here.fast.__file__, here.fast
sys.setswitchinterval(1e-5)

class Oops(Exception): pass
class Numbers:
    def __init__(self, n, bad=-1): self.n, self.bad = n, bad
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i == self.bad: raise Oops
        return object()

def loop(n, size, bad=-1, stop=-1):
    optimizer = torch.optim.Optimizer()
    try:
        for k, batch in enumerate(DataLoader(Numbers(n, bad), batch_size=size, collate_fn=list)):
            torch.autograd.backward()
            optimizer.step()
            if k == stop: break
    except Oops:
        pass

def forked(n):
    it = iter(DataLoader(Numbers(n), batch_size=2, collate_fn=list))
    next(it)
    child = os.fork()
    list(it)
    torch.optim.Optimizer().step()
    if not child: os._exit(0)
    os.waitpid(child, 0)

def interrupted(n):
    def handler(*_): raise Oops
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        for _ in range(20):
            try: loop(n, 2)
            except Oops: pass
    except Oops:
        pass
    finally:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except Oops: pass

def threads(n):
    all_ = [threading.Thread(target=loop, args=(n, 1 + k)) for k in range(4)]
    for one in all_: one.start()
    for one in all_: one.join()

def dropped(n):
    its = [iter(DataLoader(Numbers(n), batch_size=2, collate_fn=list)) for _ in range(20)]
    for it in its: next(it)
    its[0].me = its
    del its, it
    gc.collect()

def odd(n):
    it = iter(DataLoader(Numbers(n), batch_size=1, collate_fn=list))
    for wrong in (lambda: type(it).__next__(), lambda: type(it).__next__(3), lambda: type(it).__next__(it, 1)):
        try: wrong()
        except (TypeError, AttributeError): pass
    del it._sampler_iter
    try: next(it)
    except AttributeError: pass
"""
STEPS = ("loop({n}, {k})", "loop({n}, {k}, bad={k})", "loop({n}, 1, stop={k})", "forked({n})", "interrupted({n})")
STEPS += ("threads({n})", "dropped({n})", "odd({n})", "gc.collect()", "torch.save({{}}, 'model.pt')")


def sanitizer(name: str) -> str:
    """Return where the compiler has the library of a sanitizer."""
    if shutil.which("cc") is None:
        raise NotHere("there is no C compiler")
    found = subprocess.run(
        ("cc", f"-print-file-name={name}"), capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        raise NotHere(f"the C compiler has no {name}")
    return found


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    libraries = [sanitizer("libasan.so"), sanitizer("libubsan.so")]
    flags = (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        "-fno-omit-frame-pointer",
        "-DPy_LIMITED_API=0x030B0000",
    )
    made = shared(GUEST / "gputune_guest" / "_fast.c", *flags, include=sysconfig.get_path("include"))
    guest = folder / "sanitised"
    shutil.copytree(GUEST, guest, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(made, guest / "gputune_guest" / "_fast.abi3.so")
    (folder / "rings").mkdir(mode=0o700)

    def case(number: int) -> None:
        dice = chance("sanitised", number)
        steps = [dice.choice(STEPS).format(n=dice.randrange(2, 60), k=dice.randrange(1, 8)) for _ in range(8)]
        (folder / "train.py").write_text("\n".join([HEAD, *steps, "print('end')"]))
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env |= {
            "PYTHONPATH": os.pathsep.join((str(guest), str(FAKE_TORCH))),
            "LD_PRELOAD": " ".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
            "GPUTUNE_RINGS": str(folder / "rings"),
            "GPUTUNE_HOST_PID": str(os.getpid()),
            "PYTHONMALLOC": "malloc",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            (sys.executable, "train.py"),
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS - 20,
            check=False,
        )
        must(
            done.returncode == 0 and done.stdout == "end\n", f"{steps}: status {done.returncode}: {done.stderr[-1500:]}"
        )
        for ring in (folder / "rings").iterdir():
            ring.unlink()

    yield case
