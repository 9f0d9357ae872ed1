"""One node: its devices, its CPUs, what it waits for, disks and network, its runs, and its processes by role."""

import shlex
from collections.abc import Sequence

from rich.cells import cell_len

from gputune.core.hygiene import clean
from gputune.feeds.rows import DeviceRow, Node, RunRow, TaskRow
from gputune.tui import words
from gputune.tui.drawing import bar, heat
from gputune.tui.lines import EMPTY, Canvas, Line, Lines, Span, fit, harmless, line, paragraph, titled
from gputune.tui.pages._past import past_lines
from gputune.tui.pages.nodes import FINE, FULL_MEMORY, tone
from gputune.tui.pages.processes import KeyOf, cards_of, ranks_of, short_list, task_key
from gputune.tui.views import TIME, PageKind, Scene

TASKS = 200  # rows of processes: 8 ranks with 16 workers each have 144
DEVICE = 59  # cells of a device's line beside its name and its bar
BETWEEN = " · "  # two of the things that share a line
SIGNALS = "Enter: signals "
ALL = "p: all of them, sorted, filtered, as a tree "


def no_key(_node: Node, _task: TaskRow) -> str:
    """Return what Enter opens on a process where nothing can be done to it."""
    return ""


def node_page(
    node: Node, runs: Sequence[RunRow], look: Canvas, key: KeyOf = no_key, curves: Sequence[Line] = ()
) -> Lines:
    """Return the page of a node. `key`: what Enter opens on the line of a process; `curves`: how the machine went."""
    width = look.width
    lines: list[Line] = []
    if node.link not in FINE:
        lines += [*paragraph(f"{node.link}: {node.why or 'no answer'}", width, "bad"), EMPTY]
    lines += [*devices(node, look), EMPTY, *([*curves, EMPTY] if curves else []), *host(node, look), EMPTY]
    if runs:
        lines += [*run_lines(node, runs, look), EMPTY]
    lines += short_list(node, look, key, TASKS, SIGNALS if key is not no_key else ALL)
    if node.unavailable:
        lines += [EMPTY, titled(" NOT MEASURED", width)]
        for probe, why in sorted(node.unavailable.items()):
            lines += paragraph(f"{probe}: {why}", width - 2, "dim", "  ")
    return Lines((head(node, look),), lines)


def head(node: Node, look: Canvas) -> Line:
    """Return what the node comes to, in one line."""
    facts = [node.name, f"{len(node.devices)} device{'' if len(node.devices) == 1 else 's'}"]
    facts += [f"{words.percent(node.busy)} busy"] if words.known(node.busy) is not None else []
    facts += [words.watts(node.power)] if words.known(node.power) is not None else []
    facts += [f"{words.pace(node.rate)} samples/s"] if words.known(node.rate) is not None else []
    facts += [f"rack {node.rack}"] if node.rack else []
    facts += [f"job {node.job}"] if node.job else []
    return line((fit(" " + " · ".join(facts), look.width), "title"))


def devices(node: Node, look: Canvas) -> list[Line]:
    """Return a line a device; one that nothing is known of says so."""
    if not node.devices:
        return [titled(" DEVICES", look.width), line(("  none can be read", "dim"))]
    room = look.width - DEVICE
    name = max(0, min(26, room - 8))
    wide = max(6, min(24, room - name)) if name else 8
    named = f" {'':3} {fit('DEVICE', name)}{' ' if name else ''}"
    title = f"{named}{fit('BUSY', wide)}      {fit('MEMORY', 21)}  POWER     TEMP  CLOCK"
    return [line((fit(title, look.width), "section")), *(device_line(d, name, wide, look) for d in node.devices)]


def device_line(device: DeviceRow, name: int, wide: int, look: Canvas) -> Line:
    """Return one device."""
    used, total = words.known(device.memory_used), words.known(device.memory_total)
    filled = used / total if used is not None and total else None
    hot = (words.known(device.temperature) or 0) >= 85.0  # °C of a die: from there on products slow themselves down
    power = f"{words.watts(device.power)}/{words.watts(device.power_limit)}"
    spans: list[Span] = [
        (fit(device.index, 4, ">") + " ", "label"),
        (fit(device.name, name) + " " if name else "", "name"),
        (bar(device.busy, wide, plain=look.plain), "busy"),
        (words.percent(device.busy).rjust(5) + " ", tone(device.busy)),
        (bar(filled, 6, plain=look.plain), "memory"),
        (fit(f" {words.size(used)}/{words.size(total)}", 15), "warn" if (filled or 0) >= FULL_MEMORY else ""),
        (fit(power, 10, ">") + " ", "warn" if device.held else ""),
        (fit(words.degrees(device.temperature), 6, ">") + " ", "bad" if hot else ""),
        (fit(words.hertz(device.clock), 8, ">"), ""),
    ]
    if device.held:
        spans.append((fit(f" held by {device.held}", max(0, look.width - 47 - wide - name)), "warn"))
    return line(*spans)


def host(node: Node, look: Canvas) -> list[Line]:
    """Return the CPUs one by one, memory, what tasks wait for, disks and network."""
    used, of = words.known(node.cpu), words.known(node.cpus)
    share = used / of if used is not None and of else None
    said = f"{words.cores(used)} of {words.cores(of)} in use"
    found = [
        titled(" HOST", look.width),
        line(
            ("  cpus    ", "label"),
            (bar(share, 16, plain=look.plain), "cpu"),
            (f" {said}", "warn" if (share or 0) >= 0.9 else ""),  # of the CPUs
            (f" · {words.percent(node.iowait)} idle for storage", "dim"),
        ),
    ]
    room = look.width - 10
    for first in range(0, min(len(node.cores), 4 * room), room):
        part = node.cores[first : first + room]
        found.append(
            line(("  cores   " if not first else " " * 10, "label"), (heat(part, len(part), plain=look.plain), "cpu"))
        )
    found += [_memory(node, look), _pressure(node)]
    found += _traffic(node, look)
    return found


def _memory(node: Node, look: Canvas) -> Line:
    used, total = words.known(node.memory_used), words.known(node.memory_total)
    share = used / total if used is not None and total else None
    shm = f" · /dev/shm {words.size(node.shm_free)} free of {words.size(node.shm_total)}" if node.shm_total else ""
    return line(
        ("  memory  ", "label"),
        (bar(share, 16, plain=look.plain), "memory"),
        (f" {words.size(used)} of {words.size(total)}", "warn" if (share or 0) >= FULL_MEMORY else ""),
        (shm, "dim"),
    )


def _pressure(node: Node) -> Line:
    spans: list[Span] = [("  waiting ", "label")]
    for name, share in (("CPU", node.pressure.cpu), ("storage", node.pressure.io), ("memory", node.pressure.memory)):
        stalled = (words.known(share) or 0) >= 0.1  # share of the time in which something waits: worth a colour
        spans.append((f"for {name} {words.percent(share)}   ", "warn" if stalled else ""))
    return line(*spans)


def _traffic(node: Node, look: Canvas) -> list[Line]:
    """Return disks and networks, each whole, in as many lines as they need."""
    parts = [
        *(
            f"{d.name} {words.flow(d.read)} read {words.flow(d.written)} written {words.percent(d.busy)} busy"
            for d in node.disks
        ),
        *(f"{n.name} {words.flow(n.received)} in {words.flow(n.sent)} out" for n in node.nets),
    ]
    room = max(10, look.width - 10)
    rows: list[str] = []
    for part in map(harmless, parts):
        text = fit(part, min(room, max(1, cell_len(part))))
        if rows and cell_len(rows[-1]) + len(BETWEEN) + cell_len(text) <= room:
            rows[-1] += BETWEEN + text
        else:
            rows.append(text)
    return [line(("  traffic " if not at else " " * 10, "label"), (text, "")) for at, text in enumerate(rows)]


def run_lines(node: Node, runs: Sequence[RunRow], look: Canvas) -> list[Line]:
    """Return the runs: two lines each, what it is and how it goes, and where it lies."""
    name = 14 if look.width < 120 else 24  # columns below which names are cut
    title = f" RUNS  KIND  {fit('NAME', name)}     PID CARDS RANKS     TIME   SMP/S  FINDING"
    lines = [line((fit(title, look.width), "section"))]
    for run in runs:
        lines += [run_line(node, run, look, name), line((fit(f"       {_where(run)}", look.width), "dim"))]
    return lines


def _where(run: RunRow) -> str:
    """Return the folder of a run, and what was typed."""
    return " · ".join(filter(None, (run.folder, clean(shlex.join(run.command), 300))))


def run_line(node: Node | None, run: RunRow, look: Canvas, name: int = 14) -> Line:
    """Return one run: whether it lives, what it is, its processes and devices, how it goes, and the best finding."""
    verdict = run.recent or run.verdict
    rate = run.present.rate if run.present is not None else verdict.samples_per_s if verdict is not None else None
    best = run.verdict.findings[0] if run.verdict and run.verdict.findings else None
    role = "good" if run.state == "live" else "bad" if run.state == "broken" else "dim"
    known = {p.pid: p.rank for p in (run.verdict.processes if run.verdict else ()) if p.seen}
    cards = ",".join(cards_of(node, run.id)) or (
        f"{verdict.device.count}×" if verdict and verdict.device.count else "–"
    )
    spans: list[Span] = [
        (fit(f" {run.state}", 7), role),
        (fit("share" if run.procs else "watch", 6), ""),
        (fit(run.name, name) + " ", "name"),
        (fit(str(run.pid) if run.pid else "–", 7, ">") + " ", "dim"),
        (fit(cards, 5, ">") + " ", ""),
        (fit(str(len(run.procs) or ranks_of(node, run.id, known) or "–"), 5, ">") + " ", ""),
        (fit(words.clock(run.length), 8, ">") + " ", ""),
        (fit(words.pace(rate), 7, ">") + "  ", ""),
    ]
    room = max(8, look.width - name - 52)
    error = run.verdict.error if run.verdict is not None else None
    if run.exit_code:
        said = f"{words.ending(run.exit_code)}: {error.what}" if error is not None else words.ending(run.exit_code)
        spans.append((fit(said, room), "bad"))
    elif best is not None:
        gain = f"{words.times(best.speedup.likely)} " if best.speedup.likely > 1 else ""
        spans.append((fit(f"{gain}{best.id}", room), "warn"))
    elif run.verdict is not None and run.verdict.abstained:
        spans.append((fit(run.verdict.abstained, room), "dim"))
    elif run.verdict is not None:
        spans.append((fit("nothing found", room), "dim"))
    else:
        spans.append((fit(run.why or "no verdict yet", room), "dim"))
    return line(*spans, key=f"run:{run.id}")


def _draw(scene: Scene) -> Lines:
    node = scene.node
    assert node is not None  # noqa: S101 - `of` says so
    return node_page(
        node, scene.store.runs_of(node), scene.look, task_key if scene.signals else no_key, _curves(scene, node)
    )


def _curves(scene: Scene, node: Node) -> Sequence[Line]:
    """Return how a machine went; nothing of one whose feed tells no such thing, as a recording."""
    past = scene.store.past
    if node.link == "recorded":
        return ()
    known = past if past is not None and past.node == node.name and past.span == scene.span else None
    return past_lines(known, scene.look, span=scene.span, cursor=scene.cursor, whole=scene.whole)


PAGE = PageKind(
    _draw,
    of="node",
    keys=(("w", "longer", "letter('w')"), ("h", "curves", "letter('h')"), TIME),
    help=(
        ("node", ""),
        ("p", "its processes"),
        ("left, right", "read its curves off at an earlier moment; with Shift ten times as far; 0 the present"),
        ("w", "the last five minutes, two hours, day"),
        ("h", "all curves, also on a small screen"),
    ),
    place=1,
)
