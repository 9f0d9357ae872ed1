"""Spectra are computed with numpy in the training loop, before each copy to the card, and nobody works beside it."""

import kit_cuda as kit
import numpy as np
import torch
from torch import nn

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "20 ms of the host for the spectra of a batch, more than the device needs for it",
    "fix": {"num_workers": 3},
    "device": "cuda",
    "also": [],
}
CLIPS, SAMPLES, FRAME = 48, 16384, 512


def spectra(rng: np.random.Generator) -> torch.Tensor:
    """Return the logarithmic spectra of a batch of clips."""
    clips = rng.random((CLIPS, SAMPLES // FRAME, FRAME), dtype=np.float32) * np.hanning(FRAME).astype(np.float32)
    power = np.abs(np.fft.rfft(clips, axis=-1)[..., 1:])
    return torch.from_numpy(np.log(power + 1e-6).astype(np.float32))


class Clips(torch.utils.data.IterableDataset):
    def __iter__(self):
        rng = np.random.default_rng(0)
        info = torch.utils.data.get_worker_info()
        for _ in range(240 // (info.num_workers if info else 1)):
            yield spectra(rng)


def batches(num_workers: int):
    if num_workers:
        yield from torch.utils.data.DataLoader(Clips(), batch_size=None, num_workers=num_workers, pin_memory=True)
    else:
        yield from (x.pin_memory() for x in Clips())


def main() -> None:
    args = kit.settings(ZOO, num_workers=0)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        layers = (nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096)) for _ in range(10))
        model = nn.Sequential(nn.Linear(FRAME // 2, 4096), *layers, nn.Linear(4096, 35))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    pace = kit.Pace()
    for x in batches(args.num_workers):
        x = x.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().logsumexp(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(CLIPS)
    pace.done()


if __name__ == "__main__":
    main()
