"""Four lanes of sixteen: copying a step's volumes takes as long as training on them; the twin's card has all."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "slow-link",
    "says": "67 MB a step over four lanes of PCIe 4.0 instead of sixteen, on the stream that trains",
    "fix": {},
    "device": "cuda",
    "card": ["--set", "gen=4", "--set", "gen_max=4", "--set", "width=4", "--set", "rate_pinned=6700000000"],
    "also": [],
}
SIDE, VOLUMES = 256, 4


class Segment(nn.Module):
    """Convolutions at an eighth of the resolution, and a guess for each patch."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv3d(1, 256, 8, 8)
        self.body = nn.ModuleList(nn.Conv3d(256, 256, 3, padding=1) for _ in range(3))
        self.guess = nn.Conv3d(256, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x)
        for conv in self.body:
            x = torch.relu(x + conv(x))
        return self.guess(x)


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = Segment().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler()
    scans = torch.zeros(2, VOLUMES, 1, SIDE, SIDE, SIDE // 2, dtype=torch.float16).pin_memory()
    wanted = torch.zeros(VOLUMES, SIDE // 8, SIDE // 8, SIDE // 16, dtype=torch.long, device="cuda")
    pace = kit.Pace()
    for step in range(330):
        x = scans[step % 2].cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(x), wanted)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(VOLUMES)
    pace.done()


if __name__ == "__main__":
    main()
