"""The page of `?`: every key, and how the signs are to be read."""

from gputune.tui.lines import EMPTY, Canvas, Lines, fit, line, paragraph, titled

KEYS = (
    ("everywhere", ""),
    ("Enter", "open what is marked (a node, a run, a finding); copy a command"),
    ("Esc, Backspace", "back; clear the filter"),
    ("Tab, Shift+Tab", "next, previous screen: nodes, node, processes, run, share, finding"),
    ("arrows, j k, PgUp PgDn, Home End", "move; also with the mouse: click, wheel"),
    ("t", "light or dark"),
    ("Ctrl+P", "commands by name"),
    ("q, Ctrl+C", "leave; what is watched goes on"),
    ("nodes", ""),
    ("n b m p w s f l", "sort by name, busy, memory, power, wait, samples/s, finding, link; again: reverse"),
    ("g", "group by rack, by job, not at all"),
    ("/", "only nodes with these words in name, rack, job, device, finding or link"),
    ("node", ""),
    ("p", "its processes"),
    ("left, right", "read its curves off at an earlier moment; with Shift ten times as far; 0 the present"),
    ("w", "the last five minutes, two hours, day"),
    ("h", "all curves, also on a small screen"),
    ("processes", ""),
    (
        "i u d b x c m a r n",
        "sort by pid, user, device, busy, device memory, CPU, memory, age, run, command; again: reverse",
    ),
    ("v", "as a tree, below their parents"),
    ("/", "only processes with these words in user, command, run, role or pid"),
    ("Enter", "the run that it belongs to"),
    ("node, share, processes", ""),
    ("Enter on a process", "signals to it: of a run on this machine, and with --allow-signals only"),
    ("run", ""),
    ("left, right", "look back and forth in time; with Shift ten times as far"),
    ("0", "the present again"),
    ("w", "of the whole run, or of its last minute"),
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
    for key, says in KEYS:
        if not says:
            found += [EMPTY, titled(f" {key.upper()}", look.width)]
            continue
        room = max(10, look.width - 36)
        first, *rest = paragraph(says, room)
        found.append(line((f"  {fit(key, 32)}  ", "key"), *first.spans))
        found += [line((" " * 36, ""), *more.spans) for more in rest]
    found += [EMPTY, titled(" SIGNS", look.width), *paragraph(SIGNS, look.width - 2, "", "  ")]
    return Lines((line((" keys", "title")),), found)
