"""Loops of shapes that people write, tuned and untouched: the same batches in one order, the same random states."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.launch.steering import OrderChannel

HEAD = """
import os, random, sys, time, torch
from pathlib import Path
from torch.utils.data import *
from gputune.launch.steering import OrderChannel

orders = OrderChannel(Path(os.environ["GPUTUNE_STEER"]))
tuned = False

class Numbers(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, i):
        return i

class Eager(Sampler):  # draws as it is asked for an iterator
    def __iter__(self):
        return iter(torch.randperm(400).tolist())
    def __len__(self):
        return 400

class Endless(DataLoader):  # one iterator for all epochs
    class Again:
        def __init__(self, sampler):
            self.sampler = sampler
        def __iter__(self):
            while True:
                yield from self.sampler
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", self.Again(self.batch_sampler))
        self.iterator = super().__iter__()
    def __iter__(self):
        for _ in range(100):
            yield next(self.iterator)

def serve(**settings):
    if tuned:
        orders.send({"do": "serve", "set": settings})

def step():
    time.sleep(0.004 if tuned else 0)
    return torch.rand(1).item()

"""
LOOPS = {
    "two at once": """
a, b = DataLoader(Numbers(), 4, shuffle=True), DataLoader(Numbers(), 4, shuffle=True)
for epoch in range(2):
    for n, (x, y) in enumerate(zip(a, b)):
        out.append((x.tolist(), y.tolist(), step()))
        if n in (10, 60):
            serve(num_workers=n // 30, persistent_workers=n == 60)
""",
    "one iterator for all": """
loader = Endless(Numbers(), 4, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(1))
for workers in (0, 3, 1):
    for n, x in enumerate(loader):
        out.append((x.tolist(), step()))
        if n == 20:
            serve(num_workers=workers)
""",
    "a sampler that draws at once": """
for workers in (0, 2):
    loader = DataLoader(Numbers(), 4, sampler=Eager(), num_workers=workers)
    for epoch in range(3):
        it = iter(loader)
        out.append(step())
        for n, x in enumerate(it):
            out.append((x.tolist(), step()))
            if n == 20:
                serve(num_workers=(2, 0, 1)[epoch], persistent_workers=epoch != 1)
""",
    "left halfway": """
loader = DataLoader(Numbers(), 4, shuffle=True, num_workers=1)
for epoch in range(5):
    for n, x in enumerate(loader):
        out.append((x.tolist(), step()))
        if n == 20:
            serve(num_workers=(2, 0, 1, 3, 2)[epoch], persistent_workers=epoch % 2 == 0)
        if n == 60 + epoch:
            break
""",
    "two iterators of one": """
loader = DataLoader(Numbers(), 4, shuffle=True, num_workers=1)
for epoch in range(2):
    for n, (x, y) in enumerate(zip(iter(loader), iter(loader))):
        out.append((x.tolist(), y.tolist(), step()))
        if n == 20:
            serve(num_workers=2, persistent_workers=True)
""",
    "built anew": """
for epoch in range(3):
    for n, x in enumerate(DataLoader(Numbers(), 4, shuffle=True, num_workers=1)):
        out.append((x.tolist(), step()))
        if n == 20:
            serve(num_workers=2 + epoch)
""",
    "workers that last": """
loader = DataLoader(Numbers(), 4, shuffle=True, num_workers=2, persistent_workers=True)
for epoch in range(5):
    for n, x in enumerate(loader):
        out.append((x.tolist(), step()))
        if n == 20:
            serve(**({}, {"num_workers": 3}, {"num_workers": 0}, {"persistent_workers": False}, {})[epoch])
        if epoch == 3 and n == 70:
            break
""",
    "with evaluations": """
loader, valid = DataLoader(Numbers(), 4, shuffle=True, num_workers=1), DataLoader(Numbers(), 40, shuffle=True)
model = torch.nn.Linear(1, 1)
for epoch in range(2):
    model.train()
    for n, x in enumerate(loader):
        out.append((x.tolist(), step()))
        if n == 20:
            serve(num_workers=2 - epoch * 2)
        if n % 30 == 29:
            model.eval()
            with torch.no_grad():
                out.append([x.tolist() for x in valid])
            model.train()
""",
}
Watched = Callable[..., Any]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=list(LOOPS))
def test_a_tuned_loop_is_an_untouched_one(watched: Watched, tmp_path: Path, loop: str) -> None:
    OrderChannel(tmp_path / "steer").close()
    body = "".join(f"    {line}\n" for line in loop.splitlines())
    code = f"""
def run():
    torch.manual_seed(3), random.seed(3)
    out = []
{body}
    return out, torch.get_rng_state().tolist(), random.getstate()

if __name__ == "__main__":
    untouched = run()
    tuned = True
    print([a == b for a, b in zip(untouched, run())])
"""
    run = watched(HEAD + code, env={"GPUTUNE_STEER": str(tmp_path / "steer")}).healthy()
    assert run.out == "[True, True, True]\n"
    assert run.err == ""
    assert "serving" in {note["state"] for note in run.notes("steer")}
    assert "refused" not in {note["state"] for note in run.notes("steer")}
