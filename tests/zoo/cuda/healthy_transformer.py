"""Healthy: a small language model in bfloat16; batches are cut from a mapped corpus, pinned, copied ahead."""

import tempfile

import kit_cuda as kit
import numpy as np
import torch
from torch import nn

ZOO = {
    "cause": None,
    "says": "16 ms on the device a step, 8 ms of the host, which is far ahead",
    "fix": {},
    "device": "cuda",
    "also": [],
}
BATCH, BLOCK, WIDTH, HEADS = 32, 512, 768, 12


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, n, c = x.size()
        q, k, v = (t.view(b, n, HEADS, c // HEADS).transpose(1, 2) for t in self.qkv(x).split(WIDTH, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, n, c))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


def get_batch(data: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - BLOCK - 1, (BATCH,)).tolist()
    x = torch.stack([torch.from_numpy(data[i : i + BLOCK].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + BLOCK].astype(np.int64)) for i in starts])
    return x.pin_memory().to("cuda", non_blocking=True), y.pin_memory().to("cuda", non_blocking=True)


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = nn.Sequential(nn.Embedding(16384, WIDTH), *(Layer() for _ in range(6)), nn.Linear(WIDTH, 16384))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    with tempfile.NamedTemporaryFile(suffix=".bin") as corpus:
        np.random.default_rng(0).integers(16384, size=1 << 20, dtype=np.uint16).tofile(corpus.name)
        data = np.memmap(corpus.name, dtype=np.uint16, mode="r")
        pace = kit.Pace()
        x, y = get_batch(data)
        for _step in range(440):
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                logits = model(x)
                loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
            x, y = get_batch(data)  # while the device is busy with the forward pass
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            pace.saw(BATCH)
        pace.done()


if __name__ == "__main__":
    main()
