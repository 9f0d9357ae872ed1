"""Healthy: one logging line a step, a printed one every tenth, a scalar for TensorBoard every twentieth."""

import logging
import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

ZOO = {"cause": None, "says": "ordinary logging and reporting", "fix": {}, "device": "none", "also": []}


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(800, 1200), torch.nn.ReLU(), torch.nn.Linear(1200, 10))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(48 * 1000, 800), torch.randint(10, (48 * 1000,))), 48, num_workers=1)
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        logging.basicConfig(filename=Path(folder) / "train.log", level=logging.INFO)
        pace = kit.Pace()
        for step, (x, y) in enumerate(loader, 1):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            logging.info("step %d: loss %.4f", step, loss.item())
            if step % 10 == 0:
                print(f"step {step}", flush=True)
            if step % 20 == 0:
                writer.add_scalar("loss", loss.item(), step)
            pace.saw(len(y))


if __name__ == "__main__":
    main()
