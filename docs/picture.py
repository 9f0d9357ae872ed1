"""A terminal's text with its colours, as a picture that needs nothing from anywhere: what the first page shows."""

import io
import re

from rich._export_format import CONSOLE_SVG_FORMAT  # rich offers its own form only whole
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

# Without the web font that rich's own form asks another host for.
FORM = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def svg(coloured: str, title: str) -> str:
    """Return a picture of a terminal that shows this text, with its escape sequences for colours."""
    text = Text.from_ansi(coloured.rstrip("\n"))
    width = max(map(len, text.plain.split("\n")))
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text, no_wrap=True, crop=False)
    drawn = console.export_svg(title=title, code_format=FORM, theme=MONOKAI, unique_id=re.sub(r"\W", "-", title))
    return drawn.replace(MONOKAI.background_color.hex, "#000000")  # what our screens are drawn on
