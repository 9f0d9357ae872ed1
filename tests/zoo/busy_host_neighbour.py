"""Somebody else's processes burn the CPUs that step and workers need; the twin has the machine to itself."""

import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "busy-host",
    "says": "a busy process on each CPU; alone, two workers make a batch in 8 ms of a step of 14",
    "fix": {},
    "device": "none",
    "neighbours": 2,
    "also": ["heavy-preprocessing", "few-workers"],
}


class Sounds(Dataset):
    def __len__(self):
        return 8 * 420

    def __getitem__(self, index):
        kit.burn(0.002)
        return torch.zeros(400), float(index % 2)


def main():
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = torch.nn.Linear(400, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = kit.Pace()
    for sounds, labels in DataLoader(Sounds(), batch_size=8, num_workers=2):
        loss = (model(sounds)[:, 0] - labels).pow(2).mean()
        kit.burn(0.005)  # a step that computes,
        time.sleep(0.008)  # and waits for its device
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
