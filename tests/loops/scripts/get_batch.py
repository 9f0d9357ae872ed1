"""No loader at all, as in nanoGPT: the loop puts its batches together itself."""

import time

import torch
from parts import BATCH, FEATURES, SLOW, WAIT_S, Samples, model


def get_batch(data: Samples):
    if SLOW:
        time.sleep(BATCH * WAIT_S)
    rows = torch.randint(0, len(data), (BATCH,))
    return data.x[rows].reshape(BATCH, FEATURES), data.y[rows]


if __name__ == "__main__":
    data = Samples()
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(120):
        x, y = get_batch(data)  # planted
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
