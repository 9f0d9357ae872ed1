"""A training for tests and benchmarks of `share`: real guest, simulated card, a torch that computes nothing.

`python task.py --steps 100 --kernel 0.006 --idle 0.014 --memory 4e9`: each step queues a kernel, waits for it (or, with
`--ahead K`, for that of K steps ago, as a training does that reads its loss now and then), and is busy elsewhere.
Further switches make it fail, hang, grow or talk. It knows --process_index and --process_num unless --deaf.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "simgpu"), str(HERE.parent / "guest" / "fake_torch")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("kernel", "idle", "memory", "grow", "crash_at", "kill_at", "hang_at", "host"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--only", type=int, default=-1, help="what goes wrong does so in this process only")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--metric", action="store_true")
    if "--deaf" not in sys.argv:
        parser.add_argument("--process_index", type=int, default=0)
        parser.add_argument("--process_num", type=int, default=1)
    return parser.parse_args()


class Numbers:
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


def main() -> int:  # noqa: C901, PLR0912 - one loop with everything that can go wrong in it
    asked = arguments()
    index = int(os.environ.get("GPUTUNE_PROCESS_INDEX", "0"))
    wrong = asked.only in {-1, index}
    print(f"begin {index} of {os.environ.get('GPUTUNE_PROCESS_NUM', '1')}: {' '.join(sys.argv[1:])}", flush=True)
    if asked.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(asked.children):
        if not os.fork():
            while True:
                time.sleep(60)
    from torch.utils.data import DataLoader

    gpu = None
    if "SIMGPU_STATE" in os.environ:
        from simgpu import Device

        gpu = Device()
        if asked.memory:
            gpu.alloc(int(asked.memory))
    ballast = bytearray(int(asked.host))
    ballast[::4096] = b"x" * len(ballast[::4096])
    queued = []
    began = time.monotonic()
    for step, _batch in enumerate(DataLoader(Numbers(asked.steps * asked.batch), asked.batch)):
        at = time.monotonic() - began
        if wrong and asked.crash_at and at > asked.crash_at:
            raise RuntimeError("this is the crash")
        if wrong and asked.kill_at and at > asked.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if wrong and asked.hang_at and at > asked.hang_at:
            time.sleep(3600)
        if gpu is not None:
            if asked.grow and wrong:
                gpu.alloc(int(asked.grow))
            if asked.kernel:
                gpu.launch(asked.kernel)
                queued.append(gpu.record())
                if len(queued) > asked.ahead:
                    queued.pop(0).synchronize()
        time.sleep(asked.idle)
        if asked.metric and step % 10 == 9:
            print(f"speed: {(step + 1) / (time.monotonic() - began):.3f} it/s", flush=True)
    print(f"loop {time.monotonic() - began:.4f} s", flush=True)
    print(f"end {index}", flush=True)
    return asked.status if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
