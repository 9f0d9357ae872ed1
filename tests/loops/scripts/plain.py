"""A plain loop."""

import torch
from parts import BATCH, Samples, model
from torch.utils.data import DataLoader

if __name__ == "__main__":
    train = DataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for x, y in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
