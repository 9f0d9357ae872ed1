"""Real runs for the rows: a small training under `gputune watch`, copied while it goes on, and to its end."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

GPUTUNE = (sys.executable, "-m", "gputune")
FAKE_TORCH = Path(__file__).parents[1] / "guest" / "fake_torch"
PATIENCE = 200.0  # s; only a hang ends here
ENOUGH = 20_000  # B of frames
TRAIN = """
import pathlib, time, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 4000
    def __getitem__(self, i): return i

class Shape:
    shape = (8, 3)

def collate(samples): return Shape()

if __name__ == "__main__":
    optimizer = torch.optim.Optimizer()
    for epoch in range(1000):
        for n, batch in enumerate(DataLoader(Numbers(), batch_size=8, num_workers=2, collate_fn=collate)):
            torch.autograd.backward()
            optimizer.step()
            time.sleep(0.002)
            if pathlib.Path("enough").exists(): raise SystemExit(0)
        torch.save({}, "model.pt")
"""


def eventually(happened: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it never came: {what}")
        time.sleep(0.02)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a training that uses the torch in pure Python."""
    path = os.pathsep.join(filter(None, (str(FAKE_TORCH), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def recorded(folder: Path) -> tuple[Path, Path]:
    """Return a run as it was while it went on, and the same at its end."""
    (folder / "train.py").write_text(TRAIN)
    run = folder / "run"
    command = (*GPUTUNE, "watch", "--quiet", "--out", str(run), "--", sys.executable, "train.py")
    running = subprocess.Popen(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL)
    frames = run / "frames-00001"
    try:
        eventually(lambda: frames.exists() and frames.stat().st_size > ENOUGH, "frames of a run")
        shutil.copytree(run, folder / "going")
    finally:
        (folder / "enough").touch()
        running.wait(PATIENCE)
    return folder / "going", run
