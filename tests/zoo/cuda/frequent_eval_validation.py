"""Sixty batches of validation after every fortieth step, each read back."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "frequent-eval",
    "says": "model.eval() and 60 batches every 40 steps",
    "fix": {"eval_interval": 400},
    "device": "cuda",
    "also": [],
    "waits": 1.52,
}
BATCH, LENGTH, WIDTH = 64, 128, 1024


@torch.no_grad()
def validate(model: nn.Module, batches: list[torch.Tensor]) -> float:
    model.eval()
    total = 0.0
    for x in batches:
        with torch.autocast("cuda", torch.bfloat16):
            total += nn.functional.mse_loss(model(x), x).item()
    model.train()
    return total / len(batches)


def main() -> None:
    args = kit.settings(ZOO, eval_interval=40)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        hidden = (nn.Sequential(nn.Linear(WIDTH, 4096), nn.ReLU(), nn.Linear(4096, WIDTH)) for _ in range(8))
        model = nn.Sequential(*hidden, nn.Dropout(0.1))
        held_out = [torch.zeros(BATCH, LENGTH, WIDTH) for _ in range(60)]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    rows = torch.zeros(4, BATCH, LENGTH, WIDTH).half().pin_memory()
    pace = kit.Pace(whole=True)
    for step in range(1, 401):
        x = rows[step % 4].to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), x.to(torch.bfloat16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(BATCH)
        if step % args.eval_interval == 0:
            validate(model, held_out)
    pace.done()


if __name__ == "__main__":
    main()
