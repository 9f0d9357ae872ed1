"""Somebody else's process works on the same card; the twin has the card to itself."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "shared-device",
    "says": "a stranger that keeps the card busy 60 % of the time when alone",
    "fix": {},
    "device": "cuda",
    "card": ["--stranger", "0.6"],
    "also": [],
}
BATCH, LENGTH, WIDTH = 32, 512, 1024


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        layers = [nn.TransformerEncoderLayer(WIDTH, 16, 4096, dropout=0.0, batch_first=True) for _ in range(4)]
        model = nn.Sequential(nn.Linear(80, WIDTH), *layers, nn.Linear(WIDTH, 30))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    speech = torch.rand(4, BATCH, LENGTH, 80).pin_memory()
    pace = kit.Pace()
    for step in range(250):
        x = speech[step % 4].to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().log_softmax(-1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
