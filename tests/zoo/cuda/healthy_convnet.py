"""Healthy: a wide convolutional net in half precision is busy all the time; four workers keep its queue full."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "15 ms on the device a batch, four workers make one in 23 ms each; pinned, copied without waiting",
    "fix": {},
    "device": "cuda",
    "also": [],
}


class Tiles(Dataset):
    """Aerial pictures, cut to tiles; the decoder is somebody else's machine."""

    def __len__(self) -> int:
        return 64 * 480

    def __getitem__(self, index):
        if index % 64 == 0:
            kit.wait(0.02)
        return torch.full((3, 64, 64), index % 256, dtype=torch.uint8), index % 10


def conv(wide: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, pin_memory=True)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        body = [conv(3, 256), conv(256, 512, 2), *(conv(512, 512) for _ in range(6))]
        model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    loader = DataLoader(Tiles(), 64, shuffle=False, num_workers=args.num_workers, pin_memory=args.pin_memory)
    scaler = torch.amp.GradScaler("cuda")
    pace = kit.Pace()
    for images, labels in loader:
        x = images.cuda(non_blocking=True).float().div_(255)
        y = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(len(images))
    pace.done()


if __name__ == "__main__":
    main()
