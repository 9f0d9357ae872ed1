"""Spectra are computed with numpy in the training loop, before each copy to the card, and nobody works beside it.

Clip by clip, and over again through other windows, as often as takes this host 14 ms.
"""

import kit_cuda as kit
import numpy as np
import torch
from torch import nn

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "14 ms of the host for the spectra of a batch, more than the device needs for it",
    "fix": {"num_workers": 3},
    "device": "cuda",
    "also": [],
}
CLIPS, SAMPLES, FRAME = 48, 16384, 512


def power(clip: np.ndarray, order: int) -> np.ndarray:
    """Return the power of a clip's frames through a window."""
    window = np.sin(np.pi * (order + 1) * (np.arange(FRAME) + 1) / (FRAME + 1)).astype(np.float32)
    return np.abs(np.fft.rfft(clip * window, axis=-1)[..., 1:]) ** 2


def spectra(rng: np.random.Generator, times: int) -> torch.Tensor:
    """Return the logarithmic spectra of a batch of clips."""
    clips = rng.random((CLIPS, SAMPLES // FRAME, FRAME), dtype=np.float32)
    found = np.full((CLIPS, SAMPLES // FRAME, FRAME // 2), 1e-6, dtype=np.float32)
    for turn in range(times):
        found[turn % CLIPS] += power(clips[turn % CLIPS], turn // CLIPS)
    return torch.from_numpy(np.log(found))


class Clips(torch.utils.data.IterableDataset):
    def __init__(self, times: int) -> None:
        self.times = times

    def __iter__(self):
        rng = np.random.default_rng(0)
        info = torch.utils.data.get_worker_info()
        for _ in range(400 // (info.num_workers if info else 1)):
            yield spectra(rng, self.times)


def batches(clips: Clips, num_workers: int):
    if num_workers:
        yield from torch.utils.data.DataLoader(clips, batch_size=None, num_workers=num_workers, pin_memory=True)
    else:
        yield from (x.pin_memory() for x in clips)


def main() -> None:
    args = kit.settings(ZOO, num_workers=0)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        layers = (nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096)) for _ in range(10))
        model = nn.Sequential(nn.Linear(FRAME // 2, 4096), *layers, nn.Linear(4096, 35))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    one = np.ones((SAMPLES // FRAME, FRAME), dtype=np.float32)
    clips = Clips(kit.often(lambda: power(one, 0), 0.014))
    pace = kit.Pace()
    for x in batches(clips, args.num_workers):
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
