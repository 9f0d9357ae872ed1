"""Healthy: a side stream copies the next batch while the device trains on this one; NVIDIA's examples do it so."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": None,
    "says": "20 MB a step are copied on a stream of their own, beside 17 ms of the device",
    "fix": {},
    "device": "cuda",
    "also": [],
}
BATCH, SIDE = 128, 160


class Prefetcher:
    """Keeps one batch ahead of the training, on the device."""

    def __init__(self, loader) -> None:
        self.loader, self.stream = iter(loader), torch.cuda.Stream()
        self.preload()

    def preload(self) -> None:
        self.next = next(self.loader, None)
        if self.next is None:
            return
        with torch.cuda.stream(self.stream):
            self.next = [tensor.cuda(non_blocking=True) for tensor in self.next]
            self.next[0] = self.next[0].half().div_(255)

    def __iter__(self):
        while self.next is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = self.next
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
            self.preload()
            yield batch


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, pin_memory=True)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(
            nn.Conv2d(3, 512, 8, 8), nn.ReLU(), *(nn.Conv2d(512, 512, 3, padding=1) for _ in range(9)), nn.Flatten(2),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(512, 100),
        )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler()
    pictures = torch.zeros(BATCH, 3, SIDE, SIDE, dtype=torch.uint8).expand(420, -1, -1, -1, -1)
    data = TensorDataset(pictures, torch.zeros(420, BATCH, dtype=torch.long))
    loader = DataLoader(data, batch_size=None, num_workers=args.num_workers, pin_memory=args.pin_memory)
    pace = kit.Pace()
    for images, labels in Prefetcher(loader):
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
