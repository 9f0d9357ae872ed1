"""A pipeline of NVIDIA DALI with one thread for 16 samples of 1 ms each: of a stand-in, for DALI needs a card."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kit
import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "guest" / "fake_dali"))
ZOO = {
    "cause": "slow-dali",
    "says": "16 samples of 1 ms that one thread of a DALI pipeline makes, one after the other, for a step of some 4 ms",
    "fix": {"num_threads": 2},
    "device": "none",
    "also": [],
    "softly": True,
}
SAMPLE_S, STEP_S = 0.001, 0.004


def sample(_index: int) -> torch.Tensor:
    time.sleep(SAMPLE_S)
    return torch.ones(64)


def main() -> None:
    args = kit.settings(ZOO, num_threads=1)
    from nvidia.dali.pipeline import Pipeline
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator

    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(args.num_threads)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def make(_batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack(list(pool.map(sample, range(16)))), torch.ones(16, 1)

    loader = DALIClassificationIterator(Pipeline(16, args.num_threads, make, 400))
    pace = kit.Pace()
    for (batch,) in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch["data"]), batch["label"]).backward()
        kit.burn(STEP_S)
        optimizer.step()
        pace.saw(16)


if __name__ == "__main__":
    main()
