"""What the zoo's CUDA scripts share: kit.py, and a clock that stands still until the device has caught up.

The host runs up to a launch queue ahead of the device, so what a step takes on the host's clock is how fast it queues.

A cause is planted by how long host, device and waits take beside each other, and hosts differ several times. What is
not the host's own takes `ZOO_SLOWER` times as long as the scripts say, where the judge found the host to be so slow.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import kit
from kit import ranks, settings

__all__ = ["Pace", "burn", "joined", "ranks", "settings", "wait"]
WARM = 5  # steps until the allocator, cuBLAS, cuDNN and the loader's queues are as they remain
SLOWER = int(os.environ.get("ZOO_SLOWER", "1"))
ENOUGH_S = float(os.environ.get("ZOO_SECONDS", "inf"))


def wait(seconds: float) -> None:
    """Wait for somebody else, as a store or a simulator."""
    time.sleep(seconds * SLOWER)


def burn(seconds: float) -> None:
    """Compute for so long, like kit.burn."""
    kit.burn(seconds * SLOWER)


class Pace(kit.Pace):
    """A clock on which the device has caught up at both ends: after a few warm steps, and at `done`.

    In between nothing is waited for. A script that ends without `done`, as out of memory, counts up to its last step.
    The script is ended once `ZOO_SECONDS` have told its pace, but where it is told by the `whole`.
    """

    def __init__(self, warm: int = WARM, *, whole: bool = False) -> None:
        super().__init__()
        self.warm = warm
        self.whole = whole or "RANK" in os.environ  # ranks end together

    def saw(self, samples: int) -> None:
        """Count one trained batch, or begin to count after it."""
        if not self.warm:
            super().saw(samples)
            if not self.whole and self.last - self.began > ENOUGH_S:
                self.done()
                sys.exit(0)
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
