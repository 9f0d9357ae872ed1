"""A small training as text, whose losses and random numbers tell whether anything in it was changed from outside."""

# It rests on `batches`, and on the s of `making` a sample and of the `step`: names that stand before it.
TRAINING = """
import hashlib, os, random, signal, sys, threading, time
import numpy
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self): return 4 * batches
    def __getitem__(self, index):
        if making: time.sleep(making)
        return torch.full((8,), float(index)), torch.rand(1)

def train(**options):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Dropout(0.1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-7)
    seen = hashlib.md5()
    for x, y in DataLoader(Data(), batch_size=4, shuffle=True, **options):
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.update(str(loss.item()).encode())
        time.sleep(step)
    print(seen.hexdigest(), torch.rand(1).item(), random.random(), numpy.random.rand())

random.seed(1); numpy.random.seed(1)
"""
