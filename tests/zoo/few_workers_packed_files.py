"""Packed arrays on disk are read and unpacked in the training process, epoch after epoch."""

import tempfile
import zlib
from pathlib import Path

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "files of compressed float arrays, about 4 ms of unpacking each, num_workers=0",
    "fix": {"num_workers": 2},
    "device": "none",
    "also": [],
}
SHAPE = (64, 1024)


def write(folder: Path, count: int) -> None:
    rng = np.random.default_rng(1)
    for number in range(count):
        array = rng.normal(size=SHAPE).astype(np.float16)
        (folder / f"{number:04}.z").write_bytes(zlib.compress(array.tobytes(), 1))


class Packed(Dataset):
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.z"))

    def __len__(self) -> int:
        return 8 * len(self.paths)

    def __getitem__(self, index):
        raw = zlib.decompress(self.paths[index % len(self.paths)].read_bytes())
        array = np.frombuffer(raw, np.float16).reshape(SHAPE).astype(np.float32)
        return np.concatenate([np.sort(array, axis=1).mean(0), array.std(0)])


def main() -> None:
    args = kit.settings(ZOO, num_workers=0, persistent_workers=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(2048, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 2048))
    optimizer = torch.optim.SGD(net.parameters(), 0.001)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), 100)
        loader = DataLoader(Packed(Path(folder)), batch_size=8, shuffle=True, num_workers=args.num_workers)
        pace = kit.Pace()
        for _epoch in range(3):
            for x in loader:
                loss = (net(x) - x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                pace.saw(x.shape[0])


if __name__ == "__main__":
    main()
