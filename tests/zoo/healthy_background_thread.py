"""A thread of its own takes the batches and keeps a few ahead, and the training never waits for it."""

import queue
import threading

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": None,
    "says": "a prefetching thread iterates the DataLoader; steps take some 15 ms, batches next to nothing",
    "fix": {},
    "device": "none",
    "also": [],
}
STEPS = 260


def feed(loader: DataLoader, ahead: "queue.Queue[list[torch.Tensor]]") -> None:
    for batch in loader:
        ahead.put(batch)


args = kit.settings(ZOO)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(32 * STEPS, 256), torch.randint(0, 10, (32 * STEPS,)))
model = torch.nn.Sequential(
    torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
ahead: "queue.Queue[list[torch.Tensor]]" = queue.Queue(4)
threading.Thread(target=feed, args=(DataLoader(data, batch_size=32, shuffle=True), ahead), daemon=True).start()
pace = kit.Pace()
for _step in range(STEPS):
    x, y = ahead.get()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    pace.saw(len(y))
