"""What the screen is made of: lines of spans, each text with what it means. How that looks is decided in `roles`."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import wrap
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from rich.cells import cell_len, set_cell_size

from gputune.core.hygiene import clean, is_clean

STRING_CHARS = 400  # characters of one string


class Canvas(NamedTuple):
    """What a page has to fit into: cells, and whether only plain letters may be used."""

    width: int = 80
    height: int = 24
    plain: bool = False


class Line(NamedTuple):
    """One line: (text, role) after (text, role). `key` says what Enter opens, empty: the line cannot be chosen."""

    spans: tuple[tuple[str, str], ...] = ()
    key: str = ""

    @property
    def text(self) -> str:
        """Return the line without its roles."""
        return "".join(text for text, _ in self.spans)


Span: TypeAlias = tuple[str, str]
EMPTY = Line()


class Page(Protocol):
    """Lines of a screen: those of `head` stay where they are, the others scroll. Lines are made when they are shown."""

    @property
    def head(self) -> Sequence[Line]:
        """Return the lines that stay."""

    def __len__(self) -> int:
        """Return how many lines scroll."""

    def line(self, index: int) -> Line:
        """Return one of them."""

    def key(self, index: int) -> str:
        """Return what `line(index).key` is, without making the line."""

    def find(self, key: str) -> int:
        """Return the line with this key, -1 where there is none."""


class Wide(Protocol):
    """A column of a table: `width` is in cells, and one more is free behind it."""

    @property
    def width(self) -> int:
        """Return how many cells it takes."""


C = TypeVar("C", bound=Wide)


def column_at(columns: Sequence[C], x: int, begin: int = 0) -> C | None:
    """Return the column at cell `x`, where the first one begins at cell `begin`; None for none."""
    for column in columns:
        if begin <= x < begin + column.width + 1:
            return column
        begin += column.width + 1
    return None


class Lines:
    """A page whose lines are few, and made at once."""

    def __init__(self, head: Iterable[Line], lines: Iterable[Line]) -> None:
        self.head = tuple(head)
        self._lines = tuple(lines)
        self._places = {line.key: index for index, line in reversed(list(enumerate(self._lines))) if line.key}

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int) -> Line:
        """Return a line."""
        return self._lines[index]

    def key(self, index: int) -> str:
        """Return its key."""
        return self._lines[index].key

    def find(self, key: str) -> int:
        """Return the line with this key."""
        return self._places.get(key, -1)


def line(*spans: Span | str, key: str = "") -> Line:
    """Return a line of spans, made harmless; a bare string has no role."""
    pairs = ((span, "") if isinstance(span, str) else span for span in spans)
    return Line(tuple((harmless(text), role) for text, role in pairs), key)


def fit(text: str, width: int, align: str = "<") -> str:
    """Return `text`, made harmless, in exactly `width` cells: cut with an ellipsis, or filled up (`<` or `>`)."""
    return _fit(text if len(text) <= STRING_CHARS else clean(text, STRING_CHARS), width, align)


@lru_cache(8192)
def _fit(text: str, width: int, align: str) -> str:
    if width <= 0:
        return ""
    text = text if is_clean(text) else clean(text, STRING_CHARS)
    taken = len(text) if text.isascii() else cell_len(text)
    if taken > width:
        return set_cell_size(text, width - 1) + "…"
    return text + " " * (width - taken) if align == "<" else " " * (width - taken) + text


def harmless(text: str) -> str:
    """Return `text` fit to be shown: nothing that the terminal would take for a command is in it."""
    return text if is_clean(text) else clean(text, STRING_CHARS)


def paragraph(text: str, width: int, role: str = "", indent: str = "") -> list[Line]:
    """Return a text that is wrapped, its own line breaks kept."""
    found = []
    for part in text.splitlines() or [""]:
        room = max(8, width - len(indent))
        wrapped = wrap(clean(part, 4000), room, break_on_hyphens=False, drop_whitespace=True) or [""]
        found += [line((indent + each, role)) for each in wrapped]
    return found


def beside(left: Sequence[Line], right: Sequence[Line], width: int, gap: int = 2) -> list[Line]:
    """Return two blocks side by side; `width` are the cells of the left one."""
    found = []
    for k in range(max(len(left), len(right))):
        first = left[k] if k < len(left) else EMPTY
        taken = sum(cell_len(text) for text, _ in first.spans)
        second = right[k].spans if k < len(right) else ()
        key = first.key or (right[k].key if k < len(right) else "")
        found.append(Line((*first.spans, (" " * max(0, width - taken + gap), ""), *second), key))
    return found


def titled(title: str, width: int, note: str = "") -> Line:
    """Return the title of a section, a note at its right end."""
    return line((fit(title, max(1, width - len(note)), "<"), "section"), (note, "dim"))
