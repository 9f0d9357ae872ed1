"""Numbers to cells: bars, sparks and plots of block and braille characters, or of plain letters.

All functions are pure. What is no number (None, nan, infinite) is drawn as nothing; what is out of range as its end.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Value: TypeAlias = float | None

EIGHTHS = " ▏▎▍▌▋▊▉█"
HEIGHTS = " ▁▂▃▄▅▆▇█"
GLYPHS = "█▓▒░▚▞▖▗▘▝·"  # stretches of one bar, told apart without colour
LETTERS = "#=+-:%*o~^."  # likewise, of plain letters
PLAIN_HEIGHTS = " .:-=+*#%@"[:9]
BRAILLE = 0x2800
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # of a cell, by column, from the bottom up
CURSOR = "│"


def sane(value: Value, top: float = 1.0) -> Value:
    """Return the value within 0 to `top`, None where it is no number."""
    if value is None or not math.isfinite(value):
        return None
    return min(max(0.0, value), top)


def bar(share: Value, width: int, *, plain: bool = False) -> str:
    """Return a share as `width` cells, to the eighth of a cell; plain to the cell."""
    known = sane(share)
    if known is None or width <= 0:
        return " " * max(0, width)
    if plain:
        return ("#" * round(known * width)).ljust(width, ".")
    full, part = divmod(round(known * width * 8), 8)
    return ("█" * full + EIGHTHS[part]).ljust(width)[:width]


def spark(values: Sequence[Value], width: int, *, top: float = 1.0, plain: bool = False) -> str:
    """Return the last `width` values as one line, a cell each; something above nothing is never drawn as nothing."""
    glyphs = PLAIN_HEIGHTS if plain else HEIGHTS
    cells = [_height(value, top, glyphs) for value in values[-width:]] if width > 0 else []
    return "".join(cells).rjust(width)


def _height(value: Value, top: float, glyphs: str) -> str:
    known = sane(value, top)
    if known is None or top <= 0:
        return " "
    eighths = round(known / top * 8)
    return glyphs[max(1, eighths) if known > 0 else 0]


def heat(values: Iterable[Value], width: int, *, plain: bool = False) -> str:
    """Return one cell a value, by height, idle ones as a dot; of more than `width` values means of neighbours."""
    every = list(values)
    if len(every) > width:
        every = resample(every, width)
    found = []
    for value in every:
        cell = _height(value, 1.0, PLAIN_HEIGHTS if plain else HEIGHTS)
        found.append("?" if sane(value) is None else "." if plain and cell == " " else "·" if cell == " " else cell)
    return "".join(found).ljust(width)


def resample(values: Sequence[Value], count: int) -> list[Value]:
    """Return `count` values that stand for all of them: means of those that fall together, repeated where few do."""
    size = len(values)
    if count <= 0 or not size:
        return [None] * max(0, count)
    found: list[Value] = []
    for k in range(count):
        first = k * size // count
        last = max(first + 1, (k + 1) * size // count)
        known = [value for value in values[first:last] if value is not None and math.isfinite(value)]
        found.append(sum(known) / len(known) if known else None)
    return found


def plot(values: Sequence[Value], width: int, height: int, *, top: float, plain: bool = False) -> list[str]:
    """Return the values as an area of `height` lines, the highest first: two by four dots a cell, or plain letters."""
    if width <= 0 or height <= 0:
        return [""] * max(0, height)
    if plain:
        return _columns(resample(values, width), height, top)
    rises = [_dots(value, top, height * 4) for value in resample(values, width * 2)]
    rows = []
    for row in reversed(range(height)):
        cells = []
        for column in range(width):
            left, right = (min(4, max(0, rises[2 * column + k] - 4 * row)) for k in (0, 1))
            cells.append(chr(BRAILLE + sum(DOTS[0][:left]) + sum(DOTS[1][:right])) if left or right else " ")
        rows.append("".join(cells))
    return rows


def _dots(value: Value, top: float, most: int) -> int:
    known = sane(value, top)
    if known is None or top <= 0:
        return 0
    return max(1, round(known / top * most)) if known > 0 else 0


def _columns(values: Sequence[Value], height: int, top: float) -> list[str]:
    rises = [_dots(value, top, height * 2) for value in values]
    return ["".join(" :#"[min(2, max(0, rise - 2 * row))] for rise in rises) for row in reversed(range(height))]


def ceiling(values: Iterable[Value]) -> float:
    """Return a round number (1, 2 or 5 times a power of ten) that no value is above; 1 where there is none."""
    most = max((value for value in values if value is not None and math.isfinite(value)), default=0.0)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next((power * step for step in (1, 2, 5, 10) if most <= power * step * (1 + 1e-9)), power * 10)


def stretches(cells: Sequence[int], *, plain: bool = False) -> list[str]:
    """Return the stretches of one bar, each in a glyph of its own by its place."""
    glyphs = LETTERS if plain else GLYPHS
    return [glyphs[min(place, len(glyphs) - 1)] * count for place, count in enumerate(cells)]
