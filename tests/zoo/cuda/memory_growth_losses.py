"""The losses are summed up with their graphs, for a mean at the end: each step leaves its activations on the card."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "memory-growth",
    "says": "total += loss: 134 MB of the device's memory are kept a step, and there is enough of it for this run",
    "fix": {"detach": True},
    "device": "cuda",
    "also": [],
}
BATCH, WIDTH, TEACHER = 8192, 2048, 8192


def main() -> None:
    args = kit.settings(ZOO, detach=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
        teacher = nn.Sequential(nn.Linear(64, TEACHER), *(nn.Linear(TEACHER, TEACHER) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    data = TensorDataset(torch.zeros(500, BATCH, 64))
    loader = DataLoader(data, batch_size=None, num_workers=1, pin_memory=True)
    total = torch.zeros((), device="cuda")
    pace = kit.Pace()
    for (x,) in loader:
        x = x.to("cuda", non_blocking=True)
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            wanted = teacher(x).mean(1, keepdim=True)
        for _again in range(2):  # with different noise
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.mse_loss(model(x + torch.randn_like(x)), wanted.float())
            optimizer.zero_grad()
            loss.backward(retain_graph=not args.detach)
            optimizer.step()
        total = total + (loss.detach() if args.detach else loss)
        pace.saw(BATCH)
    pace.done()
    print(f"mean loss {total.item() / 500:.3f}")


if __name__ == "__main__":
    main()
