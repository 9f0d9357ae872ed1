"""Four pictures at a time: most kernels are over before the next one has been launched."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "small-batch",
    "says": "1 ms on the device and 3 ms of launching a step; the memory of the card is nearly empty",
    "fix": {"batch_size": 16},
    "device": "cuda",
    "also": [],
}


class Scans(Dataset):
    def __len__(self) -> int:
        return 4 * 2000

    def __getitem__(self, index):
        return torch.full((1, 128, 128), index % 256, dtype=torch.uint8), index % 4


def stage(wide: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(wide, out, 3, 2, 1), nn.GroupNorm(8, out), nn.SiLU(),
        nn.Conv2d(out, out, 3, 1, 1), nn.GroupNorm(8, out), nn.SiLU(),
    )  # fmt: skip


def main() -> None:
    args = kit.settings(ZOO, batch_size=4)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(
            nn.Conv2d(1, 64, 3, 1, 1), stage(64, 128), stage(128, 256), stage(256, 512), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(512, 4),
        )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    loader = DataLoader(Scans(), args.batch_size, shuffle=True, num_workers=2, pin_memory=True)
    scaler = torch.amp.GradScaler("cuda")
    pace = kit.Pace()
    for scans, labels in loader:
        x = scans.to("cuda", non_blocking=True).float() / 255
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(x), labels.to("cuda", non_blocking=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        pace.saw(len(scans))
    pace.done()


if __name__ == "__main__":
    main()
