"""How long after its first batch the right cause of a steady training stands in `live.json`, and its gain as well.

A training that makes its batches in its own process, each taking as long as the last one, is watched from its start to
its end. Whoever looks reads `live.json` as a screen would. A gain is right once it is within a tenth of the last
verdict's. The promise is 20 batches or three seconds, whichever is later; batches of 30 ms make it three seconds.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import emit, figure

ROUNDS = 5
SECONDS = 14  # of training, each round
BUDGET = 3.0  # s
CLOSE = 0.1  # of the gain that the end of the run predicts
LOOK = 0.02  # s between looks at the file
CAUSE = "few-workers"
JOB = f"""
import time
import torch
from torch.utils.data import DataLoader

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 10**9
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.zeros(16)

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
end = time.monotonic() + {SECONDS}
for batch in DataLoader(Items(), batch_size=4):
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if time.monotonic() > end:
        break
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


def one(folder: Path) -> tuple[float, float]:
    """Return s of the loop until the cause was named, and until its gain was close to the last."""
    (folder / "job.py").write_text(JOB)
    run = folder / "run"
    command = [sys.executable, "-m", "gputune", "watch", "--quiet", "--out", str(run), "--", sys.executable, "job.py"]
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
    named = [at for at, whole in sorted(told.items()) if top(whole)[0] == CAUSE]
    close = [at for at in named if abs(top(told[at])[1] / gain - 1) <= CLOSE]
    late = float(last["wall_s"])  # it was never there
    return (named[0] if named else late) - start, (close[0] if close else late) - start


def main() -> None:
    """Measure and print."""
    pairs = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append(one(Path(folder)))
    note = "steady batches of 30 ms"
    emit(
        [
            figure("from the first batch until the cause is named", "s", [named for named, _ in pairs], BUDGET, note),
            figure("… and its gain is within a tenth of the last", "s", [close for _, close in pairs], BUDGET, note),
        ]
    )


if __name__ == "__main__":
    main()
