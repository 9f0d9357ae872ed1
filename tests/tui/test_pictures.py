"""Whole screens as pictures: as text, and as SVG where colours matter.

`GPUTUNE_PICTURES=write` draws them anew; what is different shows in the commit. The SVG is made here, out of what the
widget hands to Textual: another Textual draws another SVG of the same screen.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from rich.style import Style
from textual.strip import Strip

from gputune.feeds.rows import Update
from gputune.tui.app import Gputune, PageView
from gputune.tui.roles import DARK, LIGHT
from gputune.tui.sheet import Sheet

Make = Callable[..., Any]
PICTURES = Path(__file__).parent / "pictures"
PATIENCE = 60.0  # s
WIDE, HIGH = 8, 17  # of a cell, in the SVG's own unit
FINDING = PageView("finding", "m8/run", "few-workers")


class Told:
    """A feed that tells one update."""

    def __init__(self, update: Update) -> None:
        self._update = update

    def poll(self, since: int) -> Update:
        return Update(until=since) if since else self._update

    def look_at(self, node: str, span: int) -> None:
        pass

    def seek(self, run: str, at: float | None) -> None:
        raise AssertionError("nobody looks back")

    def close(self) -> None:
        pass


@pytest.fixture
def scene(node: Make, run: Make) -> Update:
    """Return three nodes and a run."""
    nodes = (node("a", rate=1.0, rack="r2"), node("b", rate=9.0, runs=()), node("m8", rate=5.0))
    return Update(until=1, nodes=nodes, runs=(run(),))


def strips(app: Gputune, size: tuple[int, int]) -> list[Strip]:
    """Return the lines of a screen once it has been told something."""
    found: list[Strip] = []

    async def played() -> None:
        async with app.run_test(size=size) as pilot:
            end = asyncio.get_running_loop().time() + PATIENCE
            while not app.store.version:
                assert asyncio.get_running_loop().time() < end
                await pilot.pause(0.01)
            await pilot.pause()
            sheet = app.query_one(Sheet)
            found.extend(sheet.render_line(y) for y in range(sheet.size.height))

    asyncio.run(played())
    return found


def compared(file: Path, drawn: str) -> None:
    """Compare what was drawn with the picture, or make it the picture."""
    if os.environ.get("GPUTUNE_PICTURES") == "write":
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "view", "size", "plain"),
    [
        ("nodes", PageView("nodes"), (80, 24), False),
        ("node", PageView("node", "m8"), (120, 40), False),
        ("run", PageView("run", "m8/run"), (80, 24), False),
        ("run-plain", PageView("run", "m8/run"), (80, 24), True),
        ("finding", FINDING, (80, 24), False),
    ],
)
def test_a_screen_looks_as_it_is_drawn_here(
    scene: Update, name: str, view: PageView, size: tuple[int, int], plain: bool
) -> None:
    app = Gputune(lambda: Told(scene), start=view, plain=plain)
    text = "".join(f"{strip.text.rstrip()}\n" for strip in strips(app, size))
    compared(PICTURES / f"{name}.txt", text)


@pytest.mark.parametrize(
    ("name", "view", "looks"),
    [
        ("nodes-dark", PageView("nodes"), {}),
        ("run-light", PageView("run", "m8/run"), {"dark": False}),
        ("run-no-colour", PageView("run", "m8/run"), {"colour": False}),
        ("share-dark", PageView("share", "m8/run"), {}),
    ],
)
def test_a_screen_has_the_colours_that_it_has_here(
    rows: SimpleNamespace, name: str, view: PageView, looks: dict[str, bool]
) -> None:
    shared = {"procs": rows.procs()} if view.kind == "share" else {}
    update = Update(until=1, nodes=(rows.node("a", rack="r2"), rows.node("m8")), runs=(rows.run(**shared),))
    app = Gputune(lambda: Told(update), start=view, **looks)  # type: ignore[arg-type] # two switches
    ground = (DARK if looks.get("dark", True) else LIGHT) if looks.get("colour", True) else None
    compared(PICTURES / f"{name}.svg", svg(strips(app, (100, 30)), ground))


def svg(lines: list[Strip], ground: Any) -> str:
    """Return lines as an SVG, on the colours of a theme or on plain black and white."""
    text, page = (ground.text, ground.page) if ground else ("#ffffff", "#000000")
    width = max(strip.cell_length for strip in lines) * WIDE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(lines) * HIGH}" '
        f'font-family="monospace" font-size="13" xml:space="preserve">',
        f'<rect width="100%" height="100%" fill="{page}"/>',
    ]
    for y, strip in enumerate(lines):
        parts += _cells(strip, y * HIGH, text, page)
    return "\n".join([*parts, "</svg>", ""])


def _cells(strip: Strip, y: int, text: str, page: str) -> Iterator[str]:
    x = 0
    for segment in strip:
        style = segment.style or Style()
        front, back = _colour(style.color, text), _colour(style.bgcolor, page)
        if style.reverse:
            front, back = back, front
        wide = segment.cell_length * WIDE
        if back != page:
            yield f'<rect x="{x}" y="{y}" width="{wide}" height="{HIGH}" fill="{back}"/>'
        if segment.text.strip():
            weight = ' font-weight="bold"' if style.bold else ""
            dim = ' opacity="0.6"' if style.dim else ""
            at = f'x="{x}" y="{y + HIGH - 4}" textLength={quoteattr(str(wide))} fill="{front}"'
            yield f"<text {at}{weight}{dim}>{escape(segment.text)}</text>"
        x += wide


def _colour(colour: Any, otherwise: str) -> str:
    return otherwise if colour is None else colour.get_truecolor().hex
