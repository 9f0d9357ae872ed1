"""The style of small language models: get_batch, and estimate_loss over both splits every few steps."""

import kit
import torch
from torch import nn
from torch.nn import functional as F

ZOO = {
    "cause": "frequent-eval",
    "says": "estimate_loss() of 2 x 15 batches every 5 steps, no DataLoader",
    "fix": {"eval_interval": 200},
    "device": "none",
    "also": [],
}
BLOCK, BATCH, VOCABULARY = 64, 16, 256
torch.manual_seed(1337)
data = {"train": torch.randint(VOCABULARY, (200_000,)), "val": torch.randint(VOCABULARY, (20_000,))}


def get_batch(split):
    starts = torch.randint(len(data[split]) - BLOCK - 1, (BATCH,))
    x = torch.stack([data[split][i : i + BLOCK] for i in starts])
    y = torch.stack([data[split][i + 1 : i + 1 + BLOCK] for i in starts])
    return x, y


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, 64)
        self.block = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.head = nn.Linear(64, VOCABULARY)

    def forward(self, x, y):
        logits = self.head(self.block(self.token(x)))
        return F.cross_entropy(logits.view(-1, VOCABULARY), y.view(-1))


@torch.no_grad()
def estimate_loss(model):
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(15)
        for k in range(15):
            losses[k] = model(*get_batch(split)).item()
        out[split] = losses.mean()
    model.train()
    return out


if __name__ == "__main__":
    args = kit.settings(ZOO, eval_interval=5)
    torch.set_num_threads(1)
    model = Bigram()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pace = kit.Pace()
    for iteration in range(1, 301):
        if iteration % args.eval_interval == 0:
            losses = estimate_loss(model)
        loss = model(*get_batch("train"))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        pace.saw(BATCH)
