"""Which samples a batch was drawn from goes to the log at every step, all of them, through a handler that flushes."""

import logging
import tempfile

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "frequent-logging",
    "says": "logging.info of 32 lines of 2,048 numbers at every step, and 2 ms on the device",
    "fix": {"log_interval": 50},
    "device": "cuda",
    "also": [],
}
FOLDER = tempfile.TemporaryDirectory()
BATCH, SIDE = 32, 64


def main() -> None:
    args = kit.settings(ZOO, log_interval=1)
    torch.set_num_threads(1)
    logging.basicConfig(
        filename=f"{FOLDER.name}/train.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    log = logging.getLogger("samples")
    with torch.device("cuda"):
        model = nn.Sequential(nn.Conv2d(8, 128, 3, padding=1), *(nn.Conv2d(128, 128, 3, padding=1) for _ in range(6)))
        x = torch.zeros(BATCH, 8, SIDE, SIDE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    drawn = torch.randint(1_000_000, (BATCH, 2048)).tolist()
    pace = kit.Pace()
    for step in range(700):
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            for row in range(BATCH):
                log.info("step %d row %d: %s", step, row, drawn[row])
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
