"""A folder of JPEG or PNG pictures by class, as ImageFolder reads it: `pictures.py FOLDER --split train=200 …`.

Pictures are smooth patches with noise: about as large in JPEG as photographs of that size. `--masks` makes pairs in
`imgs/` and `masks/` (two classes of pixels) instead.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image


def picture(chance: np.random.Generator, width: int, height: int, tint: int) -> Image.Image:
    """Return a picture whose colours lean to one of 16 tints."""
    coarse = chance.integers(0, 200, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)
    lean = np.array([tint % 4, tint // 4 % 4, (tint + 2) % 4]) * 15
    return Image.fromarray(np.clip(smooth + lean + chance.integers(-8, 9, smooth.shape), 0, 255).astype(np.uint8))


def classes(folder: Path, count: int, chosen: argparse.Namespace, chance: np.random.Generator) -> None:
    """Put `count` pictures into the folders of the classes, in turn; into `folder` itself where there are none."""
    for number in range(count):
        tint = number % max(1, chosen.classes)
        place = folder / f"class{tint:02}" if chosen.classes else folder
        place.mkdir(parents=True, exist_ok=True)
        picture(chance, chosen.width, chosen.height, tint).save(place / f"{number:05}.{chosen.kind}")


def pairs(folder: Path, count: int, chosen: argparse.Namespace, chance: np.random.Generator) -> None:
    """Put pictures into imgs/ and their masks into masks/: what is bright in the first channel."""
    for name in ("imgs", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        image = picture(chance, chosen.width, chosen.height, number % 16)
        image.save(folder / "imgs" / f"{number:05}.{chosen.kind}")
        mask = (np.asarray(image)[:, :, 0] > 110).astype(np.uint8)
        Image.fromarray(mask).save(folder / "masks" / f"{number:05}.png")


def main() -> None:
    """Make the folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--split", action="append", default=[], help="NAME=COUNT; without a name all lie in FOLDER")
    options.add_argument("--classes", type=int, default=4)
    options.add_argument("--width", type=int, default=320)
    options.add_argument("--height", type=int, default=240)
    options.add_argument("--kind", choices=("jpg", "png"), default="jpg")
    options.add_argument("--masks", action="store_true")
    chosen = options.parse_args()
    chance = np.random.default_rng(1)
    for split in chosen.split:
        name, _, count = split.partition("=")
        make = pairs if chosen.masks else classes
        make(chosen.folder / name, int(count), chosen, chance)


if __name__ == "__main__":
    main()
