"""One process of a watched run, and the signals that may be sent to it: only with `--allow-signals`."""

from gputune.feeds.rows import Node, RunRow, TaskRow
from gputune.tui import words
from gputune.tui.lines import EMPTY, Canvas, Line, Lines, fit, line, paragraph, titled
from gputune.tui.pages.processes import NAMES, task_key
from gputune.tui.views import PageKind, Scene, gone

SIGNALS = (
    ("TERM", "asks it to end; most trainings end at once, without a checkpoint"),
    ("KILL", "ends it where it stands: it cannot save, clean up or end its workers"),
    ("STOP", "stops it where it is: it keeps its memory and its part of the device's"),
    ("CONT", "lets it go on after STOP"),
)
MAIN = "this process trains: whoever waits for it (other ranks, a launcher) is held up or fails as well"


def task_of(node: Node, named: str) -> TaskRow | None:
    """Return the process with that key; none once it has ended, also where its number is another's by now."""
    return next((task for task in node.tasks if task_key(node, task) == f"task:{named}"), None)


def signals_page(task: TaskRow, run: RunRow | None, look: Canvas) -> Lines:
    """Return the page of a process: who it is, and a line a signal."""
    role = NAMES.get(task.role, task.role)
    facts = [f"{task.pid} {task.name}", role, *([run.name] if run is not None else [])]
    used = f"{words.cores(task.cpu)} CPUs, {words.size(task.memory)} of memory"
    lines = [
        EMPTY,
        line((fit(f" {used}", look.width), "dim")),
        *(paragraph(MAIN, look.width - 2, "warn", " ") if task.role == "main" else ()),
        EMPTY,
        titled(" SEND", look.width, "Enter asks once more "),
        *(_signal(name, says, look) for name, says in SIGNALS),
    ]
    return Lines((line((fit(" " + " · ".join(facts), look.width), "title")),), lines)


def _signal(name: str, says: str, look: Canvas) -> Line:
    text = fit(says, max(8, look.width - 10))
    return line((f"  {name:<6}", "bad" if name == "KILL" else "value"), (text, ""), key=f"signal:{name}")


def question(task: TaskRow, name: str) -> str:
    """Return what is asked before anything is sent."""
    return f"send SIG{name} to {task.pid} ({task.name})?  y sends it, any other key does not"


def _draw(scene: Scene) -> Lines:
    task = task_of(scene.node, scene.view.detail) if scene.node is not None else None
    if task is None:
        return gone("process", scene.view.detail.partition(".")[0])
    return signals_page(task, scene.store.runs.get(task.run), scene.look)


PAGE = PageKind(
    _draw,
    help=(
        ("node, share, processes", ""),
        ("Enter on a process", "signals to it: of a run on this machine, and with --allow-signals only"),
    ),
    place=3,
)
