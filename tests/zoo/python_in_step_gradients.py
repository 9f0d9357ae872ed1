"""Gradients are clipped row by row, and the norm of each is read by itself: more of a step than all that trains."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "python-in-step",
    "says": "the norm of each row of each gradient by `.item()`, between backward pass and optimizer's step",
    "fix": {"one_by_one": False},
    "device": "none",
    "also": [],
}
STEPS, BATCH, MOST = 6000, 32, 1.0


def clip(parameters: list[torch.nn.Parameter]) -> None:
    total = 0.0
    for parameter in parameters:
        for row in parameter.grad.reshape(-1, parameter.grad.shape[-1]):
            total += row.norm().item() ** 2
    if total > MOST**2:
        for parameter in parameters:
            parameter.grad.mul_(MOST / total**0.5)


def main() -> None:
    args = kit.settings(ZOO, one_by_one=True)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(STEPS * BATCH, 48), torch.randn(STEPS * BATCH, 1))
    model = torch.nn.Sequential(torch.nn.Linear(48, 192), torch.nn.Tanh(), torch.nn.Linear(192, 192), torch.nn.Tanh(),
                                torch.nn.Linear(192, 1))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pace = kit.Pace()
    for x, y in DataLoader(data, batch_size=BATCH, shuffle=True):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if args.one_by_one:
            clip(list(model.parameters()))
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), MOST)
        optimizer.step()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
