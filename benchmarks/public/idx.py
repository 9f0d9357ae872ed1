"""MNIST's four files with made-up digits, as torchvision finds them without a download.

Each digit is a blurred blob at a place of its own, with noise: a network learns them, so that losses move.
"""

import argparse
import struct
from pathlib import Path

import numpy as np

SIDE = 28


def digits(chance: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` images of 28 × 28 bytes, and their labels."""
    labels = chance.integers(0, 10, count).astype(np.uint8)
    row, column = np.mgrid[:SIDE, :SIDE]
    angle = labels * 2 * np.pi / 10
    y, x = 14 + 7 * np.sin(angle), 14 + 7 * np.cos(angle)
    blob = np.exp(-((row - y[:, None, None]) ** 2 + (column - x[:, None, None]) ** 2) / 18)
    return (blob * 200 + chance.integers(0, 55, blob.shape)).astype(np.uint8), labels


def write(path: Path, values: np.ndarray) -> None:
    """Write an idx file of bytes."""
    head = struct.pack(f">I{values.ndim}I", 2048 + values.ndim, *values.shape)
    path.write_bytes(head + values.tobytes())


def main() -> None:
    """Make the files."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--train", type=int, default=60_000)
    options.add_argument("--test", type=int, default=10_000)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    for name, count in (("train", chosen.train), ("t10k", chosen.test)):
        images, labels = digits(chance, count)
        write(chosen.folder / f"{name}-images-idx3-ubyte", images)
        write(chosen.folder / f"{name}-labels-idx1-ubyte", labels)


if __name__ == "__main__":
    main()
