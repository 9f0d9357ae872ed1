"""A full garbage collection after every step, "so that memory does not grow": it walks all objects that there are."""

import gc

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "frequent-cleanup",
    "says": "gc.collect() at every step, over the objects of torch and a dataset's",
    "fix": {"cleanup_interval": 500},
    "device": "none",
    "also": [],
}


class Annotated(Dataset):
    """Samples whose annotations are lists of lists, as a file of JSON gives them."""

    def __init__(self, count: int) -> None:
        self.boxes = [[[index, corner] for corner in range(4)] for index in range(count)]

    def __len__(self) -> int:
        return 512 * 60

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((512,), float(self.boxes[index % len(self.boxes)][3][1]))


args = kit.settings(ZOO, cleanup_interval=1)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
data = DataLoader(Annotated(2_000), batch_size=512)
pace = kit.Pace()
for step, batch in enumerate(data, 1):
    loss = net(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % args.cleanup_interval == 0:
        gc.collect()
    pace.saw(len(batch))
