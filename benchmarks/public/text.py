"""A text of made-up words, drawn by a fixed seed and as often as words are in a language: `text.py FILE --words N`."""

import argparse
import random
from pathlib import Path

VOWELS, CONSONANTS = "aeiou", "bcdfghklmnprstvw"
LINE = 12  # words


def vocabulary(chance: random.Random, size: int) -> list[str]:
    """Return made-up words of one to four syllables."""
    return [
        "".join(chance.choice(CONSONANTS) + chance.choice(VOWELS) for _ in range(chance.randint(1, 4)))
        for _ in range(size)
    ]


def main() -> None:
    """Make the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--words", type=int, default=100_000)
    options.add_argument("--first", default="", help="a first line, for scripts that need its characters")
    options.add_argument("--vocabulary", type=int, default=2_000)
    chosen = options.parse_args()
    chance = random.Random(1)
    known = vocabulary(chance, chosen.vocabulary)
    drawn = chance.choices(known, [1 / rank for rank in range(1, len(known) + 1)], k=chosen.words)
    lines = (" ".join(drawn[start : start + LINE]) for start in range(0, len(drawn), LINE))
    first = [chosen.first + "\n"] if chosen.first else []
    chosen.file.write_text("".join([*first, *(f"{line.capitalize()}.\n" for line in lines)]))


if __name__ == "__main__":
    main()
