"""Run a command with torch's CUDA build on simulated cards: `python tests/simcuda/run.py -- gputune watch -- …`.

Takes the switches of tests/simgpu/run.py (`--devices`, `--set`, `--fault`, `--stranger` …), and those of the runtime:
`--queue` (launches that a stream holds), `--spin` or `--no-spin` (waits burn a core, as CUDA's default does), `--trace`
(a line for each thing that the device did; `%p` in the path is the pid), `--scale` (of all kernels), `--slower` (of all
that is modelled, by a power of two: for a host so much slower than another, or faster, as 0.5). Leaves with CMD's
status, or with 77 and one sentence where the CUDA build of torch is not to be had.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import simcuda

_SPEC = importlib.util.spec_from_file_location("simgpu_run", simcuda.simgpu.HERE / "run.py")
assert _SPEC is not None
assert _SPEC.loader is not None
cards = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cards)
SLOWER = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # powers of two: a link has so many lanes


def main() -> int:
    """Parse the command line and run CMD."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cards.add_switches(parser)
    parser.add_argument("--queue", type=int, metavar="LAUNCHES")
    parser.add_argument("--spin", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--trace", metavar="PATH")
    parser.add_argument("--scale", type=float, metavar="FACTOR")
    parser.add_argument("--slower", type=float, choices=SLOWER)
    options = cards.parsed(parser)
    given = {name: getattr(options, name) for name in ("queue", "scale", "trace")}
    if options.slower:
        given["scale"] = options.slower * (options.scale or 1.0)
    given["spin"] = None if options.spin is None else int(options.spin)
    try:
        simcuda.ready()
    except simcuda.UnavailableError as error:
        print(error, file=sys.stderr)
        return simcuda.SKIP
    told = {name: None if value is None else str(value) for name, value in given.items()}
    with cards.made(options) as state:
        for index in range(options.devices if options.slower else 0):
            cards.simgpu.Cards(state).slower(options.slower, index)
        return int(cards.run(options.command, simcuda.environment(state, **told)))


if __name__ == "__main__":
    sys.exit(main())
