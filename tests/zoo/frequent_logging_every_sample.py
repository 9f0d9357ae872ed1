"""Somebody left the debugging on: a line for each sample of each batch, through logging into a file."""

import logging
import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-logging",
    "says": "some 512 lines per step through a FileHandler, steps of some 10 ms",
    "fix": {"log_interval": 50},
    "device": "none",
    "also": [],
}
log = logging.getLogger("training")


def main() -> None:
    args = kit.settings(ZOO, log_interval=1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(512 * 900, 64), torch.randint(0, 2, (512 * 900,)))
    with tempfile.TemporaryDirectory() as folder:
        handler = logging.FileHandler(Path(folder) / "train.log")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        log.propagate = False
        pace = kit.Pace()
        for step, (x, y) in enumerate(DataLoader(data, batch_size=512), 1):
            losses = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            if step % args.log_interval == 0:
                for number, loss in enumerate(losses.tolist()):
                    log.debug("step %d sample %d loss %.4f", step, number, loss)
            pace.saw(len(y))
        handler.close()


if __name__ == "__main__":
    main()
