"""Batches are asked of a server that answers one request at a time, as a small feature store does."""

import kit
import slow_server
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "six workers ask one server, which takes 12 ms for each answer",
    "fix": {"threads": True},
    "device": "none",
    "also": [],
}
SIZE, LENGTH = 16, 512


class Batches(Dataset):
    def __init__(self, port: int) -> None:
        self.port = port

    def __len__(self) -> int:
        return 1900

    def __getitem__(self, index: int) -> torch.Tensor:
        answer = bytearray(slow_server.asked(self.port, index))
        return torch.frombuffer(answer, dtype=torch.uint8).reshape(SIZE, LENGTH).float()


def main() -> None:
    args = kit.settings(ZOO, num_workers=6, threads=False)
    torch.set_num_threads(1)
    server, port = slow_server.started(0.012, SIZE * LENGTH, threads=args.threads)
    model = torch.nn.Linear(LENGTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    pace = kit.Pace()
    for batch in DataLoader(Batches(port), batch_size=None, shuffle=True, num_workers=args.num_workers):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))
    server.terminate()


if __name__ == "__main__":
    main()
