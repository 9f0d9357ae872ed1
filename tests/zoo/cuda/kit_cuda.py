"""What the zoo's CUDA scripts share: kit.py, and a clock that stands still until the device has caught up.

The host runs up to a launch queue ahead of the device, so what a step takes on the host's clock is how fast it queues.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import kit
from kit import burn, ranks, settings

__all__ = ["Pace", "burn", "joined", "ranks", "settings"]
WARM = 5  # steps until the allocator, cuBLAS, cuDNN and the loader's queues are as they remain


class Pace(kit.Pace):
    """A clock on which the device has caught up at both ends: after a few warm steps, and at `done`.

    In between nothing is waited for. A script that ends without `done`, as out of memory, counts up to its last step.
    """

    def __init__(self, warm: int = WARM) -> None:
        super().__init__()
        self.warm = warm

    def saw(self, samples: int) -> None:
        """Count one trained batch, or begin to count after it."""
        if not self.warm:
            super().saw(samples)
            return
        self.warm -= 1
        if not self.warm:
            self.began = self.done()

    def done(self) -> float:
        """Let the device catch up, and return the time in s."""
        import torch  # not above: torchrun starts ranks before they import it

        torch.cuda.synchronize()
        self.last = time.perf_counter()
        return self.last


def joined() -> int:
    """Join the job's process group, on a card of this rank's own, and return its number."""
    import torch

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    return rank
