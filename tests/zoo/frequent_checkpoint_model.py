"""The whole state, model and optimizer, is saved every four steps."""

import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-checkpoint",
    "says": "torch.save of some 25 MB every 4 steps of some 10 ms",
    "fix": {"checkpoint_interval": 200},
    "device": "none",
    "also": [],
}


def save(model, optimizer, step, path) -> None:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def main() -> None:
    args = kit.settings(ZOO, checkpoint_interval=4)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(16 * 700, 1024)), batch_size=16, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        pace = kit.Pace()
        for step, (x,) in enumerate(loader, 1):
            loss = torch.nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.checkpoint_interval == 0:
                save(model, optimizer, step, Path(folder) / "last.pt")
            pace.saw(len(x))


if __name__ == "__main__":
    main()
