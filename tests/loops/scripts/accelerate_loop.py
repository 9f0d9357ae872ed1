"""accelerate: a plain loop over prepared loaders, gradient accumulation by its context manager."""

import torch
from accelerate import Accelerator
from parts import BATCH, Samples, model
from torch.utils.data import DataLoader

if __name__ == "__main__":
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = model()
    train = DataLoader(Samples(), batch_size=BATCH, shuffle=True)  # planted
    held_out = DataLoader(Samples(160), batch_size=BATCH)
    net, optimizer, train, held_out = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.01), train, held_out
    )
    for _ in range(3):
        net.train()
        for x, y in train:
            with accelerator.accumulate(net):
                optimizer.zero_grad()
                accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
                optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                torch.nn.functional.cross_entropy(net(x), y).item()
