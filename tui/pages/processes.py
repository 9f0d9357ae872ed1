"""The processes of a node, a line each: whose, what was typed, what it does in a run, and uses; sorted, or a tree."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gputune.feeds.rows import Node, TaskRow
from gputune.tui import words
from gputune.tui.lines import Canvas, Line, Span, column_at, fit, line, titled
from gputune.tui.views import Listing, PageKind, Scene

ROLES = ("main", "worker", "other", "foreign")
NAMES = {"main": "training", "worker": "worker", "other": "helper", "foreign": ""}
MANY = {"main": "training", "worker": "workers", "other": "helpers", "foreign": "others"}
SUM, PLAIN_SUM = "Σ", "sum"

KeyOf: TypeAlias = Callable[[Node, TaskRow], str]
Cell: TypeAlias = Callable[[TaskRow], str]


class ProcessColumn(NamedTuple):
    """One column: the key that sorts by it, its title and width, from which width of the screen on it is shown."""

    key: str
    title: str
    width: int
    cell: Cell
    value: Callable[[TaskRow], object]
    least: int = 0
    align: str = ">"
    role: str = ""


def _rank(task: TaskRow) -> int:
    return ROLES.index(task.role) if task.role in ROLES else len(ROLES)


COLUMNS = (
    ProcessColumn("i", "PID", 7, lambda t: str(t.pid), lambda t: -t.pid, role="dim"),
    ProcessColumn("u", "USER", 8, lambda t: t.user, lambda t: t.user or None, align="<"),
    ProcessColumn("o", "ROLE", 8, lambda t: NAMES.get(t.role, t.role), lambda t: -_rank(t), 96, "<", "good"),
    ProcessColumn("k", "RANK", 4, lambda t: "" if t.rank is None else str(t.rank), lambda t: t.rank, 104),
    ProcessColumn("d", "DEVICE", 6, lambda t: t.device, lambda t: t.device or None, align="<"),
    ProcessColumn(
        "b", "BUSY", 4, lambda t: _on(t, words.percent(t.device_share)), lambda t: t.device_share, role="busy"
    ),
    ProcessColumn(
        "x", "DEVMEM", 6, lambda t: _on(t, words.size(t.device_memory)), lambda t: t.device_memory, role="memory"
    ),
    ProcessColumn("c", "CPU", 5, lambda t: words.percent(t.cpu), lambda t: t.cpu, role="cpu"),
    ProcessColumn("m", "MEM", 5, lambda t: words.size(t.memory), lambda t: t.memory, role="memory"),
    ProcessColumn("a", "AGE", 5, lambda t: words.lasted(t.age), lambda t: t.age),
    ProcessColumn("r", "RUN", 16, lambda t: t.run.rpartition("/")[2], lambda t: t.run or None, 128, "<", "dim"),
)
COMMAND = ProcessColumn(
    "n", "COMMAND", 10, lambda t: t.command or t.name, lambda t: t.command or t.name, 0, "<", "name"
)
BY = {column.key: column for column in (*COLUMNS, COMMAND)}
RISING = frozenset({"u", "d", "k", "r", "n"})  # columns that are read from their least on


def _on(task: TaskRow, text: str) -> str:
    """Return a cell of a process that is on a device; nothing of another."""
    return text if task.device else ""


def columns_of(look: Canvas) -> list[ProcessColumn]:
    """Return the columns that there is room for, the command last, with what room is left."""
    shown = [column for column in COLUMNS if look.width >= column.least]
    left = look.width - sum(column.width + 1 for column in shown)
    return [*shown, COMMAND._replace(width=max(COMMAND.width, left))]


def heading(columns: Sequence[ProcessColumn], listing: Listing, look: Canvas) -> Line:
    """Return the titles; the one that it is sorted by is marked."""
    spans: list[Span] = []
    for column in columns:
        falling = (column.key not in RISING) != listing.turned
        mark = ("v^" if look.plain else "▾▴")[not falling] if column.key == listing.by else ""
        spans.append((fit(column.title[: column.width - len(mark)] + mark, column.width, column.align) + " ", "head"))
    return Line(tuple(spans))


def order_at(columns: Sequence[ProcessColumn], x: int) -> str:
    """Return the key of the column at cell `x`, empty for none."""
    column = column_at(columns, x)
    return column.key if column is not None else ""


def task_line(task: TaskRow, columns: Sequence[ProcessColumn], key: str = "", indent: str = "") -> Line:
    """Return one process."""
    spans: list[Span] = []
    for column in columns:
        text = column.cell(task)
        if column.title == COMMAND.title:
            text = indent + text
        role = column.role if column.title != "ROLE" or task.role == "main" else ""
        spans.append((fit(text, column.width, column.align) + " ", role))
    return line(*spans, key=key)


def sums(tasks: Iterable[TaskRow], columns: Sequence[ProcessColumn], look: Canvas) -> list[Line]:
    """Return what each role of which there are several comes to, as sums that are marked as such."""
    every, found = list(tasks), []
    for role in ROLES:
        mine = [task for task in every if task.role == role]
        if len(mine) > 1:
            row = TaskRow(
                pid=0,
                name="",
                role=role,
                device="",
                cpu=sum(task.cpu or 0.0 for task in mine),
                memory=sum(task.memory or 0.0 for task in mine),
                command=f"{len(mine)} {MANY[role]}",
            )
            cells = {
                "PID": PLAIN_SUM if look.plain else SUM,
                "ROLE": "",
                "AGE": "",
                "DEVMEM": words.size(held) if (held := sum(t.device_memory or 0.0 for t in mine)) else "",
            }
            spans = [
                (fit(cells.get(c.title, c.cell(row)), c.width, c.align) + " ", "label" if c.title == "PID" else c.role)
                for c in columns
            ]
            found.append(line(*spans))
    return found


def matches(task: TaskRow, text: str) -> bool:
    """Return whether every word of `text` is in what is known of a process."""
    known = (task.user, task.name, task.command, task.run, NAMES.get(task.role, ""), str(task.pid))
    said = "\n".join(known).casefold()
    return all(word in said for word in text.casefold().split())


def ordered(tasks: Iterable[TaskRow], listing: Listing) -> list[TaskRow]:
    """Return those that match, sorted; what is not known comes last."""
    found = [task for task in tasks if matches(task, listing.text)] if listing.text else list(tasks)
    found.sort(key=lambda t: (_rank(t), -(t.device_memory or 0), -(t.cpu or 0), t.pid))
    column = BY.get(listing.by)
    if column is None:
        return found
    known = [(value, task) for task in found if (value := column.value(task)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=(column.key not in RISING) != listing.turned)  # type: ignore[arg-type, return-value] # one column's values are of one kind
    there = {task.pid for _, task in known}
    return [task for _, task in known] + [task for task in found if task.pid not in there]


def as_tree(tasks: Sequence[TaskRow]) -> Iterator[tuple[TaskRow, int]]:
    """Yield them below their parents, in the order that they come in, each with its depth."""
    pids = {task.pid for task in tasks}
    below: dict[int, list[TaskRow]] = {}
    for task in tasks:
        below.setdefault(task.parent if task.parent in pids and task.parent != task.pid else 0, []).append(task)
    todo, met = [(task, 0) for task in reversed(below.get(0, []))], set[int]()
    while todo:
        task, depth = todo.pop()
        if task.pid in met:
            continue
        met.add(task.pid)
        yield task, depth
        todo += [(child, depth + 1) for child in reversed(below.get(task.pid, []))]
    yield from ((task, 0) for task in tasks if task.pid not in met)  # a torn scan: parents that go in a circle


class ProcessesPage:
    """The page. Lines are made as they are shown: there may be thousands."""

    def __init__(self, node: Node, listing: Listing, look: Canvas, key: KeyOf) -> None:
        self._node, self._look, self._key = node, look, key
        self.columns = columns_of(look)
        tasks = ordered(node.tasks, listing)
        self._rows = list(as_tree(tasks)) if listing.tree else [(task, 0) for task in tasks]
        self._sums = [] if listing.tree or listing.text else sums(tasks, self.columns, look)
        self._keys = {key(node, task): at for at, (task, _) in enumerate(self._rows, len(self._sums))}
        self.head = (summary(node, tasks, listing, look), heading(self.columns, listing, look))

    def __len__(self) -> int:
        return len(self._sums) + len(self._rows)

    def line(self, index: int) -> Line:
        """Return the line of a sum, or of a process."""
        if index < len(self._sums):
            return self._sums[index]
        task, depth = self._rows[index - len(self._sums)]
        turn = "`- " if self._look.plain else "└─ "
        indent = "   " * (min(depth, 12) - 1) + turn if depth else ""  # levels of a tree that are indented
        return task_line(task, self.columns, self.key(index), indent)

    def key(self, index: int) -> str:
        """Return the key of a process."""
        return self._key(self._node, self._rows[index - len(self._sums)][0]) if index >= len(self._sums) else ""

    def find(self, key: str) -> int:
        """Return where that process stands."""
        return self._keys.get(key, -1)


def summary(node: Node, tasks: Sequence[TaskRow], listing: Listing, look: Canvas) -> Line:
    """Return how many are shown, and what was asked for."""
    count = f"{len(tasks)} of {len(node.tasks)}" if len(tasks) != len(node.tasks) else str(len(tasks))
    facts = [f" {node.name} · {count} processes of runs, on devices, or at work"]
    facts += [f"/{listing.text}"] if listing.text else []
    facts += ["as a tree"] if listing.tree else []
    column = BY.get(listing.by)
    facts += [f"by {column.title.lower()}{', reversed' if listing.turned else ''}"] if column else []
    return line((fit(" · ".join(facts), look.width), "title"))


def process_key(_node: Node, task: TaskRow) -> str:
    """Return what Enter opens on a process where nothing may be done to it: the run that it belongs to."""
    return f"process:{task.pid}.{task.started}"


def task_key(node: Node, task: TaskRow) -> str:
    """Return what Enter opens on a process that may be sent a signal: one of a run that is watched on this machine."""
    mine = node.link == "local" and task.run and task.role != "foreign" and task.started
    return f"task:{task.pid}.{task.started}" if mine else ""


def short_list(node: Node, look: Canvas, key: KeyOf, most: int, note: str = "") -> list[Line]:
    """Return the section of a node's page: sums, and so many processes that use most."""
    if not node.tasks:
        return []
    columns = columns_of(look)
    rows = ordered(node.tasks, Listing())
    found = [titled(" PROCESSES", look.width, note), heading(columns, Listing(), look), *sums(rows, columns, look)]
    found += [task_line(task, columns, key(node, task)) for task in rows[:most]]
    if len(rows) > most:
        found.append(line((fit(f"{len(rows) - most:>8} more, which use less", look.width), "dim")))
    return found


def cards_of(node: Node | None, run: str) -> list[str]:
    """Return the devices that processes of a run are on."""
    found = {index for task in (node.tasks if node else ()) if task.run == run for index in task.device.split(",")}
    return sorted(found - {""}, key=lambda index: (len(index), index))


def ranks_of(node: Node | None, run: str, known: Mapping[int, int | None]) -> int:
    """Return how many processes of a run train; `known` are those that its verdict tells of."""
    mains = {task.pid for task in (node.tasks if node else ()) if task.run == run and task.role == "main"}
    return len(mains) or len(known)


def _draw(scene: Scene) -> ProcessesPage:
    assert scene.node is not None  # noqa: S101 - `of` says so
    return ProcessesPage(scene.node, scene.listing, scene.look, task_key if scene.signals else process_key)


PAGE = PageKind(
    _draw,
    of="node",
    keys=(("/", "filter", "filter"), ("v", "tree", "letter('v')"), ("iudbxcmarn", "sort", "keys")),
    help=(
        ("processes", ""),
        (
            "i u d b x c m a r n",
            "sort by pid, user, device, busy, device memory, CPU, memory, age, run, command; again: reverse",
        ),
        ("v", "as a tree, below their parents"),
        ("/", "only processes with these words in user, command, run, role or pid"),
        ("Enter", "the run that it belongs to"),
    ),
    below="node",
    letter="p",
    says="processes",
    filtered=True,
    place=2,
)
