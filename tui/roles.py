"""What a span means, to how it looks: dark, light, or without any colour."""

from functools import lru_cache
from typing import NamedTuple

from rich.style import Style

from gputune.core.events import ENVIRONMENT_SPAN, POLICY_SPAN

SPANS = {  # the words of the ledger, in the colours that the verdict on a terminal gives them
    "step": ("#4fb477", "#1c7c43"),
    "loader.wait": ("#e0575b", "#b3261e"),
    "loader.start": ("#f0878a", "#c9514b"),
    "startup": ("#5b8def", "#2456b8"),
    "checkpoint": ("#b678dd", "#7b3fa5"),
    "evaluation": ("#46b8c4", "#0f7480"),
    "logging": ("#d8a03d", "#94650a"),
    "reporting": ("#e8c06a", "#a87a1c"),
    "cleanup": ("#d9c98a", "#8a7a2c"),
    "sync": ("#d77fc0", "#9c3f86"),
    "launch.wait": ("#c98fd0", "#8a4a94"),
    "copy.h2d": ("#7fa6f5", "#3f68c4"),
    ENVIRONMENT_SPAN: ("#c9a25b", "#7d5c14"),
    POLICY_SPAN: ("#7fc8a9", "#2f7a58"),
    "collective": ("#6fd3dc", "#1b8a95"),
    "queue.wait": ("#f0878a", "#c9514b"),
    "between": ("#d9a26a", "#8a5a20"),
    "teardown": ("#8da9e8", "#5575b5"),
    "other": ("#7b8494", "#737a86"),
}
# role: (dark, light), each as Rich writes a style
COLOURED = {
    "": ("", ""),
    "title": ("bold", "bold"),
    "section": ("bold #8fb8ff", "bold #2456b8"),
    "head": ("bold #aab4c4", "bold #4a5260"),
    "label": ("#aab4c4", "#4a5260"),
    "value": ("bold", "bold"),
    "dim": ("#7b8494", "#737a86"),
    "name": ("bold", "bold"),
    "good": ("#4fb477", "#1c7c43"),
    "warn": ("#e5b34a", "#8a5c00"),
    "bad": ("bold #ff6b6f", "bold #b3261e"),
    "busy": ("#4fb477", "#1c7c43"),
    "wait": ("#e0575b", "#b3261e"),
    "pace": ("#5b8def", "#2456b8"),
    "queue": ("#b678dd", "#7b3fa5"),
    "memory": ("#b678dd", "#7b3fa5"),
    "cpu": ("#46b8c4", "#0f7480"),
    "cursor": ("bold #ffd866", "bold #8a5c00"),
    "command": ("#ffd866", "#6a4a00"),
    "key": ("bold #8fb8ff", "bold #2456b8"),
    **{f"span.{name}": colours for name, colours in SPANS.items()},
}
PLAIN = {
    "title": "bold", "section": "bold", "head": "bold", "value": "bold", "name": "bold", "bad": "bold", "warn": "bold",
    "cursor": "reverse", "key": "bold", "dim": "dim",
}  # fmt: skip
OTHER = ("#7b8494", "#737a86")  # of a span that a newer gputune has a word for


class Ground(NamedTuple):
    """The page itself: text, background, background of the line that is marked, of the foot."""

    text: str
    page: str
    marked: str
    foot: str


DARK = Ground("#d8dee9", "#12151b", "#263450", "#1d222c")
LIGHT = Ground("#20242c", "#fbfbf9", "#d5e2fb", "#e9e9e4")


class Roles:
    """Styles of one theme. `colour` false: attributes only, and the terminal's own colours."""

    def __init__(self, *, dark: bool = True, colour: bool = True) -> None:
        self.dark = dark
        self.colour = colour
        ground = DARK if dark else LIGHT
        self._page = Style(color=ground.text, bgcolor=ground.page) if colour else Style()
        self._marked = Style(bgcolor=ground.marked, bold=True) if colour else Style(reverse=True)
        self._foot = Style(bgcolor=ground.foot) if colour else Style(reverse=True)
        self.style = lru_cache(512)(self._style)

    def _style(self, role: str, *, marked: bool = False, foot: bool = False) -> Style:
        """Return how a span with this role looks."""
        written = COLOURED.get(role, OTHER)[0 if self.dark else 1] if self.colour else PLAIN.get(role, "")
        style = self._page + (Style.parse(written) if written else Style())
        return style + (self._marked if marked else self._foot if foot else Style())
