"""Run a command on simulated GPUs: `python tests/simgpu/run.py --devices 1 -- gputune watch -- python train.py`.

Compiles the library, makes the cards, puts both into the environment of CMD, and leaves with CMD's exit status.
Switches: `--set throttle=0x20`, `--fault nvmlDeviceGetPowerUsage=3`, `--stranger 0.5` (another process that keeps half
of card 0 busy, outside of CMD's process tree), `--no-library` and `--init CODE` (NVML that cannot start).
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import simgpu

SLICE = 0.01  # s of the stranger's kernels


def stranger(share: float, memory: int) -> None:
    """Keep card 0 busy for `share` of the time, until the process that started us is gone."""
    import ctypes
    import time

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    gpu = simgpu.Device()
    gpu.alloc(memory)
    print("ready", flush=True)
    while True:
        gpu.launch(SLICE)
        gpu.synchronize()
        time.sleep(SLICE * (1 / share - 1))


@contextlib.contextmanager
def strangers(share: float, memory: int) -> Iterator[None]:
    """Start the stranger, and end it."""
    if not share:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, __file__, "--be-stranger", f"{share},{memory}"], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def environment(state: Path, *, library: bool = True) -> dict[str, str]:
    """Return the environment in which NVML is the simulated one."""
    env = dict(os.environ, SIMGPU_STATE=str(state))
    if library:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(simgpu.build()), env.get("LD_LIBRARY_PATH", "")]))
    return env


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Add what says how many cards there are and what is wrong with them."""
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="[DEVICE:]NAME=VALUE", help="see sim.h")
    parser.add_argument("--fault", action="append", default=[], metavar="FUNCTION=CODE")
    parser.add_argument("--hang", action="append", default=[], metavar="FUNCTION")
    parser.add_argument("--init", type=int, default=0, metavar="CODE", help="NVML's initialisation returns this")
    parser.add_argument("--stranger", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--stranger-memory", type=int, default=4 << 30, metavar="BYTES")
    parser.add_argument("--be-stranger", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", metavar="CMD")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; does not return where it asks for a stranger."""
    options = parser.parse_args()
    if options.be_stranger:
        share, memory = options.be_stranger.split(",")
        stranger(float(share), int(memory))
    if not options.command:
        parser.error("no command: end with -- CMD …")
    return options


@contextlib.contextmanager
def made(options: argparse.Namespace) -> Iterator[Path]:
    """Make the cards that the switches ask for; they are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="simgpu-") as folder:
        state = simgpu.create(Path(folder) / "state", options.devices)
        cards = simgpu.Cards(state)
        for setting in options.set:
            device, _, rest = setting.rpartition(":")
            name, _, value = rest.partition("=")
            for index in [int(device)] if device else range(options.devices):
                cards.set(index, **{name: int(value, 0)})
        for fault in options.fault:
            function, _, code = fault.partition("=")
            cards.fault(function, int(code))
        for function in options.hang:
            cards.fault(function, delay=-1)
        if options.init:
            cards.fault("nvmlInit", options.init)
        with strangers(options.stranger, options.stranger_memory):
            yield state


def main() -> int:
    """Parse the command line and run CMD."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_switches(parser)
    parser.add_argument("--no-library", action="store_true", help="the cards are there, NVML is not")
    options = parsed(parser)
    with made(options) as state:
        return run(options.command, environment(state, library=not options.no_library))


def run(command: list[str], env: dict[str, str]) -> int:
    """Run the command with our terminal, pass signals on, and return its status as a shell would."""
    process = subprocess.Popen(command, env=env)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: process.send_signal(got))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the command by itself
    status = process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
