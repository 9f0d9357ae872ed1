"""What can be shown, and what stands on any screen: the page before anything is known, and the foot of keys."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from gputune.tui.lines import Line, Lines, line

Key: TypeAlias = tuple[str, str, str]  # what is pressed, what it does, the action


class PageView(NamedTuple):
    """What is shown: `kind` is nodes, node, processes, run, finding, share, signal or keys; `target` which of these."""

    kind: str
    target: str = ""
    detail: str = ""  # of a finding: its id; of a signal: the process on the node that is the target


def looking() -> Lines:
    """Return the page before anything is known."""
    return Lines((line((" looking …", "dim")),), ())


def keys_of(kind: str, *, deep: bool = False, plain: bool = False) -> Sequence[Key]:
    """Return the keys of a screen, those first that must be seen. `deep`: there is a view to go back to."""
    time: Key = ("←→" if not plain else "<->", "time", "time(-1)")
    own: dict[str, tuple[Key, ...]] = {
        "nodes": (("/", "filter", "filter"), ("g", "group", "group"), ("nbmpwsfl", "sort", "keys")),
        "node": (
            ("p", "processes", "letter('p')"),
            ("w", "longer", "letter('w')"),
            ("h", "curves", "letter('h')"),
            time,
        ),
        "processes": (("/", "filter", "filter"), ("v", "tree", "letter('v')"), ("iudbxcmarn", "sort", "keys")),
        "run": (time, ("w", "window", "letter('w')")),
        "share": (time,),
    }
    back: tuple[Key, ...] = (("Esc", "back", "out"),) if deep else ()
    return (
        ("q", "leave", "quit"), ("?", "keys", "keys"), *back, ("Enter", "open", "open"), ("Tab", "next", "next(1)"),
        *own.get(kind, ()), ("t", "theme", "turn_theme"), ("^p", "commands", "command_palette"),
    )  # fmt: skip


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
