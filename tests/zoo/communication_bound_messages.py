"""Two ranks average their gradients by hand, a message for each of many small parameters."""

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "communication-bound",
    "says": "160 messages of some kB for every batch: what they wait for is latency",
    "fix": {"gradient_accumulation": 8},
    "device": "none",
    "also": [],
}
DEEP, WIDTH, BATCH, STEPS = 80, 48, 96, 72


def averaged(model: torch.nn.Module) -> None:
    """Replace each gradient by its mean over the ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main() -> None:
    args = kit.settings(ZOO, gradient_accumulation=1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(DEEP) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(TensorDataset(torch.randn(BATCH * STEPS, WIDTH)), BATCH)
    dist.barrier()
    pace = kit.Pace()
    for step, (x,) in enumerate(loader, 1):
        (model(x) - x).square().mean().div(args.gradient_accumulation).backward()
        if step % args.gradient_accumulation == 0:
            averaged(model)
            optimizer.step()
            optimizer.zero_grad()
        pace.saw(2 * len(x))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
