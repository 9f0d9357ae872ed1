"""A training is held up until batches lie ready where its device keeps up: then its host's rounds are the loop's."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import DelayCode, Event, Kind
from gputune.recording.reading import readings

Maker = Callable[..., Any]
PATIENCE = 120.0  # s
TRAINING = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader
class Data:
    def __len__(self): return 400
    def __getitem__(self, i):
        time.sleep(0.03)
        return torch.zeros(8)
net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(Data(), batch_size=None, num_workers=2, pin_memory=True):
    loss = net(x.cuda(non_blocking=True)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda._sleep(10_000_000)  # 5 ms
    if sys.argv[1] == "reads": loss.item()
"""


@pytest.mark.flaky(reruns=1, reason="a host that loses its CPU for a moment seems not to be kept up with")
@pytest.mark.parametrize("kind", ["reads", "goes on"])
def test_it_is_held_up_where_its_device_keeps_up(machine: Maker, kind: str) -> None:
    made = machine()
    script, run = made.folder / "train.py", made.folder / "run"
    script.write_text(TRAINING)
    watch = [sys.executable, "-m", "gputune", "watch", "--out", run, "--"]
    done = subprocess.run(
        [*watch, "python", script, kind],
        env=made.environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    events = (each for tick in readings(run) for each in tick if isinstance(each, Event))
    held = [e.record for e in events if e.record.kind == Kind.DELAY and e.record.code == DelayCode.STANDS]
    assert bool(held) == (kind == "reads")
