"""A job that may use one CPU only starts eight workers with four threads each, as its big machine had it."""

import warnings

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "oversubscribed-workers",
    "says": "num_workers=8 with 4 threads each on the one CPU of the affinity mask",
    "fix": {"num_workers": 1, "worker_threads": 1},
    "device": "none",
    "prefix": ["taskset", "-c", "0"],
    "also": ["heavy-preprocessing"],
}
warnings.filterwarnings("ignore", message="This DataLoader will create")


class Augmented(Dataset):
    def __len__(self) -> int:
        return 16 * 100

    def __getitem__(self, index: int) -> torch.Tensor:
        image = torch.full((3, 128, 128), index / 1000)
        for shift in range(12):
            image = (image - image.mean()) / (image.std() + 1)
            image = image.roll(shift, -1) * 0.9 + image.flip(-1) * 0.1
        return image.mean((1, 2))


def main() -> None:
    args = kit.settings(ZOO, num_workers=8, worker_threads=4)

    def set_up(_worker: int) -> None:
        torch.set_num_threads(args.worker_threads)

    model = torch.nn.Sequential(torch.nn.Linear(3, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Augmented(), batch_size=16, num_workers=args.num_workers, worker_init_fn=set_up)
    pace = kit.Pace()
    for images in loader:
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(images))


if __name__ == "__main__":
    main()
