"""Gradient accumulation by hand: a step of the optimizer each fourth batch."""

import torch
from parts import BATCH, Samples, model
from torch.utils.data import DataLoader

EACH = 4

if __name__ == "__main__":
    train = DataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for index, (x, y) in enumerate(train):
            (torch.nn.functional.cross_entropy(net(x), y) / EACH).backward()
            if (index + 1) % EACH == 0:
                optimizer.step()
                optimizer.zero_grad()
