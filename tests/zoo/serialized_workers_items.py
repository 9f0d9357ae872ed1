"""Each sample is asked of a server that serves one connection at a time, in a run too short to hold workers up."""

import kit
import slow_server
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "two workers ask one server for each of their samples, 25 ms an answer",
    "fix": {"threads": True},
    "device": "none",
    "also": [],
}
BATCH, LENGTH = 4, 256


class Samples(Dataset):
    def __init__(self, port: int) -> None:
        self.port = port

    def __len__(self) -> int:
        return BATCH * 180

    def __getitem__(self, index: int) -> torch.Tensor:
        answer = bytearray(slow_server.asked(self.port, index))
        return torch.frombuffer(answer, dtype=torch.uint8).float()


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, threads=False)
    torch.set_num_threads(1)
    server, port = slow_server.started(0.025, LENGTH, threads=args.threads)
    model = torch.nn.Linear(LENGTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    pace = kit.Pace()
    for batch in DataLoader(Samples(port), BATCH, shuffle=True, num_workers=args.num_workers):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))
    server.terminate()


if __name__ == "__main__":
    main()
