"""One agent as the feed knows it: the state of its link, and the rows that it told last."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from gputune.core.hygiene import clean
from gputune.feeds.pasts import KeptPast
from gputune.feeds.present import wait_and_rate
from gputune.feeds.rows import PARTS, DeviceRow, LinkState, Node, Past, RunRow, TaskRow, Update, harmless
from gputune.nodes.naming import Names
from gputune.nodes.trace import METRICS, Trace
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.credentials import Credentials
from gputune.wire.keeping import RunReader
from gputune.wire.messages import LATEST, CursorFields, News, Since

ASK_S = 1.0  # s between two questions, unless somebody wants them more rarely
NEWS_LATE_S = 5.0  # s without news after which what is known of a node is no longer shown
SOON, LONGEST = 0.25, 2.0  # s from a failure to the next try, twice as long each time: a node is back within 5 s
MOST_NODES = 1024  # that one agent may speak for, being a relay
MOST_RUNS = 4096
UPDATES = msgspec.json.Decoder(Update)  # made here, by one thread: see the end of wire/messages.py


class Round:
    """Asks one agent for news again and again. `ask` is called by one thread at a time and never raises."""

    def __init__(
        self, address: Address, credentials: Credentials | None, beat: float, names: Names | None = None
    ) -> None:
        self.address = address
        self._known_as = names or Names()
        self.name = self._known_as.give(address)  # of its node on the screen
        self.link: LinkState = "waiting"
        self.why = ""
        self.due = 0.0  # s of time.monotonic()
        self.clock = (0.0, math.inf)  # s that its clock is ahead of ours, and how exact that is
        self.nodes: dict[str, Node] = {}  # replaced whole, so that another thread may read them at any time
        self.runs: dict[str, RunRow] = {}
        self._relay = False
        self._more = False  # there is more to be had at once
        self._names: dict[str, str] = {}  # id of a run here to its id there
        self._far = AgentClient(address, credentials)
        self._beat = beat
        self._followed: dict[str, _Followed] = {}  # by the id that a run has here
        self.looked_at = False  # its machine's past is wanted
        self._kept: KeptPast | None = None
        self._since = Since()
        self._told: dict[str, RunRow] = {}  # by its id there: a run as its agent told it, for parts that stay the same
        self._pause = SOON
        self._heard = 0.0  # s of time.monotonic(); 0: never
        self._seen = 0.0  # Unix time

    @property
    def answers(self) -> bool:
        """Return whether its last question was answered."""
        return self.link == "up"

    def close(self) -> None:
        """Hang up."""
        self._far.close()

    def ask(self) -> None:
        """Ask for news once, and know afterwards when to ask again."""
        began = time.monotonic()
        try:
            self._take(self._far.news(self._since))
            self._follow()
            self._look_back()
        except AgentFailed as failed:
            self._failed(failed.state, failed.why)
        except Exception as error:  # noqa: BLE001 - whatever it has sent, the other nodes stay on the screen
            self._far.close()
            self._failed("foreign", f"its answer made gputune stumble ({type(error).__name__})")
        else:
            self.link, self.why, self._pause = "up", "", SOON
            self._heard, self._seen = time.monotonic(), time.time()
            self.clock = (self._far.offset, self._far.uncertain)
            # 0.05 s between two answers of an agent whose news do not go into one
            self.due = max(began + (0.05 if self._more else self._beat), time.monotonic())

    def _look_back(self) -> None:
        """Read on in what the agent keeps of its machine, while somebody looks at it. Raises AgentFailed."""
        if not self.looked_at or self._relay:
            return
        self._kept = self._kept or KeptPast(self._far)
        self._kept.read()

    def past(self, span: int) -> Past | None:
        """Return the history of its machine, as far as it was read; None for a relay, or where nothing was read."""
        return self._kept.past(self.name, span) if self._kept is not None else None

    def rows(self) -> list[Node]:
        """Return its nodes as they are to be shown now."""
        if self._relay and self.link == "up":  # it says itself how it reaches them
            return list(self.nodes.values())
        known = [replace(node, link=self.link, why=self.why, seen=self._seen) for node in self.nodes.values()]
        if self.link in {"up", "late"}:
            return known
        names = {node.name: node.rack for node in known} or {self.name: self.address.rack}
        return [  # it still stands where it stood
            Node(name=name, rack=rack, link=self.link, why=self.why, seen=self._seen) for name, rack in names.items()
        ]

    def _failed(self, state: LinkState, why: str) -> None:
        recent = self._heard and time.monotonic() - self._heard < NEWS_LATE_S + max(0.0, self._beat - ASK_S)
        self.link = "late" if recent and state == "down" else state
        self.why = clean(why)
        self.due = time.monotonic() + self._pause
        self._pause = min(LONGEST, 2 * self._pause)

    def _take(self, news: News) -> None:
        """Take the rows. Raises AgentFailed where they are none."""
        try:
            update = harmless(UPDATES.decode(news.update))
        except msgspec.DecodeError:
            self._far.close()
            raise AgentFailed(self.address, "foreign", "its rows are not understood") from None
        nodes = {} if news.whole else dict(self.nodes)
        runs = {} if news.whole else dict(self.runs)
        alone = not news.relay  # else its nodes keep their names
        if alone and update.nodes:
            self.name = self._known_as.claim(self.address, update.nodes[0].name)
        for node in update.nodes:
            mine = _node(node, self.name) if alone else node
            if self.address.rack and not mine.rack:
                mine = replace(mine, rack=self.address.rack)
            nodes[mine.name] = mine
        names = dict(self._names)
        told = {} if news.whole else dict(self._told)
        for run in update.runs:
            told[run.id] = _whole(run, told.get(run.id), update.same.get(run.id, ()))
            known = _run(told[run.id], self.name) if alone else told[run.id]
            runs[known.id], names[known.id] = known, run.id
        if max(len(nodes), len(update.nodes)) > MOST_NODES or max(len(runs), len(update.runs)) > MOST_RUNS:
            self._far.close()
            raise AgentFailed(
                self.address, "foreign", f"it speaks for more than {MOST_NODES} nodes or {MOST_RUNS} runs"
            )
        if not update.more:  # else the node that shows a run may come with the next piece
            there = {run for node in nodes.values() for run in node.runs}
            runs = {run: row for run, row in runs.items() if run in there}
        runs = {name: self._carried(run) for name, run in runs.items()}  # until `_follow` has read on: that may last
        self.nodes, self.runs = {name: _going(node, runs) for name, node in nodes.items()}, runs
        self._names = {known: run for known, run in names.items() if known in runs}
        self._more, self._relay = update.more, news.relay
        present = {*self._names.values(), *(run.id for run in update.runs)}
        self._told = {name: run for name, run in told.items() if name in present}
        self._since = Since(until=update.until, life=news.life, parts=not update.more)

    def _follow(self) -> None:
        """Read on in the samples of live runs, for their histories. Raises AgentFailed where the agent is gone."""
        # 8 live runs of one node whose samples are pulled, once a second each
        live = [] if self._relay else [run for run in self.runs.values() if run.state == "live"][:8]
        self._followed = {run.id: self._followed.get(run.id) or self._new(run) for run in live}
        found = {run.id: self._followed[run.id].read(run) for run in live}
        self.runs = self.runs | found
        self.nodes = {name: _going(node, self.runs) for name, node in self.nodes.items()}

    def _carried(self, run: RunRow) -> RunRow:
        """Return a run with what was read of it here: its agent does not tell that."""
        followed = self._followed.get(run.id)
        return run if followed is None or run.state != "live" else followed.about(run)

    def _new(self, run: RunRow) -> "_Followed":
        reader = RunReader(self._far, self._names.get(run.id, run.id), at=CursorFields(segment=LATEST), only=METRICS)
        return _Followed(reader, Trace(run.started))


@dataclass(slots=True)
class _Followed:
    """A live run whose samples are read on."""

    reader: RunReader
    trace: Trace

    def read(self, run: RunRow) -> RunRow:
        """Return the run with its history up to now; of a long one some more each time. Raises AgentFailed."""
        try:
            for _ in range(4):  # answers in a row of a run that has much to tell: MiB of frames
                ticks, more = self.reader.step()
                self.trace.take(ticks, self.reader.clocks)
                if not more:
                    break
        except AgentFailed as failed:
            if not failed.said:  # else the agent answers, and this run has just gone
                raise
        return self.about(run)

    def about(self, run: RunRow) -> RunRow:
        """Return the run with its history as it was last read."""
        told = run.verdict.batches if run.verdict is not None else 0
        return replace(run, history=self.trace.history(), present=self.trace.present(told, run.told))


def _whole(run: RunRow, before: RunRow | None, same: Sequence[str]) -> RunRow:
    """Return a run with the parts that its agent has left out, as they were before."""
    return replace(run, **{part: getattr(before, part) for part in PARTS if part in same}) if same and before else run


def _going(node: Node, runs: Mapping[str, RunRow]) -> Node:
    """Return the node with what its runs do now: its agent reads what is written of them every half a minute."""
    live = [runs[run] for run in node.runs if run in runs and runs[run].state == "live"]
    if not any(run.present is not None for run in live):
        return node
    wait, rate = wait_and_rate(live)
    return replace(node, wait=wait, rate=rate)


def _node(node: Node, name: str) -> Node:
    """Return the row under the name that the node has here."""
    if node.name == name:
        return node
    devices = tuple(_device(device, node.name, name) for device in node.devices)
    tasks = tuple(_task(task, node.name, name) for task in node.tasks)
    runs = tuple(_renamed(run, node.name, name) for run in node.runs)
    return replace(node, name=name, devices=devices, tasks=tasks, runs=runs)


def _run(run: RunRow, name: str) -> RunRow:
    if run.node == name:
        return run
    return replace(run, node=name, id=_renamed(run.id, run.node, name))


def _device(device: DeviceRow, before: str, name: str) -> DeviceRow:
    return replace(device, job=_renamed(device.job, before, name)) if device.job else device


def _task(task: TaskRow, before: str, name: str) -> TaskRow:
    return replace(task, run=_renamed(task.run, before, name)) if task.run else task


def _renamed(run: str, before: str, name: str) -> str:
    """Return the id of a run of a node that is called otherwise here."""
    return f"{name}/{run.removeprefix(f'{before}/')}"
