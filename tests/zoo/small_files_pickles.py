"""Each sample is put together from a dozen small pickles: two workers on two CPUs do little else than open files."""

import pickle
import random
import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "small-files",
    "says": "twelve pickles of 100 bytes a sample, 128 samples a batch; the twin has them in one file in memory",
    "fix": {"packed": True},
    "device": "none",
    "also": ["heavy-preprocessing"],
}
FRAMES, SAMPLES = 12, 1536


def write(folder: Path) -> None:
    """A folder a sample, a file a frame; and all of them one after the other in a pack, with where each begins."""
    source = random.Random(4)
    pack, places = bytearray(), []
    for sample in range(SAMPLES):
        (folder / str(sample)).mkdir()
        for frame in range(FRAMES):
            blob = pickle.dumps({"t": frame, "xyz": (source.random(), source.random(), source.random())})
            (folder / str(sample) / f"{frame:02}.pkl").write_bytes(blob)
            places.append((len(pack), len(blob)))
            pack += blob
    (folder / "pack.bin").write_bytes(pack)
    (folder / "places.pkl").write_bytes(pickle.dumps(places))


class Tracks(Dataset):
    def __init__(self, folder: Path, packed: bool) -> None:
        self.folder, self.packed = str(folder), packed
        if packed:
            self.pack = (folder / "pack.bin").read_bytes()
            self.places = pickle.loads((folder / "places.pkl").read_bytes())

    def __len__(self) -> int:
        return SAMPLES

    def frame(self, sample: int, number: int) -> dict:
        if self.packed:
            start, size = self.places[sample * FRAMES + number]
            return pickle.loads(self.pack[start : start + size])
        return pickle.loads(Path(f"{self.folder}/{sample}/{number:02}.pkl").read_bytes())

    def __getitem__(self, index):
        return [value for number in range(FRAMES) for value in self.frame(index, number)["xyz"]]


def together(samples):
    return torch.tensor(samples)


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, packed=False)
    torch.set_num_threads(1)
    net = torch.nn.Linear(3 * FRAMES, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        loader = DataLoader(
            Tracks(Path(name), args.packed), 128, shuffle=True, num_workers=args.num_workers, collate_fn=together,
            persistent_workers=args.num_workers > 0,
        )  # fmt: skip
        pace = kit.Pace()
        for _epoch in range(14):
            for x in loader:
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
                pace.saw(len(x))


if __name__ == "__main__":
    main()
