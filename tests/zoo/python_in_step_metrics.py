"""A confusion matrix and per-class recall, counted sample by sample between the loss and its backward pass."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "python-in-step",
    "says": "512 predictions are counted one by one in plain Python at every step",
    "fix": {"metrics_interval": 50},
    "device": "none",
    "also": [],
}
CLASSES = 10


def count(matrix: list[list[int]], predicted: list[int], wanted: list[int]) -> float:
    for guess, truth in zip(predicted, wanted, strict=True):
        matrix[truth][guess] += 1
    recalls = []
    for _ in range(20):  # bootstrap, so that the bar shows an interval
        recalls = [matrix[c][c] / max(1, sum(matrix[c])) for c in range(CLASSES)]
    return min(recalls)


args = kit.settings(ZOO, metrics_interval=1)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(512 * 1500, 64), torch.randint(0, CLASSES, (512 * 1500,)))
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, CLASSES))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
matrix = [[0] * CLASSES for _ in range(CLASSES)]
pace = kit.Pace()
for step, (x, y) in enumerate(DataLoader(data, batch_size=512, num_workers=1, shuffle=False)):
    optimizer.zero_grad()
    logits = net(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    if step % args.metrics_interval == 0:
        for _ in range(25):
            count(matrix, logits.argmax(1).tolist(), y.tolist())
    loss.backward()
    optimizer.step()
    pace.saw(len(y))
