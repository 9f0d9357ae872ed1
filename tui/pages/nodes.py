"""All nodes, one line each: how busy their devices are, what holds them up, and whether they answer."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from gputune.core.finding import SEVERE
from gputune.feeds.rows import Node
from gputune.tui import words
from gputune.tui.drawing import heat, spark
from gputune.tui.lines import Canvas, Line, Span, column_at, fit, line
from gputune.tui.store import Store, group_of, ordered
from gputune.tui.views import PageKind, Scene, Shown

MARKS = {
    "local": ("●", "good"),
    "up": ("●", "good"),
    "recorded": ("○", "dim"),
    "waiting": ("◌", "dim"),
    "late": ("◐", "warn"),
    "down": ("✗", "bad"),
    "refused": ("✗", "bad"),
    "foreign": ("✗", "bad"),
}
PLAIN_MARKS = {"local": "+", "up": "+", "recorded": "o", "waiting": "?", "late": "~"}  # others x
FINE = frozenset({"local", "up", "recorded"})
IDLE, BUSY = 0.5, 0.8  # of a device: below the first it is worth a look, from the second on it is well used
FULL_MEMORY = 0.95  # of memory


class NodeColumn(NamedTuple):
    """One column: its title, width (at the least), what it sorts by, from which width of the screen on it is shown."""

    id: str
    title: str
    width: int
    order: str = ""
    least: int = 0
    align: str = ">"


COLUMNS = (
    NodeColumn("name", "NODE", 14, "name", align="<"),
    NodeColumn("devices", "DEVICES", 8, "busy", align="<"),
    NodeColumn("busy", "BUSY", 5, "busy"),
    NodeColumn("trail", "LAST MINUTES", 16, "busy", 104, "<"),
    NodeColumn("memory", "MEM", 5, "memory"),
    NodeColumn("power", "POWER", 6, "power"),
    NodeColumn("cpu", "CPU", 5, "", 116),
    NodeColumn("wait", "WAIT", 5, "wait"),
    NodeColumn("pace", "SMP/S", 6, "pace"),
    NodeColumn("finding", "FINDING", 10, "finding", align="<"),
)
WIDENED = ("finding", "name", "trail", "devices")  # who gets room that is left, in turn


class NodesPage:
    """The page of all nodes. Lines are made as they are shown: of a thousand nodes a screen has room for forty."""

    def __init__(self, store: Store, shown: Shown, look: Canvas) -> None:
        self._store = store
        self._look = look
        self._made: dict[int, Line] = {}
        self.columns = widths(look.width, most_devices(store))
        nodes = ordered(store.nodes.values(), shown.by, turned=shown.turned, group=shown.group, text=shown.text)
        self._rows: list[Node | str] = list(_grouped(nodes, shown.group))
        self._groups = {group_of(node, shown.group): 0 for node in nodes} if shown.group else {}
        for node in nodes if shown.group else ():
            self._groups[group_of(node, shown.group)] += 1
        self._places = {row.name: at for at, row in enumerate(self._rows) if isinstance(row, Node)}
        self.head = (summary(nodes, len(store.nodes), shown, look), heading(self.columns, shown, look))

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int) -> Line:
        """Return the line of a node, or of a group."""
        made = self._made.get(index)
        if made is None:
            made = self._made[index] = self._line(index)
        return made

    def _line(self, index: int) -> Line:
        row = self._rows[index]
        if isinstance(row, str):
            count = self._groups[row]
            return line((fit(f"{row or '(none)'} · {count}", self._look.width), "section"))
        return node_line(row, list(self._store.trails.get(row.name, ())), self.columns, self._look)

    def key(self, index: int) -> str:
        """Return the node's key."""
        row = self._rows[index]
        return "" if isinstance(row, str) else f"node:{row.name}"

    def find(self, key: str) -> int:
        """Return where that node stands."""
        return self._places.get(key.removeprefix("node:"), -1)


def _grouped(nodes: Sequence[Node], group: str) -> list[Node | str]:
    rows: list[Node | str] = []
    last: str | None = None
    for node in nodes:
        if group and group_of(node, group) != last:
            last = group_of(node, group)
            rows.append(last)
        rows.append(node)
    return rows


def most_devices(store: Store) -> int:
    """Return the largest number of devices of any node."""
    return max((len(node.devices) for node in store.nodes.values()), default=0)


def widths(width: int, devices: int) -> list[NodeColumn]:
    """Return the columns that a screen of `width` cells has room for, made as wide as it allows."""
    shown = {column.id: column for column in COLUMNS if width >= column.least}
    left = width - 2 - sum(column.width + 1 for column in shown.values())
    limits = {"finding": 24, "name": 28, "trail": 60, "devices": min(16, max(8, devices))}
    for name in WIDENED:
        if name in shown and left > 0:
            more = min(left, max(0, limits[name] - shown[name].width))
            shown[name] = shown[name]._replace(width=shown[name].width + more)
            left -= more
    if left > 0:
        shown["finding"] = shown["finding"]._replace(width=shown["finding"].width + left)
    return list(shown.values())


def summary(nodes: Sequence[Node], every: int, shown: Shown, look: Canvas) -> Line:
    """Return what all nodes that are shown come to together."""
    devices = sum(len(node.devices) for node in nodes)
    busy = [value for node in nodes for d in node.devices if (value := words.known(d.busy)) is not None]
    power = [value for node in nodes if (value := words.known(node.power)) is not None]
    away = sum(node.link not in FINE for node in nodes)
    facts = [f"{len(nodes):,} of {every:,} nodes" if len(nodes) != every else _counted(every, "node")]
    facts += [_counted(devices, "device")]
    facts += [f"{words.percent(sum(busy) / len(busy))} busy"] if busy else []
    facts += [words.watts(sum(power))] if power else []
    told = " · ".join(facts)
    rest = f" · {away:,} not reached" if away else ""
    asked = f" · by {shown.by}{', reversed' if shown.turned else ''}" + (f" · /{shown.text}" if shown.text else "")
    room = max(0, look.width - len(told) - len(rest) - 1)
    return line((" " + told, "title"), (rest, "bad"), (fit(asked, room), "dim"))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def heading(columns: Sequence[NodeColumn], shown: Shown, look: Canvas) -> Line:
    """Return the titles; the one that it is sorted by is marked."""
    spans: list[Span] = [("  ", "head")]
    for column in columns:
        mine = column.id == shown.by
        mark = (("v" if look.plain else "▾") if not shown.turned else ("^" if look.plain else "▴")) if mine else ""
        spans.append((fit(column.title[: column.width - len(mark)] + mark, column.width, column.align) + " ", "head"))
    return Line(tuple(spans))


def order_at(columns: Sequence[NodeColumn], x: int) -> str:
    """Return what the title at column `x` of the screen sorts by, empty for nothing."""
    column = column_at(columns, x, begin=2)
    return column.order if column is not None else ""


def node_line(node: Node, trail: Sequence[float | None], columns: Sequence[NodeColumn], look: Canvas) -> Line:
    """Return one node. What is wrong with its link stands where else its figures would be."""
    mark, role = MARKS[node.link]
    if look.plain:
        mark = PLAIN_MARKS.get(node.link, "x")
    spans: list[Span] = [(mark + " ", role)]
    broken = node.link not in FINE and node.link != "late"
    for column in columns:
        if broken and column.id != "name":
            room = max(10, look.width - columns[0].width - 4)
            spans.append((fit(f"{node.link}: {node.why}" if node.why else node.link, room), role))
            break
        text, role_ = CELLS[column.id](node, trail, column, look)
        spans.append((text + " ", "dim" if node.link == "late" and column.id != "name" else role_))
    return Line(tuple(spans), f"node:{node.name}")


Cell = Callable[[Node, Sequence[float | None], NodeColumn, Canvas], Span]


def _name(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    return fit(node.name, column.width), "name"


def _devices(node: Node, _trail: Sequence[float | None], column: NodeColumn, look: Canvas) -> Span:
    return heat([device.busy for device in node.devices], column.width, plain=look.plain), "busy"


def _busy(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    return words.percent(node.busy).rjust(column.width), tone(node.busy)


def _trail(_node: Node, trail: Sequence[float | None], column: NodeColumn, look: Canvas) -> Span:
    return spark(trail, column.width, plain=look.plain), "busy"


def _memory(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    return words.percent(node.filled).rjust(column.width), "warn" if (
        words.known(node.filled) or 0
    ) >= FULL_MEMORY else ""


def _power(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    held = any(device.held for device in node.devices)
    return words.watts(node.power).rjust(column.width), "warn" if held else ""


def _cpu(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    used, of = words.known(node.cpu), words.known(node.cpus)
    return words.percent(used / of if used is not None and of else None).rjust(column.width), ""


def _wait(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    # From 0.1 of the loop on advisors speak of its waiting
    role = "bad" if (words.known(node.wait) or 0) >= 0.1 else ""
    return words.percent(node.wait).rjust(column.width), role


def _pace(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    return words.pace(node.rate).rjust(column.width), ""


def _finding(node: Node, _trail: Sequence[float | None], column: NodeColumn, _look: Canvas) -> Span:
    if not node.finding:
        return " " * column.width, ""
    gain = words.times(node.gain) if (words.known(node.gain) or 0) > 1 else ""
    text = f"{gain} {node.finding}".strip()
    return fit(text, column.width), "bad" if (words.known(node.gain) or 0) >= SEVERE else "warn"


def tone(busy: float | None) -> str:
    """Return the role of a device's busy share."""
    share = words.known(busy)
    if share is None:
        return "dim"
    return "good" if share >= BUSY else "" if share >= IDLE else "warn"


CELLS: dict[str, Cell] = {
    "name": _name,
    "devices": _devices,
    "busy": _busy,
    "trail": _trail,
    "memory": _memory,
    "power": _power,
    "cpu": _cpu,
    "wait": _wait,
    "pace": _pace,
    "finding": _finding,
}


@lru_cache(maxsize=1)
def _sorted_once(store: Store, _version: int, shown: Shown, look: Canvas) -> NodesPage:
    """Return the page, the same for all keys that are pressed between two updates."""
    return NodesPage(store, shown, look)


def _draw(scene: Scene) -> NodesPage:
    return _sorted_once(scene.store, scene.store.version, scene.shown, scene.look)


PAGE = PageKind(
    _draw,
    keys=(("/", "filter", "filter"), ("g", "group", "group"), ("nbmpwsfl", "sort", "keys")),
    help=(
        ("nodes", ""),
        ("n b m p w s f l", "sort by name, busy, memory, power, wait, samples/s, finding, link; again: reverse"),
        ("g", "group by rack, by job, not at all"),
        ("/", "only nodes with these words in name, rack, job, device, finding or link"),
    ),
    filtered=True,
    place=0,
)
