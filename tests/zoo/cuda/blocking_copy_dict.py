"""`{k: v.cuda() for k, v in batch.items()}` of a pinned batch: eight copies a step that the host waits for."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "blocking-copy",
    "says": "the loop counts words on the host between copy and step: 5 ms in which no kernel is queued",
    "fix": {"non_blocking": True},
    "device": "cuda",
    "also": ["sync-every-step"],
    "waits": 8,
}
NAMES = ("ids", "mask", "kinds", "spans", "starts", "ends", "weights", "labels")
BATCH, LENGTH, WIDTH = 96, 256, 1024


class Questions(Dataset):
    def __len__(self) -> int:
        return BATCH * 260

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: torch.full((LENGTH,), (index + len(name)) % 4096) for name in NAMES}


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(4096, WIDTH), nn.Embedding(4096, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(4)
        )
        self.spans = nn.Linear(WIDTH, 2)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        x = self.words(batch["ids"]) + self.kinds(batch["kinds"])
        for layer in self.layers:
            x = layer(x)
        return self.spans(x)


def main() -> None:
    args = kit.settings(ZOO, non_blocking=False)
    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    loader = DataLoader(Questions(), BATCH, num_workers=2, pin_memory=True)
    pace = kit.Pace()
    for batch in loader:
        batch = {name: tensor.cuda(non_blocking=args.non_blocking) for name, tensor in batch.items()}
        kit.burn(0.005)  # the loop's bookkeeping of what has been asked
        with torch.autocast("cuda", torch.bfloat16):
            starts, ends = model(batch).unbind(-1)
            loss = nn.functional.cross_entropy(starts, batch["starts"][:, 0] % LENGTH)
            loss = loss + nn.functional.cross_entropy(ends, batch["ends"][:, 0] % LENGTH)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
