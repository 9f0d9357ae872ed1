"""The page of `?`: every key, and how the signs are to be read."""

from gputune.tui.lines import EMPTY, Canvas, Lines, fit, line, paragraph, titled
from gputune.tui.views import PageKind, pages

EVERYWHERE = (
    ("everywhere", ""),
    ("Enter", "open what is marked (a node, a run, a finding); copy a command"),
    ("Esc, Backspace", "back; clear the filter"),
    ("Tab, Shift+Tab", "next, previous screen: nodes, node, processes, run, share, finding"),
    ("arrows, j k, PgUp PgDn, Home End", "move; also with the mouse: click, wheel"),
    ("t", "light or dark"),
    ("Ctrl+P", "commands by name"),
    ("q, Ctrl+C", "leave; what is watched goes on"),
)
SIGNS = (
    "DEVICES: one sign a device, by height; · idle, ? not measured. BUSY: share of the time with a kernel running, not "
    "how full the device was. WAIT: share of the training's time in which it waited for batches. STEP: a rank's own "
    "part of a step; OTHERS: what it spends with the other ranks after that. Σ is a sum over all processes of a kind. "
    "– is not measured, never 0."
)


def keys_page(look: Canvas) -> Lines:
    """Return the page."""
    found = []
    for key, says in (*EVERYWHERE, *(row for page in pages().values() for row in page.help)):
        if not says:
            found += [EMPTY, titled(f" {key.upper()}", look.width)]
            continue
        room = max(10, look.width - 36)
        first, *rest = paragraph(says, room)
        found.append(line((f"  {fit(key, 32)}  ", "key"), *first.spans))
        found += [line((" " * 36, ""), *more.spans) for more in rest]
    found += [EMPTY, titled(" SIGNS", look.width), *paragraph(SIGNS, look.width - 2, "", "  ")]
    return Lines((line((" keys", "title")),), found)


PAGE = PageKind(lambda scene: keys_page(scene.look))
