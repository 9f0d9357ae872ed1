"""The loader of torchdata, whose place in an epoch is saved with the model."""

import torch
from parts import BATCH, Samples, model
from torchdata.stateful_dataloader import StatefulDataLoader

if __name__ == "__main__":
    train = StatefulDataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for x, y in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
