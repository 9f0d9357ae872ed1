"""Sine waves as pytorch/examples' time_sequence_prediction makes them, of any length: `sines.py FILE --length N`."""

import argparse
from pathlib import Path

import numpy as np
import torch

PERIOD, WAVES = 20, 100


def main() -> None:
    """Make the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--length", type=int, default=1000)
    chosen = options.parse_args()
    shift = np.random.default_rng(2).integers(-4 * PERIOD, 4 * PERIOD, (WAVES, 1))
    torch.save(np.sin((np.arange(chosen.length) + shift) / PERIOD), chosen.file)


if __name__ == "__main__":
    main()
