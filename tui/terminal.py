"""Whether there is a terminal to draw on: asked before anything is started, and before Textual is imported."""

import os
import sys

from gputune.core.errors import BadUsage


class NoTerminal(BadUsage):
    """There is nothing to draw on. `instead` is what can be typed in its place."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(f"there is no terminal for a screen: {why}", hint=instead)


def check(instead: str) -> None:
    """Raise NoTerminal where no screen can be drawn, or no key be read."""
    if not (_is_terminal(sys.stdout) and _is_terminal(sys.stderr)):  # Textual draws on the latter
        raise NoTerminal("the output goes elsewhere", instead)
    if not _is_terminal(sys.stdin):
        raise NoTerminal("keys cannot be read, the input comes from elsewhere", instead)
    if os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}:
        raise NoTerminal("`TERM` says that it can only write lines", instead)


def _is_terminal(stream: object) -> bool:
    """Return whether a stream is one; one that was closed, or was never there, is none."""
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:
        return False
