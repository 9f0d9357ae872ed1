"""WebDataset shards of pictures with captions, as open_clip reads them: `shards.py FOLDER --shards N --samples N`."""

import argparse
import io
import tarfile
from pathlib import Path

import numpy as np
from pictures import picture


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file, the same bytes at every time it is made."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def main() -> None:
    """Make the folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--shards", type=int, default=4)
    options.add_argument("--samples", type=int, default=64, help="in each shard")
    options.add_argument("--width", type=int, default=320)
    options.add_argument("--height", type=int, default=240)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    for shard in range(chosen.shards):
        with tarfile.open(chosen.folder / f"{shard:03}.tar", "w") as archive:
            for number in range(chosen.samples):
                tint = number % 16
                jpeg = io.BytesIO()
                picture(chance, chosen.width, chosen.height, tint).save(jpeg, "JPEG")
                add(archive, f"{shard:03}{number:05}.jpg", jpeg.getvalue())
                add(archive, f"{shard:03}{number:05}.txt", f"a smooth picture that leans to tint {tint}".encode())


if __name__ == "__main__":
    main()
