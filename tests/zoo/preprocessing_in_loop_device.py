"""Between next() and the model, each batch is normalised and cut in the loop, and the device waits for it."""

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "18 ms of CPU between next() and the model, steps of 20 ms on the device",
    "fix": {"in_collate": True},
    "device": "sim",
    "also": [],
}


class Raw(Dataset):
    def __len__(self) -> int:
        return 32 * 200

    def __getitem__(self, index):
        return torch.full((256,), float(index))


def normalise(batch: torch.Tensor) -> torch.Tensor:
    kit.burn(0.018)
    return (batch - batch.mean()) / (batch.std() + 1)


def prepared(items) -> torch.Tensor:
    return normalise(torch.stack(items))


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, in_collate=False)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.020 / 32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Raw(), 32, num_workers=args.num_workers, collate_fn=prepared if args.in_collate else None)
    pace = kit.Pace()
    for batch in loader:
        x = batch if args.in_collate else normalise(batch)
        loss = net(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.wait()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
