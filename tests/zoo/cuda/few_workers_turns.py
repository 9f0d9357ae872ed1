"""Four ranks with a worker each: one clip in four is a long one, each time on another rank, and all wait for it."""

import random

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(4)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "a short clip takes its worker 10 ms, a long one 150; 30 ms on the devices",
    "fix": {"num_workers": 4},
    "device": "cuda",
    "devices": 4,
    "also": [],
    "waits": 0.287,
}
ROUNDS, FRAMES, SIDE, SHORT, LONG = 200, 32, 112, 0.01, 0.15


class Clips(Dataset):
    def __init__(self, rank: int) -> None:
        lengths = random.Random(rank)
        self.seconds = [LONG if lengths.random() < 1 / 4 else SHORT for _ in range(ROUNDS)]

    def __len__(self) -> int:
        return ROUNDS

    def __getitem__(self, at: int) -> torch.Tensor:
        kit.wait(self.seconds[at])
        return torch.full((FRAMES, 3, SIDE, SIDE), at % 256, dtype=torch.uint8)


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    rank = kit.joined()
    layers = [nn.Conv2d(3, 512, 3, 2, 1), *(nn.Conv2d(512, 512, 3, padding=1) for _ in range(10))]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).cuda()
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    loader = DataLoader(Clips(rank), batch_size=None, num_workers=args.num_workers, pin_memory=True)
    pace = kit.Pace()
    for frames in loader:
        x = frames.cuda(non_blocking=True) / 255
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(4 * FRAMES)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
