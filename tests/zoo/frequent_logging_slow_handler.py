"""Each step's three log records go to a collector that answers each one after some milliseconds."""

import logging
import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "frequent-logging",
    "says": "3 records a step through a handler that takes 3 ms each",
    "fix": {"log_interval": 100},
    "device": "none",
    "also": [],
}


class Collector(logging.Handler):
    """Stands for a syslog or GELF server in another building."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)
        time.sleep(0.003)


class Blobs(Dataset):
    def __len__(self):
        return 32 * 500

    def __getitem__(self, index):
        return torch.randn(512) + index % 2, float(index % 2)


def main(args) -> None:
    logging.basicConfig(level=logging.INFO, handlers=[Collector()])
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    pace = kit.Pace()
    for step, (x, y) in enumerate(DataLoader(Blobs(), batch_size=32, num_workers=2), 1):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            logging.info("step %d", step)
            logging.info("loss %s", loss.item())
            logging.info("lr %s", optimizer.param_groups[0]["lr"])
        pace.saw(len(y))


if __name__ == "__main__":
    main(kit.settings(ZOO, log_interval=1))
