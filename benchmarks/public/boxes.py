"""Pictures with boxes as ultralytics reads them, and the data.yaml: `boxes.py FOLDER --train N --val N`."""

import argparse
from pathlib import Path

import numpy as np
from pictures import picture
from PIL import ImageDraw

SHAPES = ("box", "disc")


def main() -> None:
    """Make the folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--train", type=int, default=100)
    options.add_argument("--val", type=int, default=16)
    options.add_argument("--side", type=int, default=320)
    chosen = options.parse_args()
    chance = np.random.default_rng(1)
    for split, count in (("train", chosen.train), ("val", chosen.val)):
        for kind in ("images", "labels"):
            (chosen.folder / kind / split).mkdir(parents=True)
        for number in range(count):
            image, side = picture(chance, chosen.side, chosen.side, number % 16), chosen.side
            shape, (x, y, size) = number % 2, chance.integers(side // 8, side // 2, 3)
            corners = [int(x), int(y), int(x + size), int(y + size)]
            pen = ImageDraw.Draw(image)
            (pen.ellipse if shape else pen.rectangle)(corners, fill=(250, 40, 40))
            image.save(chosen.folder / "images" / split / f"{number:04}.jpg")
            box = [(x + size / 2) / side, (y + size / 2) / side, size / side, size / side]
            line = " ".join([str(shape), *(f"{value:.6f}" for value in box)])
            (chosen.folder / "labels" / split / f"{number:04}.txt").write_text(line + "\n")
    names = "".join(f"  {number}: {name}\n" for number, name in enumerate(SHAPES))
    (chosen.folder / "data.yaml").write_text(f"train: images/train\nval: images/val\nnames:\n{names}")


if __name__ == "__main__":
    main()
