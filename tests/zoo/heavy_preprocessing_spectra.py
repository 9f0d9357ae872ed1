"""Speech: spectra are computed anew for each clip in each epoch, by as many workers as there are CPUs."""

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-preprocessing",
    "says": "some 3 ms of numpy FFTs per clip, num_workers=2 on 2 CPUs, persistent",
    "fix": {"cached": True},
    "device": "none",
    "also": [],
}
WINDOW = np.hanning(512)


def spectrum(clip: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(clip, 512)[::32] * WINDOW
    power = np.abs(np.fft.rfft(windows)) ** 2
    return np.log1p(power).mean(0).astype(np.float32)


class Clips(Dataset):
    def __init__(self, cached: bool) -> None:
        rng = np.random.default_rng(2)
        self.clips = rng.normal(size=(40, 16000))
        self.spectra = [spectrum(clip) for clip in self.clips] if cached else []

    def __len__(self):
        return 640

    def __getitem__(self, index):
        number = index % len(self.clips)
        return self.spectra[number] if self.spectra else spectrum(self.clips[number])


if __name__ == "__main__":
    args = kit.settings(ZOO, num_workers=2, cached=False)
    torch.set_num_threads(1)
    encoder = torch.nn.Sequential(torch.nn.Linear(257, 1536), torch.nn.GELU(), torch.nn.Linear(1536, 257))
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4)
    loader = DataLoader(
        Clips(args.cached), batch_size=10, shuffle=True, num_workers=args.num_workers, persistent_workers=True
    )
    pace = kit.Pace()
    for _epoch in range(9):
        for spectra in loader:
            loss = torch.nn.functional.l1_loss(encoder(spectra), spectra)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(spectra))
