"""The application: which page is shown, what keys do, and the rows that come in. It measures and changes nothing."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import PurePath

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme

from gputune.core.hygiene import clean
from gputune.feeds.rows import Feed, RunRow, TaskRow, Update
from gputune.tui.asking import Asking
from gputune.tui.lines import Canvas, Page
from gputune.tui.pages._past import SPANS, step_of
from gputune.tui.pages.nodes import NodesPage, order_at
from gputune.tui.pages.processes import BY, ProcessesPage
from gputune.tui.pages.processes import order_at as process_order_at
from gputune.tui.pages.signals import question, task_of
from gputune.tui.roles import DARK, LIGHT, Roles
from gputune.tui.sheet import Sheet
from gputune.tui.store import GROUPS, Store
from gputune.tui.views import Listing, PageView, Scene, Shown, gone, keys_of, looking, opened_by, pages

DARK_NAME, LIGHT_NAME = "gputune-dark", "gputune-light"
SORTS = {"n": "name", "b": "busy", "m": "memory", "p": "power", "w": "wait", "s": "pace", "f": "finding", "l": "link"}
OPENING = frozenset(page.letter for page in pages().values() if page.letter)
LISTED = 50  # runs in the command palette
TAKEN = frozenset("jk")  # letters that move, as in vi


class Only(Screen[None]):
    """The one screen. Textual's own would keep these keys for moving between widgets and for copying."""

    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("tab", "app.next(1)", "next screen", show=False),
        Binding("shift+tab", "app.next(-1)", "screen before", show=False),
        Binding("ctrl+c", "app.quit", "leave", show=False),
    ]


class Gputune(App[None]):
    """Shows what the feed tells that `make` makes. `start` is the first view; `failed` is what ended it.

    `send` sends a signal to a process (`feeds/signalling.py`), and says what came of it. Without it nothing is sent.
    `driver` is what draws on the terminal, Textual's own without it.
    """

    TITLE = "gputune"
    ENABLE_COMMAND_PALETTE = True
    CSS = "Screen { layout: vertical; } Sheet { width: 100%; height: 100%; }"
    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("q,ctrl+c", "quit", "leave"),
        Binding("question_mark,f1", "keys", "keys"),
        Binding("escape,backspace", "out", "back"),
        Binding("enter", "open", "open"),
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "end(False)", show=False),
        Binding("end,G", "end(True)", show=False),
        Binding("left", "time(-1)", show=False),
        Binding("right", "time(1)", show=False),
        Binding("shift+left", "time(-10)", show=False),
        Binding("shift+right", "time(10)", show=False),
        Binding("0", "now", show=False),
        Binding("t", "turn_theme", "light or dark"),
        Binding("g", "group", "group"),
        Binding("slash", "filter", "filter"),
        *(Binding(key, f"letter('{key}')", show=False) for key in sorted({*SORTS, *BY, *OPENING, "v", "h"} - TAKEN)),
    ]

    class News(Message):
        """The feed told something."""

        def __init__(self, update: Update) -> None:
            super().__init__()
            self.update = update

    class Failed(Message):
        """The feed cannot go on."""

        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

    def __init__(  # noqa: PLR0913 - what is shown, how it looks and what it may do
        self,
        make: Callable[[], Feed],
        *,
        start: PageView | None = None,
        send: Callable[[TaskRow, str], str] | None = None,
        dark: bool = True,
        plain: bool = False,
        colour: bool = True,
        driver: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver, ansi_color=None if colour else True)
        self.failed: Exception | None = None
        self.store = Store()
        self._views = [start or PageView("nodes")]
        self._settled = start is not None
        self._shown = Shown()
        self._listing = Listing()
        self._span = 0  # of a machine's past
        self._whole = False  # all its curves, on a small screen too
        self._looks: tuple[str, int] = ("", 0)
        self._typing = False
        self._window = False
        self._cursor: float | None = None
        self._said = ""
        self._marks: dict[PageView, str] = {}
        self._began: dict[str, float] = {}  # id of a run that is open to its start
        self._send = send
        self._pending: tuple[TaskRow, str] | None = None  # what will be sent if the answer is yes
        self._ours: asyncio.AbstractEventLoop | None = None
        self._leaves = False
        self._plain = plain
        self._colour = colour
        self._dark = dark
        self._sheet = Sheet(Roles(dark=dark, colour=colour), plain=plain)
        self._asking = Asking(make, self._tell, self._fail)

    # ---- life

    def compose(self) -> ComposeResult:
        """Return the one widget."""
        yield self._sheet

    def get_default_screen(self) -> Screen[None]:
        """Return the screen that everything is on."""
        return Only()

    def on_mount(self) -> None:
        """Dress, show what is known (nothing), and begin to ask."""
        if self._colour:
            for name, ground, dark in ((DARK_NAME, DARK, True), (LIGHT_NAME, LIGHT, False)):
                theme = Theme(
                    name=name, primary="#5b8def", background=ground.page, foreground=ground.text, surface=ground.foot,
                    panel=ground.marked, dark=dark,
                )  # fmt: skip
                self.register_theme(theme)
            self.theme = DARK_NAME if self._dark else LIGHT_NAME
        self._sheet.focus()
        self._ours = asyncio.get_running_loop()
        if self._leaves:
            self.exit()
        self.call_after_refresh(self._asking.start)  # the first page first: what it imports takes the interpreter

    @property
    def began(self) -> bool:
        """Return whether it has come to the terminal, and so has left it as it was."""
        return self._ours is not None

    def leave_soon(self) -> None:
        """Leave. May be called by any thread, and before there is anything to leave."""
        self._leaves = True
        if self._ours is not None:
            with suppress(RuntimeError):  # it has been left
                self._ours.call_soon_threadsafe(self.exit)

    def on_unmount(self) -> None:
        """Stop asking."""
        self._asking.stop()

    def _tell(self, update: Update) -> None:
        self.post_message(self.News(update))

    def _fail(self, error: Exception) -> None:
        self.post_message(self.Failed(error))

    def on_gputune_news(self, message: News) -> None:
        """Take what is new, and draw it."""
        self.store.take(message.update)
        if not self._settled and message.update.nodes:  # of one machine the list of machines says nothing
            self._settled = True
            if len(self.store.nodes) == 1:
                self._views = [PageView("node", next(iter(self.store.nodes)))]
        self._draw()

    def on_gputune_failed(self, message: Failed) -> None:
        """Leave; the command says why."""
        self.failed = message.error
        self.exit()

    def on_sheet_resized(self, _message: Sheet.Resized) -> None:
        """Make the page that fits."""
        self._draw()

    # ---- what is shown

    @property
    def view(self) -> PageView:
        """Return what is shown now."""
        return self._views[-1]

    def _draw(self, *, anew: bool = False) -> None:
        if not self._sheet.is_attached or not self._sheet.size.height:
            return
        size = self._sheet.size
        self._look_back()
        self._began = {run: at for run, at in self._began.items() if any(view.target == run for view in self._views)}
        look = Canvas(size.width - 1, size.height, self._plain)  # the last column is the scroll bar's
        keep = self._marks.get(self.view, "") if anew else self._sheet.key
        keys = keys_of(self.view.kind if self.store.version else "", deep=len(self._views) > 1, plain=self._plain)
        self._sheet.show(self._page(look), keys, self._message(), keep=keep, anew=anew)

    def _page(self, look: Canvas) -> Page:
        if not self.store.version:
            return looking()
        page, scene = pages()[self.view.kind], self._scene(look)
        if (page.of == "run" and scene.run is None) or (page.of == "node" and scene.node is None):
            return gone(page.of, self.view.target)
        return page.draw(scene)

    def _scene(self, look: Canvas) -> Scene:
        """Return what the page that is shown is drawn of."""
        run = self.store.runs.get(self.view.target) if self._is_of_a_run() else None
        if run is not None and not self._is_same(run):
            run = None
        return Scene(
            self.view, look, self.store,
            node=self.store.nodes.get(self.view.target if run is None else run.node), run=run,
            cursor=self._cursor, window=self._window, span=self._span, whole=self._whole,
            shown=self._shown, listing=self._listing, signals=self._send is not None,
        )  # fmt: skip

    def _is_of_a_run(self) -> bool:
        return pages()[self.view.kind].of == "run"

    def _look_back(self) -> None:
        """Have the past of the machine told that is shown, and of no other."""
        wanted = (self.view.target, self._span) if self.view.kind == "node" else ("", 0)
        if wanted != self._looks:
            self._looks = wanted
            self._asking.look_at(*wanted)

    def _is_same(self, run: RunRow) -> bool:
        """Return whether it is the run that was opened: a later one may have been recorded into its folder."""
        return self._began.setdefault(run.id, run.started) == run.started

    def _message(self) -> str:
        if self._pending is not None:
            return question(*self._pending)
        if self._typing:
            return f"/{self._text}_"
        return clean(self._said or self.store.note, 200) if self._said or self.store.note else ""

    def _go(self, view: PageView) -> None:
        """Open a view above the others; one that is open already is gone back to."""
        self._leave()
        self._views = [*self._views[: self._views.index(view)], view] if view in self._views else [*self._views, view]
        self._draw(anew=True)

    def _leave(self) -> None:
        """Remember what was marked; look at the present again."""
        self._pending = None
        self._marks[self.view] = self._sheet.key
        self._said = ""
        self._typing = False
        if pages()[self.view.kind].timed and self._cursor is not None and self.view.target:
            self._cursor = None
            self._asking.seek(self.view.target, None)
        self._cursor = None

    # ---- what keys do

    def on_key(self, event: events.Key) -> None:
        """Take letters for the filter while one is typed, and the answer to a question."""
        if self._pending is not None:
            self._answer(yes=event.key == "y")
            event.stop()
            event.prevent_default()
            return
        if not self._typing:
            if self._said:
                self._said = ""
                self._draw()
            return
        if event.key in {"enter", "escape"}:
            self._typing = False
            if event.key == "escape":
                self._filter("")
        elif event.key == "backspace":
            self._filter(self._text[:-1])
        elif event.is_printable and event.character and len(self._text) < 60:  # characters of a filter
            self._filter(self._text + event.character)
        else:
            return
        event.stop()
        event.prevent_default()
        self._draw()

    @property
    def _text(self) -> str:
        """Return the words that lines of this screen must match."""
        return self._listing.text if self.view.kind == "processes" else self._shown.text

    def _filter(self, text: str) -> None:
        if self.view.kind == "processes":
            self._listing = self._listing._replace(text=text)
        else:
            self._shown = self._shown._replace(text=text)

    def _answer(self, *, yes: bool) -> None:
        """Send what was asked about, or do not."""
        pending, self._pending = self._pending, None
        if yes and pending is not None and self._send is not None:
            self._said = self._send(*pending)
        else:
            self._said = "nothing was sent"
        self._draw()

    def on_sheet_opened(self, message: Sheet.Opened) -> None:
        """Open what was chosen, or do it."""
        kind, _, target = message.key.partition(":")
        view = self._chosen(kind, target)
        if view is not None:
            self._go(view)
            return
        if kind == "copy":
            self.copy_to_clipboard(target)
            self._said = f"copied: {target}"
        elif kind == "signal":
            task = self._process()
            self._pending = (task, target) if task is not None and self._send is not None else None
        self._draw()

    def _chosen(self, kind: str, target: str) -> PageView | None:
        """Return the view that the key of a line stands for, None where it is something to be done."""
        if kind == "finding":
            return PageView("finding", self.view.target, target)
        if kind == "run":
            run = self.store.runs.get(target)
            return PageView("share" if run is not None and run.procs else "run", target)
        if kind == "process":
            return self._run_of(target)
        if kind == "task":
            run = self.store.runs.get(self.view.target)
            return PageView("signals", self.view.target if run is None else run.node, target)
        return PageView("node", target) if kind == "node" else None

    def _run_of(self, process: str) -> PageView | None:
        """Return the run of a process; where there is none, say so."""
        node = self.store.nodes.get(self.view.target)
        tasks = node.tasks if node is not None else ()
        task = next((each for each in tasks if process == f"{each.pid}.{each.started}"), None)
        run = self.store.runs.get(task.run) if task is not None else None
        if run is None:
            self._said = "it is in no run that gputune watches"
            return None
        return PageView("share" if run.procs else "run", run.id)

    def _process(self) -> TaskRow | None:
        """Return the process that may be sent a signal now, None where there is none any more."""
        node = self.store.nodes.get(self.view.target)
        return task_of(node, self.view.detail) if node is not None else None

    def on_sheet_headed(self, message: Sheet.Headed) -> None:
        """Sort by the column whose title was clicked."""
        page = self._sheet.page
        if isinstance(page, NodesPage) and message.y == 1:
            order = order_at(page.columns, message.x)
            if order:
                self._sort(order)
        elif isinstance(page, ProcessesPage) and message.y == 1:
            self._list_by(process_order_at(page.columns, message.x))

    async def on_sheet_pressed(self, message: Sheet.Pressed) -> None:
        """Do what a key of the foot does."""
        await self.run_action(message.action)

    def action_open(self) -> None:
        """Open the marked line."""
        self._sheet.open()

    def action_move(self, by: int) -> None:
        """Mark the next line."""
        self._sheet.move(by)

    def action_page(self, by: int) -> None:
        """Go a page on."""
        self._sheet.move(by * max(1, self._sheet.room - 1))

    def action_end(self, last: bool) -> None:  # noqa: FBT001 - as the binding calls it
        """Go to an end."""
        self._sheet.end(last=last)

    def action_keys(self) -> None:
        """Show the keys."""
        if self.view.kind != "keys":
            self._go(PageView("keys"))

    def action_out(self) -> None:
        """Go back: to the present, to all nodes, to the view before."""
        if pages()[self.view.kind].filtered and self._text:
            self._filter("")
            self._draw()
        elif self._cursor is not None:
            self.action_now()
        elif len(self._views) > 1:
            self._leave()
            self._views.pop()
            self._draw(anew=True)

    def action_next(self, by: int) -> None:
        """Go to the next screen in the order nodes, node, run, finding: of the marked row, else of the first one."""
        ring = self._ring()
        kinds = [view.kind for view in ring]
        here = kinds.index(self.view.kind) if self.view.kind in kinds else -1 if by > 0 else 0
        target = ring[(here + by) % len(ring)]
        self._leave()
        self._views = [
            PageView("nodes"),
            *(view for view in ring[: kinds.index(target.kind) + 1] if view.kind != "nodes"),
        ]
        self._draw(anew=True)

    def _ring(self) -> list[PageView]:
        """Return the screens that there are something to show on, from the marked line inwards."""
        kind, _, target = self._sheet.key.partition(":")
        run = self.store.runs.get(target if kind == "run" else self.view.target if self._is_of_a_run() else "")
        named = target if kind == "node" else run.node if run is not None else self.view.target
        node = self.store.nodes.get(named) or next(iter(self.store.nodes.values()), None)
        if run is None and node is not None:
            run = next(iter(self.store.runs_of(node)), None)
        ring = [PageView("nodes")]
        ring += [PageView("node", node.name), PageView("processes", node.name)] if node is not None else []
        ring += [PageView("run", run.id)] if run is not None else []
        ring += [PageView("share", run.id)] if run is not None and run.procs else []
        findings = run.verdict.findings if run is not None and run.verdict is not None else []
        if run is not None and findings:
            chosen = target if kind == "finding" else self.view.detail
            ring.append(
                PageView("finding", run.id, chosen if any(f.id == chosen for f in findings) else findings[0].id)
            )
        return ring

    def action_letter(self, key: str) -> None:
        """Sort the nodes or processes; on a node, `p` shows its processes; on a run, `w` is the last minute."""
        if self.view.kind == "nodes" and key in SORTS:
            self._sort(SORTS[key])
        elif opened := opened_by(key, self.view.kind):
            self._go(PageView(opened, self.view.target))
        elif self.view.kind == "node" and key == "w":
            self._span, self._cursor = (self._span + 1) % len(SPANS), None
            self._draw()
        elif self.view.kind == "node" and key == "h":
            self._whole = not self._whole
            self._draw()
        elif self.view.kind == "processes" and key == "v":
            self._listing = self._listing._replace(tree=not self._listing.tree)
            self._draw(anew=True)
        elif self.view.kind == "processes":
            self._list_by(key)
        elif self.view.kind == "run" and key == "w":
            self._window = not self._window
            run = self.store.runs.get(self.view.target)
            if self._window and run is not None and run.recent is None:
                self._said = "of the last minute nothing is known apart from the whole"
            self._draw()

    def _sort(self, by: str) -> None:
        turned = not self._shown.turned if self._shown.by == by else False
        self._shown = self._shown._replace(by=by, turned=turned)
        self._marks.pop(self.view, None)
        self._draw(anew=True)

    def _list_by(self, key: str) -> None:
        """Sort the processes by a column, and by none after it was reversed."""
        if key not in BY:
            return
        mine, turned = self._listing.by == key, self._listing.turned
        self._listing = self._listing._replace(by="" if mine and turned else key, turned=mine and not turned)
        self._marks.pop(self.view, None)
        self._draw(anew=True)

    def action_group(self) -> None:
        """Group by the next thing."""
        if self.view.kind == "nodes":
            at = GROUPS.index(self._shown.group)
            self._shown = self._shown._replace(group=GROUPS[(at + 1) % len(GROUPS)])
            self._said = f"grouped by {self._shown.group}" if self._shown.group else "not grouped"
            self._draw()

    def action_filter(self) -> None:
        """Begin to type what a node or a process must match."""
        if pages()[self.view.kind].filtered:
            self._typing = True
            self._draw()

    def action_time(self, by: int) -> None:
        """Look back, or forth again; past the present is the present."""
        if self.view.kind == "node":
            self._read_at(by)
            return
        run = self.store.runs.get(self.view.target)
        if not pages()[self.view.kind].timed or run is None or not run.history.busy:
            return
        step = max(run.history.step, run.length / 48)  # steps from one end of a history to the other
        at = (run.length if self._cursor is None else self._cursor) + by * step
        if at >= run.length:
            self.action_now()
            return
        self._cursor = max(run.history.began, at)
        if run.seekable:
            self._asking.seek(run.id, self._cursor)
        self._draw()

    def _read_at(self, by: int) -> None:
        """Read a machine's curves off at an earlier moment, or a later one."""
        past = self.store.past
        if past is None or not past.curves:
            return
        end = past.began + past.step * max(len(curve.values) for curve in past.curves)
        at = (end if self._cursor is None else self._cursor) + by * step_of(past)
        self._cursor = None if at >= end else max(at, end - SPANS[past.span][1])
        self._draw()

    def action_now(self) -> None:
        """Look at the present."""
        if self._cursor is not None and self.view.kind == "node":
            self._cursor = None
            self._draw()
        elif self._cursor is not None:
            self._cursor = None
            self._asking.seek(self.view.target, None)
            self._draw()

    def action_turn_theme(self) -> None:
        """Light or dark."""
        self._dark = not self._dark
        if self._colour:
            self.theme = DARK_NAME if self._dark else LIGHT_NAME
        self._sheet.recolour(Roles(dark=self._dark, colour=self._colour))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002 - Textual's signature
        """Yield what the command palette offers: what is typed there is looked for in the names alone."""
        yield SystemCommand("Quit: leave the screen", "What is watched goes on", self.action_quit)
        yield SystemCommand("Help: keys and signs", "Every key, and how signs are read", self.action_keys)
        yield SystemCommand("Theme: light or dark", "Turn the colours", self.action_turn_theme)
        yield SystemCommand("All nodes", "One line each", lambda: self._go(PageView("nodes")))
        for key, by in SORTS.items():
            yield SystemCommand(f"Sort by {by}", f"Key {key}", partial(self._on_nodes, partial(self._sort, by)))
        group, find = partial(self._on_nodes, self.action_group), partial(self._on_nodes, self.action_filter)
        yield SystemCommand("Group nodes by rack or job", "Or not at all: by the next of these", group)
        yield SystemCommand("Filter: find nodes", "By words in name, rack, job, device, finding or link", find)
        for run in list(self.store.runs.values())[:LISTED]:
            name = f"{_plainly(run.name)} {_plainly(PurePath(run.folder).name)}"
            kind = f"share of {len(run.procs)}" if run.procs else "watch"
            about = f"On {_plainly(run.node)}, {run.state}, {kind}, pid {run.pid}"
            yield SystemCommand(f"Run {name}", about, lambda run=run: self._open_run(run))
        for node in list(self.store.nodes.values())[:LISTED]:
            view = PageView("processes", node.name)
            yield SystemCommand(f"Processes of {_plainly(node.name)}", "Sort, filter, tree", partial(self._go, view))

    def _on_nodes(self, action: Callable[[], None]) -> None:
        self._go(PageView("nodes"))
        action()

    def _open_run(self, run: RunRow) -> None:
        self._go(PageView("run", run.id))

    def _handle_exception(self, error: Exception) -> None:
        """Keep what went wrong for the command to say: Textual would print a page of traceback."""
        self.failed = self.failed or error
        if self.is_headless:  # a test wants to see it
            super()._handle_exception(error)
            return
        self._return_code = 1
        self._close_messages_no_wait()


def _plainly(text: str) -> str:
    """Return a name without what Textual would take for markup."""
    return clean(text, 60).replace("[", "(").replace("]", ")")
