"""The application by keys, with a feed that was made up: what each key shows, and what it asks of the feed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from textual.fuzzy import Matcher
from textual.pilot import Pilot
from textual.widgets import OptionList

from gputune.core.errors import GputuneError
from gputune.feeds.rows import Curve, Past, ShareRow, TaskRow, Update
from gputune.tui.app import Gputune, PageView
from gputune.tui.pages.processes import task_key
from gputune.tui.sheet import Sheet

Make = Callable[..., Any]
PATIENCE = 60.0  # s


class Told:
    """A feed that tells what it was given, once, and remembers what it was asked."""

    def __init__(self, *updates: Update) -> None:
        self.updates = list(updates)
        self.sought: list[tuple[str, float | None]] = []
        self.looks: list[tuple[str, int]] = []
        self.closed = threading.Event()

    def poll(self, since: int) -> Update:
        return self.updates.pop(0) if self.updates else Update(until=since)

    def look_at(self, node: str, span: int) -> None:
        self.looks.append((node, span))

    def seek(self, run: str, at: float | None) -> None:
        self.sought.append((run, at))

    def close(self) -> None:
        self.closed.set()


def lines(app: Gputune) -> list[str]:
    """Return what the terminal would show."""
    sheet = app.query_one(Sheet)
    return [sheet.render_line(y).text.rstrip() for y in range(sheet.size.height)]


async def until(pilot: Pilot[None], what: Callable[[], bool]) -> None:
    """Wait for something to be true."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while not what():
        assert asyncio.get_running_loop().time() < end, "\n".join(lines(pilot.app))  # type: ignore[arg-type] # it is ours
        await pilot.pause(0.01)


def play(app: Gputune, act: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    """Run the application without a terminal, do something to it, and leave."""

    async def played() -> None:
        async with app.run_test(size=size) as pilot:
            await act(pilot)

    asyncio.run(played())


@pytest.fixture
def scene(node: Make, run: Make) -> Update:
    """Return three nodes and a run."""
    nodes = (node("a", rate=1.0, rack="r2"), node("b", rate=9.0, runs=()), node("m8", rate=5.0))
    return Update(until=1, nodes=nodes, runs=(run(),))


def test_sorts_groups_and_filters_nodes(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        names = lambda: [line.split()[1] for line in lines(app)[2:5] if len(line.split()) > 1]  # noqa: E731 - asked often
        assert names() == ["a", "b", "m8"]
        await pilot.press("s")
        assert names() == ["b", "m8", "a"]
        await pilot.press("s")
        assert names() == ["a", "m8", "b"]
        await pilot.press("g")
        assert lines(app)[2].startswith("r1 · 2")
        await pilot.press("g", "g", "slash", "m", "8")
        assert "/m8_" in lines(app)[-1]
        assert names()[0] == "m8"
        assert "1 of 3 nodes" in lines(app)[0]
        await pilot.press("enter", "escape")
        assert "3 nodes" in lines(app)[0]

    play(app, act)


def test_letters_of_a_filter_are_no_keys(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        await pilot.press("slash", "q", "question_mark", "t", "backspace")
        assert "/q?_" in lines(app)[-1]
        assert app.view.kind == "nodes"

    play(app, act)


def test_enter_goes_in_and_escape_comes_back_to_where_it_was(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        await pilot.press("down", "down", "enter")
        assert app.view == PageView("node", "m8")
        await pilot.press("enter")
        assert app.view == PageView("run", "m8/run")
        await pilot.press("enter")
        assert app.view == PageView("finding", "m8/run", "few-workers")
        await pilot.press("escape", "escape", "escape")
        assert app.view == PageView("nodes")
        assert app.query_one(Sheet).key == "node:m8"
        await pilot.press("escape")
        assert app.view == PageView("nodes")

    play(app, act)


def test_tab_goes_round_all_screens(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        seen = []
        for _ in range(5):
            await pilot.press("tab")
            seen.append(app.view.kind)
        assert seen == ["node", "processes", "run", "finding", "nodes"]
        await pilot.press("shift+tab")
        assert app.view.kind == "finding"
        await pilot.press("question_mark")
        assert "Shift+Tab" in "\n".join(lines(app))

    play(app, act)


def test_of_one_machine_its_own_screen_comes_first(node: Make, run: Make) -> None:
    app = Gputune(lambda: Told(Update(until=1, nodes=(node(),), runs=(run(),))))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.view == PageView("node", "m8"))
        assert "8 devices" in lines(app)[0]

    play(app, act)


def test_looks_back_in_time_and_asks_the_feed_for_it(scene: Update) -> None:
    feed = Told(scene)
    app = Gputune(lambda: feed, start=PageView("run", "m8/run"))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "train.py" in lines(app)[0])
        await pilot.press("left")
        assert "judging as of then" in lines(app)[1]
        await pilot.press("shift+left")
        assert lines(app)[1].startswith(" at 0:47 of 1:01")
        await until(pilot, lambda: bool(feed.sought))
        await pilot.press("0")
        assert "of the whole run" in lines(app)[1]
        await until(pilot, lambda: feed.sought[-1:] == [("m8/run", None)])
        await pilot.press("left", "escape")
        assert "of the whole run" in lines(app)[1]
        assert {run for run, _ in feed.sought} == {"m8/run"}

    play(app, act)


def test_a_command_is_copied_by_enter(scene: Update) -> None:
    app = Gputune(lambda: Told(scene), start=PageView("run", "m8/run"))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "train.py" in lines(app)[0])
        await pilot.press("end", "up", "up", "up", "enter")
        assert app.clipboard == "gputune prove gputune-runs/run few-workers"
        assert "copied: gputune prove" in lines(app)[-1]

    play(app, act)


def test_the_mouse_marks_opens_sorts_and_presses_keys(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        title = lines(app)[1]
        await pilot.click(Sheet, offset=(title.index("SMP/S"), 1))
        assert lines(app)[2].split()[1] == "b"
        await pilot.click(Sheet, offset=(5, 4))
        assert app.query_one(Sheet).key == "node:a"
        await pilot.click(Sheet, offset=(5, 4))
        assert app.view == PageView("node", "a")
        await pilot.click(Sheet, offset=(lines(app)[-1].index("back"), 29))
        assert app.view == PageView("nodes")

    play(app, act)


@pytest.mark.parametrize("size", [(20, 4), (80, 24), (300, 90), (1, 1)])
def test_any_size_will_do(scene: Update, size: tuple[int, int]) -> None:
    app = Gputune(lambda: Told(scene), start=PageView("run", "m8/run"))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.store.runs))
        await pilot.press("tab", "tab", "down", "end", "home", "pagedown")
        assert len(lines(app)) == size[1]

    play(app, act, size)


def test_a_screen_that_is_resized_fits_again(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        await pilot.resize_terminal(60, 10)
        await until(pilot, lambda: len(lines(app)) == 10 and "3 nodes" in lines(app)[0])
        assert max(map(len, lines(app))) <= 60

    play(app, act)


def test_light_and_dark_differ_and_no_colour_has_none(scene: Update) -> None:
    def colours(app: Gputune) -> set[str]:
        sheet = app.query_one(Sheet)
        styles = [segment.style for y in range(sheet.size.height) for segment in sheet.render_line(y)]
        return {str(c.name) for s in styles if s is not None for c in (s.color, s.bgcolor) if c is not None}

    seen: list[set[str]] = []
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        seen.append(colours(app))
        await pilot.press("t")
        seen.append(colours(app))

    play(app, act)
    plain = Gputune(lambda: Told(scene), colour=False)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(plain)[0])
        seen.append(colours(plain))

    play(plain, look)
    assert seen[0] != seen[1]
    assert seen[2] == set()


def test_plain_letters_are_all_that_is_written(scene: Update) -> None:
    app = Gputune(lambda: Told(scene), plain=True)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        for _ in range(4):
            assert [line for line in lines(app) if not line.isascii()] == []
            await pilot.press("tab")

    play(app, act)


def test_what_the_feed_raises_ends_the_screen_and_is_told() -> None:
    class Broken(Told):
        def poll(self, since: int) -> Update:
            raise GputuneError("the node is gone", hint="look")

    feed = Broken()
    app = Gputune(lambda: feed)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.failed is not None)

    play(app, act)
    assert "the node is gone" in str(app.failed)
    assert feed.closed.wait(PATIENCE)


def test_leaving_closes_the_feed(scene: Update) -> None:
    feed = Told(scene)
    app = Gputune(lambda: feed)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        await pilot.press("q")

    play(app, act)
    assert feed.closed.wait(PATIENCE)


def test_the_command_palette_knows_runs_and_takes_no_markup(node: Make, run: Make) -> None:
    evil = run(name="[@click=app.quit]x[/]\x1b[2J")
    app = Gputune(lambda: Told(Update(until=1, nodes=(node("a"), node("b")), runs=(evil,))))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.store.runs))
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Sort by power" in titles
        assert not any("[" in title or "\x1b" in title for title in titles)
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press("escape")
        assert app.view.kind == "nodes"

    play(app, act)


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("theme", "Theme: light or dark"), ("dark", "Theme: light or dark"), ("quit", "Quit: leave the screen"),
        ("leave", "Quit: leave the screen"), ("help", "Help: keys and signs"), ("filter", "Filter: find nodes"),
        ("rack", "Group nodes by rack or job"), ("power", "Sort by power"), ("train", "Run train.py run"),
    ],
)  # fmt: skip
def test_the_command_palette_finds_the_words_that_people_type(scene: Update, typed: str, title: str) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.store.runs))
        match = Matcher(typed).match
        found = max(app.get_system_commands(app.screen), key=lambda command: match(command.title))
        assert match(found.title) > 0
        assert found.title == title

    play(app, act)


def test_a_command_of_the_palette_is_carried_out(scene: Update) -> None:
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.store.runs))
        before = app.theme
        await pilot.press("ctrl+p", *"theme")
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: app.theme != before)
        await until(pilot, lambda: "3 nodes" in lines(app)[0])

    play(app, act)


def local(node: Make, run: Make) -> Update:
    """Return this machine, with a live run of three processes on it."""
    tasks = tuple(replace(task, started=7) for task in node().tasks)
    return Update(until=1, nodes=(node(link="local", tasks=tasks),), runs=(run(state="live"),))


def test_a_signal_is_sent_once_it_was_confirmed_and_not_before(node: Make, run: Make) -> None:
    sent: list[tuple[int, int, str]] = []

    def send(task: TaskRow, name: str) -> str:
        sent.append((task.pid, task.started, name))
        return f"SIG{name} was sent to {task.pid}"

    app = Gputune(lambda: Told(local(node, run)), send=send)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.view == PageView("node", "m8"))
        await pilot.press("down", "enter")
        assert app.view == PageView("signals", "m8", "4711.7")
        await pilot.press("down", "enter")
        assert "send SIGKILL to 4711 (python)?" in lines(app)[-1]
        await pilot.press("enter")
        assert "nothing was sent" in lines(app)[-1]
        await pilot.press("enter", "tab")
        assert (app.view.kind, sent) == ("signals", [])
        await pilot.press("up", "enter", "y")
        assert sent == [(4711, 7, "TERM")]
        assert "SIGTERM was sent to 4711" in lines(app)[-1]
        await pilot.press("escape")
        assert app.view == PageView("node", "m8")
        await pilot.press("y")
        assert len(sent) == 1

    play(app, act)


def test_without_leave_no_process_can_be_chosen(node: Make, run: Make) -> None:
    app = Gputune(lambda: Told(local(node, run)))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.view == PageView("node", "m8"))
        await pilot.press("end", "enter")
        assert app.view.kind in {"node", "run"}
        app.query_one(Sheet).post_message(Sheet.Opened("signal:KILL"))
        await pilot.pause()
        assert "SIGKILL" not in lines(app)[-1]

    play(app, act)


def test_a_process_that_has_ended_meanwhile_is_gone(node: Make, run: Make) -> None:
    here = local(node, run)
    without = Update(until=2, nodes=(replace(here.nodes[0], tasks=()),))
    feed = Told(here)
    app = Gputune(lambda: feed, send=lambda task, name: "")

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.view == PageView("node", "m8"))
        await pilot.press("down", "enter")
        assert app.view.kind == "signals"
        app.post_message(Gputune.News(without))
        await until(pilot, lambda: "process 4711 is not there" in "\n".join(lines(app)))
        await pilot.press("enter")
        assert "send SIG" not in lines(app)[-1]

    play(app, act)


def test_a_page_never_shows_another_run_that_has_got_the_same_folder(scene: Update, run: Make) -> None:
    another = Update(until=2, runs=(run(started=2_000_000.0, command=("python", "other.py")),))
    app = Gputune(lambda: Told(scene))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "3 nodes" in lines(app)[0])
        await pilot.press("down", "down", "enter", "enter")
        assert app.view == PageView("run", "m8/run")
        app.post_message(Gputune.News(another))
        await until(pilot, lambda: "run m8/run is not there" in "\n".join(lines(app)))
        assert app.view == PageView("run", "m8/run")
        await pilot.press("escape", "enter")  # who opens it anew sees it
        assert app.view == PageView("run", "m8/run")
        assert "is not there" not in "\n".join(lines(app))

    play(app, act)


def test_a_shared_device_has_a_screen_of_its_own(node: Make, run: Make, procs: Make) -> None:
    shared = run(procs=procs(), state="live")
    app = Gputune(lambda: Told(Update(until=1, nodes=(node("a"), node("m8")), runs=(shared,))))

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "2 nodes" in lines(app)[0])
        await pilot.press("down", "enter", "enter")
        assert app.view == PageView("share", "m8/run")
        assert "3 processes" in lines(app)[0]
        await pilot.press("left")
        assert "at 0:59 of 1:01" in lines(app)[0]
        assert "as they are now" in "\n".join(lines(app))
        await pilot.press("0")
        assert " at " not in lines(app)[0]
        await pilot.press("tab")
        assert app.view.kind == "finding"
        await pilot.press("shift+tab", "shift+tab")
        assert app.view.kind == "run"

    play(app, act)


EVIL = "\x1b]52;c;cm0=\x07\x9b31m\u202e[@click=app.quit]x[/]\r\n"


def test_no_name_reaches_the_terminal_as_a_command(node: Make, run: Make, verdict: Make, finding: Make) -> None:
    found = finding(id=EVIL, says=EVIL, do=EVIL, where=EVIL, basis=EVIL)
    shared = ShareRow(index=0, name=EVIL, pid=4711, state=EVIL, why=EVIL, unit=EVIL, log=EVIL)
    bad = run(
        id=EVIL, name=EVIL, folder=EVIL, why=EVIL, command=(EVIL,), verdict=verdict(findings=[found], abstained=EVIL),
        procs=(shared,), packed=EVIL, node=EVIL,
    )  # fmt: skip
    tasks = tuple(replace(task, name=EVIL, started=7, run=EVIL) for task in node().tasks)
    here = node(
        EVIL, rack=EVIL, job=EVIL, finding=EVIL, runs=(EVIL,), tasks=tasks, link="local", unavailable={EVIL: EVIL}
    )
    update = Update(until=1, nodes=(here, node("b")), runs=(bad,), note=EVIL)
    app = Gputune(lambda: Told(update), send=lambda task, name: EVIL)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.store.runs))
        views = (
            PageView("nodes"), PageView("node", EVIL), PageView("run", EVIL), PageView("share", EVIL),
            PageView("finding", EVIL, EVIL), PageView("signals", EVIL, "4711.7"),
        )  # fmt: skip
        for view in views:
            app._go(view)
            await pilot.pause()
            assert not [c for each in lines(app) for c in each if not c.isprintable()], view.kind
        await pilot.press("enter")
        assert "send SIGTERM to 4711" in lines(app)[-1]
        await pilot.press("y")
        assert lines(app)[-1].strip().isprintable()

    play(app, act, (100, 60))


def views_of(node: Any, run: Any) -> list[PageView]:
    """Return every screen that a node and a run have."""
    finding = run.verdict.findings[0].id
    task = next((task_key(node, task) for task in node.tasks if task_key(node, task)), "task:0.0")
    own = [PageView("node", node.name), PageView("signals", node.name, task.removeprefix("task:"))]
    return [
        PageView("nodes"),
        *own,
        PageView("run", run.id),
        PageView("share", run.id),
        PageView("finding", run.id, finding),
    ]


def test_ten_thousand_names_through_the_widget_do_no_harm(rows: SimpleNamespace, names: Any) -> None:
    app = Gputune(lambda: Told(Update(until=1)), send=lambda task, name: "")

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.store.version > 0)
        before: tuple[Any, Any] | None = None
        while names.count < 10_000:
            node, run = rows.evil(names)
            gone = {"gone": (before[0].name,), "runs_gone": (before[1].id,)} if before else {}
            app.store.take(Update(until=2, nodes=(node, rows.node("b")), runs=(run,), note=names(), **gone))
            before, app._views = (node, run), [PageView("nodes")]
            for view in views_of(node, run):
                app._go(view)
                assert rows.harm("".join(lines(app))) == [], (view, lines(app))
            commands = app.get_system_commands(app.screen)
            assert rows.harm("".join(each.title + each.help for each in commands)) == []

    play(app, act, (120, 50))


WORK = (
    TaskRow(pid=20, name="python", role="main", run="m8/run", command="train.py --lr 3", cpu=1.0, parent=10, started=1),
    TaskRow(pid=10, name="python", role="other", run="m8/run", command="torchrun train.py", cpu=0.0, started=1),
    TaskRow(pid=40, name="backup", user="root", cpu=0.1, started=1),
    TaskRow(pid=41, name="make", user="ada", cpu=0.2, started=1),
    TaskRow(pid=42, name="cc", user="ada", cpu=0.3, started=1),
)


def test_from_a_node_one_key_leads_to_its_processes_and_another_to_their_run(node: Make, run: Make) -> None:
    app = Gputune(lambda: Told(Update(until=1, nodes=(node("m8", tasks=WORK),), runs=(run(),))))

    async def act(pilot: Any) -> None:
        await until(pilot, lambda: app.view.kind == "node")
        await pilot.press("p")
        assert app.view == PageView("processes", "m8")
        assert any("train.py --lr 3" in each for each in lines(app))
        await pilot.press("c")
        assert "CPU▾" in lines(app)[1]
        await pilot.press("c")
        assert "CPU▴" in lines(app)[1]
        await pilot.press("c", "v")
        assert any("└─ train.py" in each for each in lines(app))
        await pilot.press("v", "slash", *"root")
        assert "/root_" in lines(app)[-1]
        await pilot.press("enter")
        assert "1 of 5 processes" in lines(app)[0]
        await pilot.press("enter")
        assert "it is in no run" in lines(app)[-1]
        await pilot.press("escape")
        assert "· 5 processes" in lines(app)[0]
        await pilot.press("home", "enter")
        assert app.view == PageView("run", "m8/run")

    play(app, act, size=(80, 24))


def test_on_a_machine_one_looks_back_over_all_its_curves(node: Make) -> None:
    curve = Curve(what="busy", whom="0", values=tuple(k / 299 for k in range(299)))
    past = Past(node="m8", began=1_800_000_000.0, step=1.0, span=0, curves=(curve,))
    feed = Told(Update(until=1, nodes=(node("m8", runs=()),), past=past))
    feed.updates += [Update(until=k, past=past) for k in range(2, 500)]
    app = Gputune(lambda: feed)

    def row() -> str:
        return next((each for each in lines(app) if " 0 busy" in each), "")

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "100%" in row().partition("┤")[2])
        await until(pilot, lambda: feed.looks == [("m8", 0)])
        await pilot.press("shift+left", "shift+left", "shift+left")
        assert " 50%" in row().partition("┤")[2] or " 49%" in row().partition("┤")[2]
        await pilot.press("0")
        assert "│" not in row()
        await pilot.press("w")
        assert any("the last 2 hours" in each for each in lines(app))
        await until(pilot, lambda: feed.looks[-1] == ("m8", 1))
        await pilot.press("p")
        await until(pilot, lambda: feed.looks[-1] == ("", 0))

    play(app, act, size=(100, 30))


def test_a_terminal_that_is_resized_again_and_again_is_right_in_the_end(node: Make, run: Make) -> None:
    curve = Curve(what="busy", whom="0", values=(0.5,) * 299)
    past = Past(node="m8", began=1_800_000_000.0, step=1.0, span=0, curves=(curve,))
    app = Gputune(lambda: Told(Update(until=1, nodes=(node("m8", tasks=WORK),), runs=(run(),), past=past)))
    sizes = [(80, 24), (200, 60), (1, 1), (2, 5), (400, 100), (10, 3), (40, 12)]

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.view.kind == "node")
        for key in ("p", "escape", "h"):
            for size in sizes:
                await pilot.resize_terminal(*size)
            await pilot.press(key)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: any("HOW IT WENT" in each for each in lines(app)))
        assert max(map(len, lines(app))) <= 80

    play(app, act)
