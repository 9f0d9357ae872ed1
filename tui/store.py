"""The rows that are known now, and what the screen remembers of them: which way a node went, its order among others."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from gputune.feeds.rows import Node, Past, RunRow, Update

TRAIL = 128  # points of a node's past that are kept: two minutes, more than a line has room for
Order: TypeAlias = Callable[[Node], float | str | None]

LINKS = {"refused": 6, "foreign": 5, "down": 4, "late": 3, "waiting": 2, "recorded": 1}  # what needs a look first
ORDERS: Mapping[str, Order] = {
    "name": lambda node: node.name,
    "busy": lambda node: node.busy,
    "memory": lambda node: node.filled,
    "power": lambda node: node.power,
    "wait": lambda node: node.wait,
    "pace": lambda node: node.rate,
    "finding": lambda node: node.gain,
    "link": lambda node: LINKS.get(node.link, 0),
}
RISING = frozenset({"name"})  # columns that are read from their least on; of the others the most comes first
GROUPS = ("", "rack", "job")


class Store:
    """What the feed has told so far. `version` grows with every update."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.runs: dict[str, RunRow] = {}
        self.trails: dict[str, deque[float | None]] = {}  # busy share of a node's devices, one point an update
        self.note = ""
        self.past: Past | None = None  # of the machine that is looked at
        self.version = 0

    def take(self, update: Update) -> None:
        """Take what is new."""
        for node in update.nodes:
            self.nodes[node.name] = node
            trail = self.trails.get(node.name)
            if trail is None:
                trail = self.trails[node.name] = deque(maxlen=TRAIL)
            trail.append(node.busy)
        for name in update.gone:
            self.nodes.pop(name, None)
            self.trails.pop(name, None)
        for run in update.runs:
            self.runs[run.id] = run
        for name in update.runs_gone:
            self.runs.pop(name, None)
        self.note = update.note
        self.past = update.past
        self.version += 1

    def runs_of(self, node: Node) -> list[RunRow]:
        """Return a node's runs, live ones first, the latest before the earlier."""
        found = [self.runs[name] for name in node.runs if name in self.runs]
        return sorted(found, key=lambda run: (run.state != "live", -run.started, run.id))


def ordered(
    nodes: Iterable[Node], by: str = "name", *, turned: bool = False, group: str = "", text: str = ""
) -> list[Node]:
    """Return the nodes that match `text`, sorted by a column; what is not known comes last, equals by their name.

    With `group` (`rack`, `job`) those of one group stand together, groups by name.
    """
    found = [node for node in nodes if matches(node, text)] if text else list(nodes)
    key = ORDERS[by]
    falling = (by not in RISING) != turned
    found.sort(key=lambda node: node.name)
    known = [(value, node) for node in found if (value := key(node)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=falling)
    rest = [node for node in found if key(node) is None] if len(known) < len(found) else []
    found = [node for _, node in known] + rest
    if group:
        found.sort(key=lambda node: group_of(node, group))
    return found


def group_of(node: Node, group: str) -> str:
    """Return the name of a node's group, empty where it is in none."""
    return node.rack if group == "rack" else node.job if group == "job" else ""


def matches(node: Node, text: str) -> bool:
    """Return whether every word of `text` is in one of the node's names: its own, rack, job, devices, finding, link."""
    names = {node.name, node.rack, node.job, node.finding, node.link, *(device.name for device in node.devices)}
    said = "\n".join(names).casefold()
    return all(word in said for word in text.casefold().split())
