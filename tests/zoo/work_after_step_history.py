"""The history of the training is written out as JSON text after each step, and grows."""

import json

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "work-after-step",
    "says": "the whole history becomes JSON text after each step, of which only the last is ever used",
    "fix": {"at_the_end": True},
    "device": "none",
    "also": [],
}

args = kit.settings(ZOO, at_the_end=False)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(64 * 1200, 256), torch.randint(0, 10, (64 * 1200,)))
history = [{"step": step, "loss": 1.0 / (step + 1), "grad": [0.5] * 8} for step in range(2000)]
pace = kit.Pace()
for pictures, labels in DataLoader(data, batch_size=64, shuffle=True):
    loss = torch.nn.functional.cross_entropy(model(pictures), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append({"step": len(history), "loss": 0.5, "grad": [0.5] * 8})
    if not args.at_the_end:
        text = json.dumps(history)
    pace.saw(len(labels))
text = json.dumps(history)
