"""What the zoo's CUDA scripts share: kit.py, and a clock that stands still until the device has caught up.

The host runs up to a launch queue ahead of the device, so what a step takes on the host's clock is how fast it queues.

A cause is planted by how long host, device and waits take beside each other, and hosts differ several times. What is
not the host's own takes `ZOO_SLOWER` times as long as the scripts say, where the judge found the host to be so slow or,
below 1, so fast. It found so by launching: other work of the host is done `often` enough to take as long as planted.

Beside the pace each process leaves what its card booked of the loop meanwhile, in `ZOO_PACE` with its rank behind it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simgpu"))
import kit
import simgpu
from kit import ranks, settings

__all__ = ["Pace", "burn", "joined", "often", "ranks", "settings", "wait"]
TRIES = 100  # at a piece of work, to know how long it takes
WARM = 5  # steps until the allocator, cuBLAS, cuDNN and the loader's queues are as they remain
SLOWER = float(os.environ.get("ZOO_SLOWER", "1"))
ENOUGH_S = float(os.environ.get("ZOO_SECONDS", "inf"))


def wait(seconds: float) -> None:
    """Wait for somebody else, as a store or a simulator."""
    time.sleep(seconds * SLOWER)


def burn(seconds: float) -> None:
    """Compute for so long, like kit.burn."""
    kit.burn(seconds * SLOWER)


def often(work: Callable[[], object], seconds: float) -> int:
    """Return how often this thread is to do a piece of work, to be at it for so many s of its CPU time."""
    work()  # it is warm from here on
    began = time.thread_time()
    for _ in range(TRIES):
        work()
    return max(1, round(seconds * SLOWER * TRIES / (time.thread_time() - began)))


class Pace(kit.Pace):
    """A clock on which the device has caught up at both ends: after a few warm steps, and at `done`.

    In between nothing is waited for. A script that ends without `done`, as out of memory, counts up to its last step.
    The script is ended once `ZOO_SECONDS` have told its pace, but where it is told by the `whole`.
    """

    def __init__(self, warm: int = WARM, *, whole: bool = False) -> None:
        super().__init__()
        self.warm = warm
        self.whole = whole or "RANK" in os.environ  # ranks end together
        self.pid, self.batches = os.getpid(), 0
        self.before = self.after = None if warm else self.booked()

    def saw(self, samples: int) -> None:
        """Count one trained batch, or begin to count after it."""
        if not self.warm:
            super().saw(samples)
            self.batches += 1
            if not self.whole and self.last - self.began > ENOUGH_S:
                self.done()
                sys.exit(0)
            return
        self.warm -= 1
        if not self.warm:
            self.began = self.done()
            self.before = self.after

    def done(self) -> float:
        """Let the device catch up, and return the time in s."""
        import torch  # not above: torchrun starts ranks before they import it

        torch.cuda.synchronize()
        self.last = time.perf_counter()
        self.after = self.booked()
        return self.last

    def booked(self) -> dict[str, float]:
        """Return how this process's time on its card went so far, ns: tests/simgpu/simgpu.py."""
        import torch

        try:
            return simgpu.Cards(Path(os.environ["SIMGPU_STATE"])).booked(torch.cuda.current_device())
        except KeyError:  # a card that it has not used yet, or a real one
            return {}

    def tell(self) -> None:
        """Say how it went, and what the card booked meanwhile: the wait of `done` itself is not counted."""
        super().tell()
        target = os.environ.get("ZOO_PACE")
        if not target or os.getpid() != self.pid or not self.before or self.after is self.before:
            return
        books = {name: self.after[name] - self.before[name] for name in self.before}
        books |= {"waits": books["waits"] - 1, "batches": self.batches}
        books["until"] = self.after["latest"] - self.before["until"]  # a loader may take its time to end its workers
        Path(f"{target}.{os.environ.get('RANK', '0')}").write_text(json.dumps(books))


def joined() -> int:
    """Join the job's process group, on a card of this rank's own, and return its number."""
    import torch

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    return rank
