"""Two ranks; the files of one are on a slower disk, and the other waits for it in every exchange of gradients."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

ZOO = {
    "cause": "straggling-rank",
    "says": "a batch of rank 1 takes its worker 34 ms, one of rank 0 4 ms; 15 ms on the devices",
    "fix": {"slower": 0.0},
    "device": "cuda",
    "devices": 2,
    "also": ["few-workers"],
    "waits": 0.251,
}
BATCH, SIDE = 64, 64


class Shards(IterableDataset):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __iter__(self):
        for turn in range(260):
            kit.wait(self.seconds)
            yield torch.full((BATCH, 3, SIDE, SIDE), turn % 256, dtype=torch.uint8)


def main() -> None:
    args = kit.settings(ZOO, slower=0.03)
    torch.set_num_threads(1)
    rank = kit.joined()
    layers = [nn.Conv2d(3, 512, 3, 2, 1), *(nn.Conv2d(512, 512, 3, padding=1) for _ in range(6))]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).cuda()
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    shards = Shards(0.004 + args.slower * rank)
    loader = DataLoader(shards, batch_size=None, num_workers=1, pin_memory=True)
    pace = kit.Pace()
    for pictures in loader:
        x = pictures.cuda(non_blocking=True) / 255
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(2 * BATCH)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
