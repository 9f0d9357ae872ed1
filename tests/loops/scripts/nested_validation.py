"""A pass over a validation loader in the middle of each epoch, with the training's iterator under way."""

import torch
from parts import BATCH, Samples, model
from torch.utils.data import DataLoader

MIDDLE = 20


def validate(net: torch.nn.Module, held_out: DataLoader) -> None:
    net.eval()
    with torch.no_grad():
        for x, y in held_out:
            torch.nn.functional.cross_entropy(net(x), y)
    net.train()


if __name__ == "__main__":
    train = DataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    held_out = DataLoader(Samples(160), batch_size=BATCH)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for index, (x, y) in enumerate(train):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if index == MIDDLE:
                validate(net, held_out)
