"""Pictures go to the card from pageable memory: `non_blocking=True` changes nothing, the host waits for each copy."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "unpinned-memory",
    "says": "12.6 MB a step from pageable memory: 10 ms of the host and 12 ms of the card, in turns for the most part",
    "fix": {"pin_memory": True},
    "device": "sim",
    "prefix": ["env", "GPUTUNE_GUEST_SYNC=1"],
    "also": [],
}


class Pictures(Dataset):
    def __len__(self) -> int:
        return 16 * 500

    def __getitem__(self, index):
        return torch.full((3, 512, 512), index % 256, dtype=torch.uint8)


def main() -> None:
    args = kit.settings(ZOO, pin_memory=False)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.012 / 16, memory=60 * GIB, launching=0.010)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Pictures(), batch_size=16, num_workers=2, pin_memory=args.pin_memory)
    pace = kit.Pace()
    for pictures in loader:
        x = net.held(pictures, pinned=args.pin_memory).to("cuda", non_blocking=True)
        loss = net(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
