"""Whitening in numpy: BLAS takes a thread per CPU in each of four workers, which torch knows nothing of."""

import os

import kit

ZOO = {
    "cause": "oversubscribed-workers",
    "says": "num_workers=4 whose numpy uses 2 BLAS threads each, on 2 CPUs",
    "fix": {"num_workers": 2, "blas_threads": 1},
    "device": "none",
    "also": ["heavy-preprocessing"],
}
args = kit.settings(ZOO, num_workers=4, blas_threads=2)
os.environ["OPENBLAS_NUM_THREADS"] = str(args.blas_threads)  # read when numpy is imported

import numpy as np  # noqa: E402 - see above
import torch  # noqa: E402 - see above
from torch.utils.data import DataLoader, Dataset  # noqa: E402 - see above


class Covariances(Dataset):
    def __len__(self) -> int:
        return 8 * 100

    def __getitem__(self, index: int) -> np.ndarray:
        matrix = np.full((256, 256), index / 1000, np.float32)
        for _ in range(8):
            matrix = matrix @ matrix
            matrix /= np.abs(matrix).max() + 1
        return matrix.mean(0)


torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pace = kit.Pace()
for batch in DataLoader(Covariances(), batch_size=8, num_workers=args.num_workers):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    pace.saw(len(batch))
