"""Draws the floors in docs/architecture.md out of the code: the rooms, what each is for, and how long the way down is.

A room is a package of `gputune`, or a file that lies beside them. Run by `make floors`; `tests/test_floors.py` holds
the page to the code.
"""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- drawn by `make floors` -->\n", "<!-- end of what is drawn -->\n"
LINKED = ("probes", "advisors", "tui")  # lie at the top of the repository
WIDE = 11  # characters of a room's name


def floors() -> list[list[str]]:
    """Return the rooms of each floor, the highest first, as import-linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (c for c in settings["contracts"] if c["type"] == "layers")
    return [layer.replace(":", "|").replace(" ", "").split("|") for layer in contract["layers"]]


def folder(room: str) -> Path:
    """Return where a room's files lie: a folder, or one file."""
    inside = ROOT / room if room in LINKED else ROOT / "gputune" / room
    return inside if inside.is_dir() else inside.with_suffix(".py")


def sources(room: str) -> list[Path]:
    """Return the Python files of a room, without the guest's: it runs in the training and imports none of ours."""
    where = folder(room)
    if where.is_file():
        return [where]
    return sorted(file for file in where.rglob("*.py") if "guest" not in file.relative_to(where).parts)


def _imports(file: Path) -> Iterator[str]:
    """Yield the rooms that a file imports from, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in named if name.startswith("gputune."))


@functools.cache
def arrows() -> Mapping[str, frozenset[str]]:
    """Return the rooms that each room imports from."""
    rooms = {room for floor in floors() for room in floor}
    return {r: frozenset({to for file in sources(r) for to in _imports(file)} & rooms - {r}) for r in rooms}


def way_down(room: str, above: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the longest chain of imports that begins in a room; a circle is a ValueError."""
    if room in above:
        raise ValueError(f"a circle: {' → '.join((*above, room))}")
    below = (way_down(to, (*above, room)) for to in sorted(arrows()[room]))
    return (room, *max(below, key=len, default=()))


def _purpose(room: str) -> str:
    """Return the first sentence of a room's own words."""
    file = folder(room)
    text = ast.get_docstring(ast.parse((file / "__init__.py" if file.is_dir() else file).read_text(encoding="utf-8")))
    return " ".join((text or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def drawing() -> str:
    """Return the floors with their rooms, and the figures of the whole."""
    rows = []
    for number, rooms in zip(range(len(floors()) - 1, -1, -1), floors(), strict=True):
        for at, room in enumerate(rooms):
            rows.append(f"{number if at == 0 else '':>2}  {room:{WIDE}} {_purpose(room)}")
    rooms = [room for floor in floors() for room in floor]
    longest = max((way_down(room) for room in rooms), key=len)
    total = sum(len(to) for to in arrows().values())
    figures = f"{len(rooms)} rooms on {len(floors())} floors, {total} arrows, all of them down. The longest way down:\n"
    return "```\n" + "\n".join(rows) + f"\n```\n\n{figures}{' → '.join(longest)}.\n"


def page() -> str:
    """Return docs/architecture.md with the floors as they are now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + drawing() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
