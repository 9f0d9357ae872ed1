"""The last three states of a model and of Adam are kept, one every three steps."""

import tempfile
from collections import deque
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-checkpoint",
    "says": "model and optimizer, 20 MB, saved every 3 steps of 8 ms; no workers",
    "fix": {"checkpoint_interval": 200},
    "device": "none",
    "also": [],
}


def build() -> torch.nn.Module:
    layers = [torch.nn.Linear(192, 1536), torch.nn.GELU(), torch.nn.Linear(1536, 896), torch.nn.GELU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(896, 8))


if __name__ == "__main__":
    args = kit.settings(ZOO, checkpoint_interval=3)
    torch.set_num_threads(1)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(16 * 450, 192), torch.randint(0, 8, (16 * 450,)))
    with tempfile.TemporaryDirectory() as folder:
        kept = deque()
        pace = kit.Pace()
        for step, (x, y) in enumerate(DataLoader(data, batch_size=16), 1):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.checkpoint_interval == 0:
                kept.append(Path(folder) / f"{step}.pt")
                torch.save([model.state_dict(), optimizer.state_dict()], kept[-1])
                if len(kept) > 3:
                    kept.popleft().unlink()
            pace.saw(len(y))
