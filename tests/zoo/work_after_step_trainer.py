"""A trainer of one's own gets its batches and steps in one method; the loop around it ranks all scores anew."""

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "work-after-step",
    "says": "the area under the curve of the last 40,000 scores after each step, in the loop that calls the trainer",
    "fix": {"score_interval": 100},
    "device": "none",
    "also": [],
}
BATCH, STEPS, KEPT = 64, 2400, 40_000


class Trainer:
    def __init__(self) -> None:
        data = TensorDataset(torch.randn(BATCH * STEPS, 256), torch.randint(0, 2, (BATCH * STEPS,)))
        self.batches = iter(DataLoader(data, batch_size=BATCH))
        self.network = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4)

    def train_batch(self):
        pictures, labels = next(self.batches)
        scores = self.network(pictures).squeeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels.float())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return scores.detach().numpy(), labels.numpy()


class Area:
    def __init__(self) -> None:
        self.scores, self.labels = np.random.default_rng(1).normal(size=KEPT), np.arange(KEPT) % 2

    def add(self, scores, labels) -> None:
        self.scores = np.concatenate([self.scores, scores])[-KEPT:]
        self.labels = np.concatenate([self.labels, labels])[-KEPT:]

    def compute(self) -> float:
        ranks = np.argsort(np.argsort(self.scores))[self.labels == 1]
        hits = len(ranks)
        return float((ranks.sum() - hits * (hits - 1) / 2) / (hits * (KEPT - hits)))


def main() -> None:
    args = kit.settings(ZOO, score_interval=1)
    torch.set_num_threads(1)
    trainer, area = Trainer(), Area()
    pace = kit.Pace()
    for step in range(STEPS):
        scores, labels = trainer.train_batch()
        area.add(scores, labels)
        if step % args.score_interval == 0:
            area.compute()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
