"""The card is hot and its clock held at half; the twin runs on a cool one."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "device-throttled",
    "says": "hardware thermal slowdown at 990 of 1980 MHz, on a net that is bound by the device",
    "fix": {},
    "device": "cuda",
    "card": ["--set", "throttle=0x40", "--set", "clock_sm=990", "--set", "temperature=91"],
    "also": [],
}
BATCH = 48


class Frames(Dataset):
    def __len__(self) -> int:
        return BATCH * 120

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3, 8, 32, 32), index % 256, dtype=torch.uint8)


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(
            nn.Conv3d(3, 256, (1, 3, 3), padding=(0, 1, 1)), nn.ReLU(),
            *(nn.Conv3d(256, 256, 3, padding=1) for _ in range(4)), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
            nn.Linear(256, 20),
        )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler()
    loader = DataLoader(Frames(), BATCH, num_workers=2, pin_memory=True)
    pace = kit.Pace()
    for frames in loader:
        x = frames.to("cuda", non_blocking=True) / 255
        with torch.autocast("cuda", torch.float16):
            loss = model(x).logsumexp(1).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
