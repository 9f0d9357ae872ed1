"""What can be shown, and what stands on any screen: the page before anything is known, and the foot of keys.

A page is `tui/pages/NAME.py` with `PAGE`, a `PageKind`: what draws it, its keys, and which letter opens it from which
other page. It is found by its folder; files that begin with `_` are parts of pages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gputune.core import plugins
from gputune.core.hygiene import clean
from gputune.tui.lines import Canvas, Line, Lines, Page, line

if TYPE_CHECKING:  # the first page is drawn before what they need is imported
    from gputune.feeds.rows import Node, RunRow
    from gputune.tui.store import Store

ROOM = "gputune.tui.pages"
Key: TypeAlias = tuple[str, str, str]  # what is pressed, what it does, the action
HelpRow: TypeAlias = tuple[str, str]  # a key and what it does; with nothing behind it the title of a section
TIME: Key = ("←→", "time", "time(-1)")


class PageView(NamedTuple):
    """What is shown: `kind` is the name of a page, `target` the node or run that it is of."""

    kind: str
    target: str = ""
    detail: str = ""  # of a finding: its id; of a signal: the process on the node that is the target


class Shown(NamedTuple):
    """Which nodes were asked for: the order, whether it is turned, groups, and the words that a node must match."""

    by: str = "name"
    turned: bool = False
    group: str = ""
    text: str = ""


class Listing(NamedTuple):
    """Which processes were asked for: the order (none: by role and use), turned or not, the filter, and as a tree."""

    by: str = ""
    turned: bool = False
    text: str = ""
    tree: bool = False


class Scene(NamedTuple):
    """What a page is drawn of: what is looked at, the room for it, what is known, and what its keys have set."""

    view: PageView
    look: Canvas
    store: "Store"
    node: "Node | None" = None  # that the target names, or that the run is on
    run: "RunRow | None" = None  # that the target names
    cursor: float | None = None  # s at which series are read, of a run since its start, of a machine Unix time
    window: bool = False  # of a run's last minute
    span: int = 0  # of a machine's past
    whole: bool = False  # all its curves, on a small screen too
    shown: Shown = Shown()
    listing: Listing = Listing()
    signals: bool = False  # may be sent


class PageKind(NamedTuple):
    """How a page comes to the screen. One `of` a node or a run that is not there is not drawn, and says so."""

    draw: Callable[[Scene], Page]
    of: str = ""  # what its target names: "node", "run"
    keys: Sequence[Key] = ()  # its own, for the foot
    help: Sequence[HelpRow] = ()  # what is said of it on the page of keys
    below: str = ""  # the page of the same target from which `letter` opens it
    letter: str = ""
    says: str = ""  # what that letter opens, a word for the foot
    timed: bool = False  # of a run: the arrows move its cursor in time
    filtered: bool = False  # `/` asks for words
    place: int = 9  # among the others on the page of keys


@cache
def pages() -> Mapping[str, PageKind]:
    """Return every page by its name."""
    found: dict[str, PageKind] = {name: plugins.load(ROOM, name).PAGE for name in plugins.names(ROOM)}
    return dict(sorted(found.items(), key=lambda item: (item[1].place, item[0])))


def opened_by(letter: str, kind: str) -> str:
    """Return the page that a letter opens from this one; "" none."""
    return next((name for name, page in pages().items() if page.letter == letter and page.below == kind), "")


def looking() -> Lines:
    """Return the page before anything is known."""
    return Lines((line((" looking …", "dim")),), ())


def gone(what: str, name: str) -> Lines:
    """Return the page of what is not there."""
    return Lines((line((f" {what} {clean(name, 80)} is not there (yet, or any more)", "dim")),), ())


def keys_of(kind: str, *, deep: bool = False, plain: bool = False) -> Sequence[Key]:
    """Return the keys of a screen, those first that must be seen; of none (""), what any has.

    `deep`: there is a view to go back to.
    """
    back: tuple[Key, ...] = (("Esc", "back", "out"),) if deep else ()
    found: tuple[Key, ...] = (
        ("q", "leave", "quit"), ("?", "keys", "keys"), *back, ("Enter", "open", "open"), ("Tab", "next", "next(1)"),
        *(_own_keys(kind) if kind else ()), ("t", "theme", "turn_theme"), ("^p", "commands", "command_palette"),
    )  # fmt: skip
    return [("<->", *key[1:]) if plain and key == TIME else key for key in found]


def _own_keys(kind: str) -> Iterator[Key]:
    for page in pages().values():
        if page.below == kind:
            yield page.letter, page.says, f"letter('{page.letter}')"
    yield from pages()[kind].keys


def foot_line(keys: Sequence[Key], width: int) -> Line:
    """Return the foot: as many keys as there is room for."""
    spans: list[tuple[str, str]] = []
    taken = 1
    for key, says, _ in keys:
        size = len(key) + len(says) + 3
        if taken + size > width:
            break
        spans += [(f" {key}", "key"), (f" {says} ", "label")]
        taken += size
    return Line(tuple(spans))
