"""nanoGPT's memory-mapped tokens: `tokens.py FOLDER --train N --val N --vocabulary V` (16 bits a token)."""

import argparse
import pickle
from pathlib import Path

import numpy as np


def main() -> None:
    """Make the two files and the vocabulary's size beside them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--train", type=int, default=1_000_000)
    options.add_argument("--val", type=int, default=100_000)
    options.add_argument("--vocabulary", type=int, default=65)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    for name, count in (("train", chosen.train), ("val", chosen.val)):
        # steps of a walk: the next token hangs on the last one, so that there is something to learn
        walk = np.cumsum(chance.integers(-2, 3, count)) % chosen.vocabulary
        walk.astype(np.uint16).tofile(chosen.folder / f"{name}.bin")
    (chosen.folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": chosen.vocabulary}))


if __name__ == "__main__":
    main()
