"""What lies in a folder that is no run of its own, and how it is shown: a file a kind, found by its folder.

A renderer is `gputune/html/renderers/NAME.py` with

    def read(folder: Path) -> Kind | None         what lies there, None where it is nothing of this kind
    def words(found: Kind) -> str                 for a terminal
    def document(found: Kind) -> bytes            for `--json`
    def page(folder: Path, found: Kind) -> bytes  for `--html`; without it the words stand on a page
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from gputune.core import plugins
from gputune.html import engine


class Other(NamedTuple):
    """What is to be said of it, its document, and what makes its page."""

    words: str
    document: bytes
    page: Callable[[], bytes]


def read(folder: Path) -> Other | None:
    """Return what is said of a folder that is no run; None where it is nothing of ours."""
    for name in plugins.names(__name__):
        kind = plugins.load(__name__, name)
        found = kind.read(folder)
        if found is not None:
            return Other(kind.words(found), kind.document(found), partial(_page, kind, folder, found))
    return None


def _page(kind: ModuleType, folder: Path, found: Any) -> bytes:
    if hasattr(kind, "page"):
        made: bytes = kind.page(folder, found)
        return made
    what = plugins.identity(kind.__name__.rpartition(".")[2])
    return engine.render("words.html", {"title": folder.name, "what": what, "words": kind.words(found)})
