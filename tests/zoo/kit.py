"""What the zoo's scripts share: their options, a clock around their loop, and work that takes a known time.

The clock is the zoo's own truth: it does not come from gputune, so a predicted speed-up is held against what a
script really did. It writes `{"samples": n, "seconds": s}` to the file named by `ZOO_PACE`, and one line to stdout.
"""

import argparse
import atexit
import json
import os
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

Setting = bool | int | float


def settings(zoo: Mapping[str, object], **defaults: Setting) -> argparse.Namespace:
    """Return the script's settings: its defaults, `zoo["fix"]` if `--fixed`, and its options (`--num-workers 6`)."""
    parser = argparse.ArgumentParser(description=str(zoo["says"]))
    parser.add_argument("--fixed", action="store_true", help="run the repaired twin: the same work without the cause")
    for name, value in defaults.items():
        kind = _truth if isinstance(value, bool) else type(value)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=None, help=f"instead of {value}")
    given = vars(parser.parse_args())
    fix = zoo["fix"] if given["fixed"] else {}
    if not isinstance(fix, dict) or not set(fix) <= set(defaults):
        parser.error(f"the fix {fix} names settings that this script does not have")
    chosen = {name: value for name, value in given.items() if value is not None}
    return argparse.Namespace(**{**defaults, **fix, **chosen})


def _truth(word: str) -> bool:
    return word.lower() in {"1", "true", "yes"}


def ranks(number: int) -> None:
    """Go on as so many ranks of one job, under torchrun: call it before torch is imported. A rank just goes on."""
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number)]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


class Pace:
    """A clock around the training loop: from its making to the last `saw`. Of several ranks the first one tells."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.samples = 0
        self.owner = os.getpid() if os.environ.get("RANK", "0") == "0" else 0
        atexit.register(self.tell)

    def saw(self, samples: int) -> None:
        """Count one trained batch."""
        self.samples += samples
        self.last = time.perf_counter()

    def tell(self) -> None:
        """Say how it went."""
        if os.getpid() != self.owner or not self.samples:
            return
        seconds = self.last - self.began
        print(f"{self.samples} samples in {seconds:.2f} s: {self.samples / seconds:.1f} samples/s")
        if target := os.environ.get("ZOO_PACE"):
            Path(target).write_text(json.dumps({"samples": self.samples, "seconds": seconds}))


PAGE = bytes(1 << 18)


def burn(seconds: float) -> None:
    """Use so many seconds of this thread's CPU time, however long that takes on a busy machine.

    Like decoders and numpy, and unlike pure Python, it lets go of the GIL. A worker that holds it delivers late: the
    training fetches each tensor's file descriptor from a thread of the worker, and that thread waits for the GIL.
    """
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        zlib.crc32(PAGE)
