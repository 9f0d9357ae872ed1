"""The first page, drawn before Textual is imported: that takes longer than all the rest, and it draws the same page."""

import os
from collections.abc import Mapping

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from gputune.tui.lines import EMPTY, Line
from gputune.tui.roles import Roles
from gputune.tui.views import foot_line, keys_of, looking

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H"  # the alternate screen, no cursor, no wrapping, from the top left
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"  # where Textual does not come to it


def first_page(size: os.terminal_size, roles: Roles, *, plain: bool = False) -> str:
    """Return what is written to the terminal for the first page."""
    width, height = size
    head = looking().head[0]
    blank = [(EMPTY, False)] * max(0, height - 2)
    foot = foot_line(keys_of("", plain=plain), width)
    lines = [(head, False), *blank, (foot, True)][:height]
    system = colours(os.environ)
    return ENTER + "\r\n".join(_drawn(line, width, roles, system, foot=is_foot) for line, is_foot in lines)


def _drawn(line: Line, width: int, roles: Roles, system: ColorSystem, *, foot: bool) -> str:
    spans = [*line.spans, (" " * max(0, width - cell_len(line.text)), "")]
    return "".join(_own(roles.style(role, foot=foot)).render(text, color_system=system) for text, role in spans if text)


def _own(style: Style) -> Style:
    """Return a style like this one: a style keeps the codes of its first drawing, and Textual may choose others."""
    return Style(color=style.color, bgcolor=style.bgcolor, bold=style.bold, dim=style.dim, reverse=style.reverse)


def colours(environ: Mapping[str, str]) -> ColorSystem:
    """Return how many colours a terminal has, as Rich tells it."""
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return ColorSystem.TRUECOLOR
    return ColorSystem.EIGHT_BIT if environ.get("TERM", "").endswith(("256color", "kitty")) else ColorSystem.STANDARD
