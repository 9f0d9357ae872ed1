"""One worker decodes pictures of which the net could train three times as many."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "a picture takes 0.7 ms of waiting for a decoder, 45 ms a batch; the device needs 14 ms for it",
    "fix": {"num_workers": 5},
    "device": "cuda",
    "also": [],
}


class Pictures(Dataset):
    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        kit.wait(0.0006)
        return torch.full((3, 64, 64), index % 256, dtype=torch.uint8), index % 100


class Residual(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.b = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norm_a(self.a(x)))
        return torch.relu(x + self.norm_b(self.b(inner)))


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    device = torch.device("cuda")
    model = nn.Sequential(
        nn.Conv2d(3, 512, 3, 2, 1), *(Residual(512) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, 100),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    loader = DataLoader(
        Pictures(64 * 200), batch_size=64, num_workers=args.num_workers, pin_memory=True, drop_last=True
    )
    scaler = torch.amp.GradScaler("cuda")
    pace = kit.Pace(warm=0)
    for images, labels in loader:
        images = images.to(device, non_blocking=True).float() / 255
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(len(labels))
    pace.done()


if __name__ == "__main__":
    main()
