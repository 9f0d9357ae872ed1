"""Four workers with two threads each on two CPUs: they spend the time waiting for one another."""

import warnings

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "oversubscribed-workers",
    "says": "num_workers=4 with 2 threads each on 2 CPUs, small tensor operations",
    "fix": {"num_workers": 2, "worker_threads": 1},
    "device": "none",
    "also": ["heavy-preprocessing"],
}
warnings.filterwarnings("ignore", message="This DataLoader will create")


class Augmented(Dataset):
    def __len__(self) -> int:
        return 12 * 32

    def __getitem__(self, index: int) -> torch.Tensor:
        image = torch.full((3, 128, 128), index / 1000)
        for shift in range(12):
            image = (image - image.mean()) / (image.std() + 1)
            image = image.roll(shift, -1) * 0.9 + image.flip(-1) * 0.1
        return image.mean((1, 2))


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, worker_threads=2)

    def set_up(_worker: int) -> None:
        torch.set_num_threads(args.worker_threads)

    model = torch.nn.Sequential(torch.nn.Linear(3, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Augmented(), batch_size=12, num_workers=args.num_workers, worker_init_fn=set_up)
    pace = kit.Pace()
    for images in loader:
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(images))


if __name__ == "__main__":
    main()
