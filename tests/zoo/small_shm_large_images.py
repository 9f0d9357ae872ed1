"""Large batches, and a /dev/shm as small as a container's: once the queue is full, a worker dies of a bus error."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "small-shm",
    "says": "two workers with two batches of 18 MB each on their way, in a /dev/shm of 64 MiB",
    "fix": {"prefetch_factor": 1},
    "device": "none",
    "container": ["--shm", "64"],
    "also": [],
}


class Scans(Dataset):
    def __len__(self):
        return 8 * 200

    def __getitem__(self, index):
        kit.burn(0.001)
        return torch.full((1, 750, 750), index / 1280), index % 2


def main():
    args = kit.settings(ZOO, num_workers=2, prefetch_factor=2)
    torch.set_num_threads(1)
    scans = DataLoader(Scans(), batch_size=8, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
    model = torch.nn.Sequential(torch.nn.AvgPool2d(50), torch.nn.Flatten(), torch.nn.Linear(225, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pace = kit.Pace()
    try:
        for images, labels in scans:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            kit.burn(0.030)
            pace.saw(len(labels))
    except RuntimeError as error:
        print(f"stopped early, after {pace.samples} samples: {error}")


if __name__ == "__main__":
    main()
