"""The page that is there before Textual is: the one that Textual draws over it."""

import asyncio
import os
import re

import pytest
from rich.color import ColorSystem

from gputune.feeds.rows import Update
from gputune.tui.app import Gputune
from gputune.tui.first import colours, first_page
from gputune.tui.roles import DARK, Roles
from gputune.tui.sheet import Sheet
from gputune.tui.views import foot_line, keys_of

SIZE = os.terminal_size((80, 24))
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Silent:
    """A feed that knows nothing."""

    def poll(self, since: int) -> Update:
        raise AssertionError("it was asked")

    def look_at(self, node: str, span: int) -> None:
        pass

    def seek(self, run: str, at: float | None) -> None:
        pass

    def close(self) -> None:
        pass


def test_it_is_what_the_screen_shows_before_it_knows_anything() -> None:
    app = Gputune(Silent)
    drawn: list[str] = []

    async def played() -> None:
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            sheet = app.query_one(Sheet)
            drawn.extend(sheet.render_line(y).text for y in range(sheet.size.height))

    app._asking.start = lambda: None  # type: ignore[method-assign] # nothing is to come
    asyncio.run(played())
    text = ESCAPES.sub("", first_page(SIZE, Roles()))
    assert text.split("\r\n") == drawn
    assert drawn[0].startswith(" looking")
    assert "q leave" in drawn[-1]


def test_it_has_the_colours_of_the_theme_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    red, green, blue = (int(DARK.page[k : k + 2], 16) for k in (1, 3, 5))
    assert f"48;2;{red};{green};{blue}" in first_page(SIZE, Roles())
    plain = first_page(SIZE, Roles(colour=False), plain=True)
    assert not re.search(r"[34]8;|\x1b\[[34][0-7]m", plain)
    assert "<-> time" in foot_line(keys_of("run", plain=True), 300).text


@pytest.mark.parametrize("size", [(1, 1), (20, 2), (300, 90)])
def test_any_size_will_do(size: tuple[int, int]) -> None:
    text = ESCAPES.sub("", first_page(os.terminal_size(size), Roles()))
    assert len(text.split("\r\n")) == size[1]


@pytest.mark.parametrize(
    ("environ", "system"),
    [
        ({"TERM": "xterm-256color"}, ColorSystem.EIGHT_BIT),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ColorSystem.TRUECOLOR),
        ({"TERM": "linux"}, ColorSystem.STANDARD),
        ({}, ColorSystem.STANDARD),
    ],
)
def test_a_terminal_gets_the_colours_that_it_has(environ: dict[str, str], system: ColorSystem) -> None:
    assert colours(environ) is system
