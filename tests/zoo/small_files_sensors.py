"""A reading of each of ten sensors lies in a file of its own: raw floats, opened by name, by one worker."""

import tempfile

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "small-files",
    "says": "ten files of 128 raw floats a sample, num_workers=1; the twin maps the same floats from one file",
    "fix": {"packed": True},
    "device": "none",
    "also": ["few-workers", "heavy-preprocessing"],
}
SENSORS, WIDTH, MOMENTS = 10, 128, 900


def record(root: str) -> None:
    values = np.random.default_rng(5).normal(size=(MOMENTS, SENSORS, WIDTH)).astype(np.float32)
    values.tofile(f"{root}/all.raw")
    for moment in range(MOMENTS):
        for sensor in range(SENSORS):
            values[moment, sensor].tofile(f"{root}/{moment}.{sensor}")


class Readings(Dataset):
    def __init__(self, root: str, *, packed: bool) -> None:
        self.root = root
        shape = (MOMENTS, SENSORS, WIDTH)
        self.all = np.memmap(f"{root}/all.raw", np.float32, "r", shape=shape) if packed else None

    def __len__(self) -> int:
        return MOMENTS

    def __getitem__(self, moment: int) -> np.ndarray:
        rows = []
        for sensor in range(SENSORS):
            if self.all is not None:
                row = np.array(self.all[moment, sensor])
            else:
                with open(f"{self.root}/{moment}.{sensor}", "rb") as file:  # noqa: PTH123 - as such scripts are written
                    row = np.frombuffer(file.read(), np.float32)
            rows.append(row / (np.abs(row).max() + 1e-6))
        return np.stack(rows)


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, packed=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SENSORS * WIDTH, 32), torch.nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as root:
        record(root)
        loader = DataLoader(
            Readings(root, packed=args.packed), 30, shuffle=True, num_workers=args.num_workers, persistent_workers=True
        )
        pace = kit.Pace()
        for _epoch in range(20):
            for x in loader:
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
                pace.saw(len(x))


if __name__ == "__main__":
    main()
