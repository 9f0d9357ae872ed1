"""Three workers have a measuring station each; one of them lies far away, and everybody waits for it in turn."""

import time

import kit
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ZOO = {
    "cause": "straggling-worker",
    "says": "a stream of three stations, one a worker, of which one takes 0.1 s a file; steps of some 12 ms",
    "fix": {"shared_out": True},
    "device": "none",
    "also": [],
}
STATIONS, FILES, FAR, FAR_S = 3, 110, 1, 0.1


class Stations(IterableDataset):
    def __init__(self, shared_out: bool) -> None:
        self.shared_out = shared_out
        self.readings = torch.randn(64, 6, 512)

    def plan(self, me: int, among: int):
        if not self.shared_out:
            return [(station, file) for file in range(FILES) for station in range(me, STATIONS, among)]
        turned = [(me + number) % STATIONS for number in range(STATIONS)]
        return [(station, file) for file in range(me, FILES, among) for station in turned]

    def __iter__(self):
        worker = get_worker_info()
        for station, file in self.plan(worker.id, worker.num_workers):
            if station == FAR:
                time.sleep(FAR_S)
            readings = self.readings[(station + STATIONS * file) % 64]
            windows = readings.unfold(1, 48, 8).permute(1, 0, 2).contiguous()
            yield windows - windows.mean(-1, keepdim=True), readings[:, -1].expand(len(windows), -1).contiguous()


class Forecaster(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv1d(6, 64, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.Conv1d(64, 128, 5, stride=2),
            torch.nn.ReLU(),
        )
        self.head = torch.nn.Linear(128, 6)

    def forward(self, windows):
        return self.head(self.body(windows).mean(-1))


def main() -> None:
    args = kit.settings(ZOO, shared_out=False)
    torch.set_num_threads(1)
    network = Forecaster()
    optimizer = torch.optim.AdamW(network.parameters())
    pace = kit.Pace()
    for windows, target in DataLoader(Stations(args.shared_out), batch_size=None, num_workers=3):
        loss = torch.nn.functional.huber_loss(network(windows), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(windows))


if __name__ == "__main__":
    main()
