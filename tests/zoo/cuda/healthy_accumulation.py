"""Healthy: a language model's micro-steps, eight for each step of the optimizer; its loss is read now and then."""

import kit_cuda as kit
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ZOO = {
    "cause": None,
    "says": "10 ms on the device and 5 of the host a micro-step; what is copied is pinned, what is read is rare",
    "fix": {},
    "device": "cuda",
    "also": [],
    "waits": 0.1,
}
MICRO, BLOCK, WIDTH, HEADS, ACCUMULATE = 24, 512, 1024, 16, 8


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Tokens:
    def __init__(self) -> None:
        self.corpus = np.random.default_rng(0).integers(0, 8192, 1 << 20).astype(np.uint16)

    def batch(self):
        rows = [self.corpus[i : i + BLOCK + 1] for i in np.random.randint(len(self.corpus) - BLOCK - 1, size=MICRO)]
        both = torch.from_numpy(np.stack(rows).astype(np.int64)).pin_memory().to("cuda", non_blocking=True)
        return both[:, :-1], both[:, 1:]


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = nn.Sequential(nn.Embedding(8192, WIDTH), *(Layer() for _ in range(3)), nn.Linear(WIDTH, 8192))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    tokens, pace = Tokens(), kit.Pace()
    x, y = tokens.batch()
    for step in range(80):
        for _micro in range(ACCUMULATE):
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / ACCUMULATE
            x, y = tokens.batch()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item() * ACCUMULATE:.3f}")
        pace.saw(MICRO * ACCUMULATE)
    pace.done()


if __name__ == "__main__":
    main()
