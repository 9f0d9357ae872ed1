"""A histogram of every weight goes to the log every other step: a copy to the host and a page of text for each."""

import logging
import tempfile

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "frequent-logging",
    "says": "logging.info of hundreds of numbers at every step, through a handler that flushes",
    "fix": {"log_interval": 50},
    "device": "cuda",
    "also": ["sync-every-step"],
}
FOLDER = tempfile.TemporaryDirectory()
BATCH, SIDE = 32, 64


def histogram(weight: torch.Tensor) -> list[float]:
    return torch.histc(weight.detach().float(), 512).tolist()


def main() -> None:
    args = kit.settings(ZOO, log_interval=1)
    torch.set_num_threads(1)
    logging.basicConfig(
        filename=f"{FOLDER.name}/train.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    log = logging.getLogger("weights")
    with torch.device("cuda"):
        model = nn.Sequential(nn.Conv2d(8, 384, 3, padding=1), *(nn.Conv2d(384, 384, 3, padding=1) for _ in range(6)))
        x = torch.zeros(BATCH, 8, SIDE, SIDE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    pace = kit.Pace()
    for step in range(330):
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            for name, weight in model.named_parameters():
                log.info("step %d %s: %s", step, name, histogram(weight))
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
