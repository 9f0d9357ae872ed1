"""A forecast of memory holds: /dev/shm and PSS of a setting to 5 %, and no trial above its budget.

A real training is profiled under its own settings, with /dev/shm of its own. Of settings drawn at random the largest is
started that its limits allow, whose memory is drawn as well; what it holds with full queues is compared with both. A
budget is held against the most that it may come to: forked workers share what they have not yet touched, and will touch
it in the end. Of one forked worker alone the forecast is a bound as well: nobody can tell which of its pages it has for
itself because it wrote them, and which because the training has, and others would share those.
"""

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import Case, NotHere, chance, must
from tests.faults.rows import loaders

TESTS = "sweep/test_limits.py"
QUICK, FULL, SHARE = 30, 200, 1
SECONDS = 200.0
FIGURE = "most that a forecast was beside it, %"
STEPS = 80  # of the profile
NEAR = 0.05
SHM = 256 << 20  # B of /dev/shm
COVERED = f'mount -t tmpfs -o size={SHM} none /dev/shm && exec "$@"'
OWN_SHM = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", COVERED, "sh")
TRAIN = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset
METHOD, WORKERS, PREFETCH, BATCH, SIZE, CACHE = {told!r}

class Data(Dataset):
    def __init__(self): self.cache = None
    def __len__(self): return 100_000
    def __getitem__(self, i):
        if self.cache is None: self.cache = bytearray(b"x") * CACHE  # what each worker has for itself
        return torch.full((SIZE,), float(i))

def main():
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    loader = DataLoader(Data(), batch_size=BATCH, num_workers=WORKERS, prefetch_factor=PREFETCH)
    for batch in loader:
        (weight - batch[:, :1]).square().mean().backward()
        time.sleep(0.01)
        while os.path.exists("hold"): time.sleep(0.02)

if __name__ == "__main__":
    torch.multiprocessing.set_start_method(METHOD)
    main()
"""
WHERE = f"train.py:{1 + TRAIN[: TRAIN.index('loader = DataLoader')].count(chr(10))}"


def drawn(dice: random.Random) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return what the training is told, and what is asked of it."""
    workers, prefetch, batch = dice.choice((1, 2, 2)), dice.choice((1, 2, 3)), dice.choice((2, 4, 8))
    size = dice.choice((20_000, 40_000))  # numbers of 4 B a sample; of larger ones malloc keeps 0 to 35 MB a worker
    method, cache = dice.choice(("fork", "fork", "fork", "spawn")), dice.choice((1, 20, 80)) << 20
    told = (method, workers, prefetch, batch, size, cache)
    own = {"workers": workers, "prefetch": prefetch, "pin_memory": False, "persistent": False, "batch_size": batch}
    among = [(number, factor) for number in (1, 2, 3, 4) for factor in (1, 2, 4, 8)]
    asked = {
        "do": "forecast",
        "where": WHERE,
        "own": own,
        "among": dice.sample(among, 5),
        "within": 60.0,
        "batches": STEPS,
    }
    return told, asked | {"budget": dice.choice((0.5, 1.5, 2.5, 4.0))}


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    if subprocess.run((*OWN_SHM, "true"), check=False, capture_output=True).returncode:
        raise NotHere("no /dev/shm of its own may be mounted here")

    def case(number: int) -> float:
        told, asked = drawn(chance("memory", number))
        home = folder / f"case-{number}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / "train.py").write_text(TRAIN.format(told=told))
        found = loaders.started(home, asked, OWN_SHM, f"{os.getpid()}-{number}-{time.monotonic_ns()}")
        words = f"{told}: {found}"
        must(found["shm_predicted"] is not None, f"how large a batch is was not seen: {words}")
        held = {name: float(str(found[name])) for name in ("shm", "pss")}
        beside = {name: abs(float(str(found[f"{name}_predicted"])) / max(1.0, b) - 1) for name, b in held.items()}
        must(float(str(found["more"])) <= float(str(found["memory"])), f"above its budget: {words}")
        for name in ("pss_predicted", "pss_in_the_end"):
            must(held["pss"] <= (1 + NEAR) * float(str(found[name])), f"PSS beyond {name}: {words}")
        if told[:2] == ("fork", 1):
            del beside["pss"]
        must(max(beside.values()) <= NEAR, f"{beside} beside the forecast: {words}")
        shutil.rmtree(home)
        return 100 * max(beside.values())

    yield case
