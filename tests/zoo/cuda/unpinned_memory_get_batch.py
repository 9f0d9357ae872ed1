"""A language model's get_batch sends pageable memory at every micro-step; each copy waits for the device."""

import tempfile

import kit_cuda as kit
import numpy as np
import torch
from torch import nn

ZOO = {
    "cause": "unpinned-memory",
    "says": "vectors of 25 MB cut out of a file for each micro-step and sent from pageable memory",
    "fix": {"pin_memory": True},
    "device": "cuda",
    "also": [],
    "pageable": True,
}
BATCH, BLOCK, WIDTH, ACCUMULATE = 32, 768, 512, 2


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 8, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 8192), nn.ReLU(), nn.Linear(8192, WIDTH))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


def get_batch(data: np.memmap, *, pin_memory: bool) -> torch.Tensor:
    starts = np.random.randint(len(data) - BLOCK, size=BATCH)
    x = torch.from_numpy(np.stack([data[i : i + BLOCK] for i in starts]))
    return (x.pin_memory() if pin_memory else x).to("cuda", non_blocking=True)


def main() -> None:
    args = kit.settings(ZOO, pin_memory=False)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = nn.Sequential(*(Mixer() for _ in range(3)), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    with tempfile.NamedTemporaryFile() as file:
        np.zeros((8192, WIDTH), np.float16).tofile(file.name)
        data = np.memmap(file.name, np.float16, "r").reshape(-1, WIDTH)
        pace = kit.Pace()
        for _step in range(280):
            for _micro in range(ACCUMULATE):
                x = get_batch(data, pin_memory=args.pin_memory)
                with torch.autocast("cuda", torch.bfloat16):
                    loss = nn.functional.mse_loss(model(x[:, :-1].float()), x[:, 1:]) / ACCUMULATE
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            pace.saw(BATCH * ACCUMULATE)
        pace.done()


if __name__ == "__main__":
    main()
