"""Spectra are computed with numpy in the training loop, before each copy to the card, and nobody works beside it."""

import kit_cuda as kit
import numpy as np
import torch
from torch import nn

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "20 ms of the host for the spectra of a batch, then 12 ms of the device, whose work is fetched each step",
    "fix": {"ahead": True},
    "device": "cuda",
    "also": [],
}
CLIPS, SAMPLES, FRAME = 24, 16384, 512


def spectra(rng: np.random.Generator) -> torch.Tensor:
    """Return the logarithmic spectra of a batch of clips."""
    clips = rng.random((CLIPS, SAMPLES // FRAME, FRAME), dtype=np.float32) * np.hanning(FRAME).astype(np.float32)
    power = np.abs(np.fft.rfft(clips, axis=-1)[..., 1:])
    return torch.from_numpy(np.log(power + 1e-6).astype(np.float32))


class Clips(torch.utils.data.IterableDataset):
    def __iter__(self):
        rng = np.random.default_rng(0)
        for _ in range(260):
            yield spectra(rng)


def batches(*, ahead: bool):
    if ahead:
        yield from torch.utils.data.DataLoader(Clips(), batch_size=None, num_workers=1, pin_memory=True)
    else:
        yield from Clips()


def main() -> None:
    args = kit.settings(ZOO, ahead=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        layers = (nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(20))
        model = nn.Sequential(nn.Linear(FRAME // 2, 2048), *layers, nn.Linear(2048, 35))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    pace = kit.Pace()
    for x in batches(ahead=args.ahead):
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
