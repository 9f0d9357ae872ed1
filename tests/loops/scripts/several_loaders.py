"""Two loaders in each step, as in semi-supervised training: one of them is slow."""

import torch
from parts import BATCH, Samples, model
from torch.utils.data import DataLoader

if __name__ == "__main__":
    labelled = DataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    plain = DataLoader(Samples(slow=False), batch_size=BATCH, shuffle=True)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for (x, y), (z, _y) in zip(labelled, plain, strict=True):
            optimizer.zero_grad()
            (torch.nn.functional.cross_entropy(net(x), y) + net(z).var()).backward()
            optimizer.step()
