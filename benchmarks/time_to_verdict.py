"""How long after its first batch the right cause of a steady training stands in `live.json`, and its gain as well.

A training that makes its batches in its own process, each taking as long as the last one, is watched through its one
epoch. Whoever looks reads `live.json` as a screen would. A cause is named once no later verdict says otherwise, and a
gain is right once it stays within a tenth of the last verdict's. The promise is 20 batches or three seconds, whichever
is later: three seconds for batches of 30 ms, five for batches of 250.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from common import emit, figure

ROUNDS = 5
SECONDS = 14  # of training, each round: an epoch of so many
BATCHES, LEAST = 20, 3.0  # the promise: so many batches, or s
STEP = 0.01  # s
ITEMS = (0.005, 0.06)  # s each
TOGETHER = 4  # items of a batch
CLOSE = 0.1  # of the gain that the end of the run predicts
LOOK = 0.02  # s between looks at the file
CAUSE = "few-workers"
JOB = f"""
import sys, time
import torch
from torch.utils.data import DataLoader

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return int(sys.argv[2])
    def __getitem__(self, index):
        time.sleep(float(sys.argv[1]))
        return torch.zeros(16)

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(Items(), batch_size={TOGETHER}):
    model(batch).sum().backward()
    optimizer.step()
    time.sleep({STEP})
"""


def read(file: Path) -> dict[str, object] | None:
    """Return the document, None where there is none (any more)."""
    try:
        return dict(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None


def top(verdict: dict[str, object]) -> tuple[str, float]:
    """Return the name and the likely gain of the best finding."""
    findings = verdict["findings"]
    best = findings[0] if isinstance(findings, list) and findings else {"id": "", "speedup": {"likely": 1.0}}
    return str(best["id"]), float(best["speedup"]["likely"])


def settled(told: Mapping[float, dict[str, object]], right: Callable[[dict[str, object]], bool]) -> float | None:
    """Return since when (s) all verdicts were right, None if the last one was not."""
    since = None
    for at, whole in sorted(told.items()):
        since = (at if since is None else since) if right(whole) else None
    return since


def lasting(item: float) -> float:
    """Return what a batch and its step take, in s."""
    return TOGETHER * item + STEP


def one(folder: Path, item: float) -> tuple[float, float]:
    """Return s of the loop until the cause was named, and until its gain was close to the last, for good."""
    (folder / "job.py").write_text(JOB)
    run = folder / "run"
    watch_it = [sys.executable, "-m", "gputune", "watch", "--quiet", "--out", str(run), "--"]
    items = TOGETHER * round(SECONDS / lasting(item))
    command = [*watch_it, sys.executable, "job.py", str(item), str(items)]
    told: dict[float, dict[str, object]] = {}
    with subprocess.Popen(command, cwd=folder) as watch:
        while watch.poll() is None:
            document = read(run / "live.json")
            if document is not None and document["judged_s"] is not None:
                whole = document["whole"]
                judged = float(str(document["judged_s"]))
                if isinstance(whole, dict):
                    told.setdefault(judged, whole)
            time.sleep(LOOK)
    last = json.loads((run / "findings.json").read_bytes())
    cause, gain = top(last)
    if cause != CAUSE:
        raise SystemExit(f"the last verdict is `{cause}`: the figure would be of another run")
    start = float(last["startup_s"])  # the command is the training: they begin together
    named = settled(told, lambda whole: top(whole)[0] == CAUSE)
    close = settled(told, lambda whole: top(whole)[0] == CAUSE and abs(top(whole)[1] / gain - 1) <= CLOSE)
    late = float(last["wall_s"])  # it was never there
    return (late if named is None else named) - start, (late if close is None else close) - start


def main() -> None:
    """Measure and print."""
    figures = []
    for item in ITEMS:
        pairs = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                pairs.append(one(Path(folder), item))
        batch = lasting(item)
        note = f"steady batches of {batch * 1e3:.0f} ms"
        budget = max(LEAST, BATCHES * batch)
        named, close = zip(*pairs, strict=True)
        figures += [
            figure("from the first batch until the cause is named", "s", named, budget, note),
            figure("… and its gain is within a tenth of the last", "s", close, budget, note),
        ]
    emit(figures)


if __name__ == "__main__":
    main()
