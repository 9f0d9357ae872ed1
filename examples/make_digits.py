"""Write the digits that come with scikit-learn out as image files: demo-data/train/<digit>/<number>.png."""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE = 160  # pixels: about what a phone's photo of one digit would be cut down to


def main() -> None:
    """Write each of the 1,797 digits as one picture, the last 297 of them for validation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-data"))
    args = parser.parse_args()
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        split = "train" if number < 1500 else "valid"
        path = args.out / split / str(label) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((pixels * (255 / 16)).astype(np.uint8))
        image.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
    print(f"{len(digits.images)} images in {args.out}")


if __name__ == "__main__":
    main()
