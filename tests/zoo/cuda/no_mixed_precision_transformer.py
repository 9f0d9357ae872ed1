"""A transformer trains in 32 bits on a card whose tensor cores take 16."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "no-mixed-precision",
    "says": "every multiplication of matrices in float32; the device is busy all the time",
    "fix": {"amp": True},
    "device": "cuda",
    "also": [],
}
BATCH, LENGTH, WIDTH, HEADS = 40, 256, 512, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, n, WIDTH))
        return x + self.mlp(self.between(x))


class Lines(Dataset):
    def __len__(self) -> int:
        return BATCH * 170

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.arange(index, index + LENGTH + 1) % 8192


def main() -> None:
    args = kit.settings(ZOO, amp=False)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = nn.Sequential(nn.Embedding(8192, WIDTH), *(Block() for _ in range(8)), nn.Linear(WIDTH, 8192))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    loader = DataLoader(Lines(), BATCH, shuffle=True, num_workers=2, pin_memory=True)
    pace = kit.Pace()
    for lines in loader:
        lines = lines.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=args.amp):
            logits = model(lines[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), lines[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(lines))
    pace.done()


if __name__ == "__main__":
    main()
