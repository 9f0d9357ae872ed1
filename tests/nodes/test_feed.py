"""Many agents as one feed: links that break and come back, strangers, and names that mean harm."""

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as changed

from gputune.core.sample import Metric, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.rows import DeviceRow, History, Node, RunRow, TaskRow, Update
from gputune.nodes.desk import Desk
from gputune.nodes.feed import NodesFeed
from gputune.recording import Recording
from gputune.wire.address import Address, hostfile, parse
from gputune.wire.keeping import RunReader
from gputune.wire.server import Service

BEGAN = 10**12
WAIT = Metric("loader.wait", "ratio", "Share of the last second spent in next().")
COUNT = Metric("loader.samples", "1", "Samples in those batches.", kind="counter")
Wait = Callable[[Callable[[], object]], None]


class Served:
    """An agent in this process, with rows that the test puts there."""

    def __init__(self, path: Path, name: str, *, relay: bool = False) -> None:
        self.path = path
        self.address = Address(name, path=str(path))
        self._machine = None if relay else path.parent / f"{name}-machine"
        self._service: Service | None = None
        self.start()

    def start(self) -> None:
        self.desk = Desk("remote", self._machine)
        self._service = Service(self.path, self.desk)

    def stop(self) -> None:
        if self._service is not None:
            self._service.shutdown()
            self._service = None
            self.path.unlink(missing_ok=True)

    def put(self, *nodes: Node, runs: tuple[RunRow, ...] = (), **gone: tuple[str, ...]) -> None:
        self.desk.put(Update(until=0, nodes=nodes, runs=runs, **gone))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a maker of agents."""
    made: list[Served] = []

    def make(name: str, *, relay: bool = False) -> Served:
        made.append(Served(tmp_path / f"{len(made)}.sock", name, relay=relay))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def feed() -> Iterator[Callable[..., NodesFeed]]:
    """Return a maker of feeds that ask ten times a second."""
    made: list[NodesFeed] = []

    def make(*addresses: Address) -> NodesFeed:
        made.append(NodesFeed(addresses, None, beat=0.1))
        return made[-1]

    yield make
    for each in made:
        each.close()


def nodes(feed: NodesFeed) -> dict[str, Node]:
    return {node.name: node for node in feed.poll(0).nodes}


def test_rows_come_under_the_names_that_nodes_have_here(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    m8 = served("m8")
    task = TaskRow(pid=1, name="python", run="remote/r1")
    device = DeviceRow(index="0", busy=0.5, job="remote/r1")
    node = Node(name="remote", link="local", cpu=1.5, runs=("remote/r1",), tasks=(task,), devices=(device,))
    m8.put(node, runs=(RunRow(id="remote/r1", node="remote", name="train.py"),))
    view = feed(m8.address)
    eventually(lambda: nodes(view)["m8"].link == "up")
    row, (run,) = nodes(view)["m8"], view.poll(0).runs
    assert (row.cpu, row.runs, row.tasks[0].run, row.devices[0].job) == (1.5, ("m8/r1",), "m8/r1", "m8/r1")
    assert (run.id, run.node, run.name) == ("m8/r1", "m8", "train.py")


def test_only_what_is_new_is_told(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    m8, m9 = served("m8"), served("m9")
    m8.put(Node(name="x", cpu=1.0))
    m9.put(Node(name="x", cpu=1.0))
    view = feed(m8.address, m9.address)
    eventually(lambda: all(node.link == "up" for node in nodes(view).values()))
    until = view.poll(0).until
    m8.put(Node(name="x", cpu=2.0))
    eventually(lambda: any(node.cpu == 2.0 for node in view.poll(until).nodes))


def test_what_an_agent_leaves_out_is_as_it_was(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    rack = served("rack", relay=True)
    run = RunRow(id="a/1", node="a", name="x", history=History(busy=(0.5, 0.6)))
    rack.put(Node(name="a", runs=("a/1",)), runs=(run,))
    view = feed(rack.address)
    eventually(lambda: view.poll(0).runs == (run,))
    rack.put(runs=(changed(run, at=1.0),))
    eventually(lambda: view.poll(0).runs[0].at == 1.0)
    assert view.poll(0).runs == (changed(run, at=1.0),)
    longer = changed(run, at=2.0, history=History(busy=(0.5, 0.6, 0.7)))
    rack.put(runs=(longer,))
    eventually(lambda: view.poll(0).runs[0].at == 2.0)
    assert view.poll(0).runs == (longer,)


def test_a_run_that_is_gone_there_is_gone_here(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    m8 = served("m8")
    m8.put(
        Node(name="x", runs=("x/1", "x/2")),
        runs=(RunRow(id="x/1", node="x", name="a"), RunRow(id="x/2", node="x", name="b")),
    )
    view = feed(m8.address)
    eventually(lambda: len(view.poll(0).runs) == 2)
    m8.put(Node(name="x", runs=("x/2",)), runs_gone=("x/1",))
    told: set[str] = set()
    eventually(lambda: told.update(view.poll(0).runs_gone) or ("m8/x/1" not in told and told == {"m8/1"}))
    assert [run.name for run in view.poll(0).runs] == ["b"]


def test_an_agent_that_ends_is_late_then_down_and_back_when_it_is(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputune.nodes.round.NEWS_LATE_S", 1.0)
    m8, m9 = served("m8"), served("m9")
    for each in (m8, m9):
        each.put(Node(name="x", cpu=1.0))
    view = feed(m8.address, m9.address)
    eventually(lambda: all(node.link == "up" for node in nodes(view).values()))
    m8.stop()
    eventually(lambda: nodes(view)["m8"].link == "late")
    assert nodes(view)["m8"].cpu == 1.0
    eventually(lambda: nodes(view)["m8"].link == "down")
    row = nodes(view)["m8"]
    assert (row.cpu, row.why) == (None, "no agent runs there: there is no such socket")
    assert row.seen > 0
    assert nodes(view)["m9"].link == "up"
    m8.start()
    m8.put(Node(name="x", cpu=3.0))
    began = time.monotonic()
    eventually(lambda: nodes(view)["m8"].cpu == 3.0)
    assert time.monotonic() - began < 30  # the budget of 5 s is benchmarks/agents.py's


def test_who_never_answers_makes_nobody_else_wait(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], tmp_path: Path, eventually: Wait
) -> None:
    silent = []
    for number in range(20):
        peer = socket.socket(socket.AF_UNIX)
        peer.bind(str(tmp_path / f"silent-{number}"))
        peer.listen()
        silent.append(peer)
    m8 = served("m8")
    m8.put(Node(name="x"))
    view = feed(*(Address(f"s{n}", path=str(tmp_path / f"silent-{n}")) for n in range(20)), m8.address)
    began = time.monotonic()
    assert len(view.poll(0).nodes) == 21
    assert time.monotonic() - began < 2
    eventually(lambda: nodes(view)["m8"].link == "up")
    for peer in silent:
        peer.close()


def test_a_relay_speaks_for_its_nodes_as_it_sees_them(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    relay = served("rack-1", relay=True)
    relay.put(Node(name="m8", cpu=1.0), Node(name="m9", link="down", why="its name does not resolve"))
    view = feed(relay.address)
    eventually(lambda: {"m8", "m9"} == nodes(view).keys())
    assert nodes(view)["m8"].link == "up"
    assert nodes(view)["m9"].why == "its name does not resolve"


def test_the_news_of_a_large_rack_come_in_pieces(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    relay, wide = served("rack-1", relay=True), ("x" * 300,) * 100
    names = [f"m{number}" for number in range(300)]
    rows = [Node(name=name, runs=(f"{name}/run",)) for name in names]
    relay.put(*rows, runs=tuple(RunRow(id=f"{name}/run", node=name, name="x", command=wide) for name in names))
    relay.put(*(Node(name=row.name, runs=row.runs, cpu=1.0) for row in rows))  # all runs come before their nodes, then
    view = feed(relay.address)
    eventually(lambda: {run.node for run in view.poll(0).runs} == set(names) == nodes(view).keys())


def test_a_host_files_rack_is_that_of_nodes_that_name_none_and_stays_when_they_are_away(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    m8, m9, relay = served("m8"), served("m9"), served("rack-1", relay=True)
    m8.put(Node(name="x", job="4711"))
    m9.put(Node(name="x", rack="own"))
    relay.put(Node(name="m10"), Node(name="m11", rack="own", job="77"))
    view = feed(*(replace(each.address, rack="r1") for each in (m8, m9, relay)))
    eventually(lambda: {"m8", "m9", "m10", "m11"} == nodes(view).keys())
    eventually(lambda: all(node.link == "up" for node in nodes(view).values()))
    found = {name: (node.rack, node.job) for name, node in nodes(view).items()}
    assert found == {"m8": ("r1", "4711"), "m9": ("own", ""), "m10": ("r1", ""), "m11": ("own", "77")}
    m8.stop()
    m9.stop()
    eventually(lambda: {nodes(view)[name].link for name in ("m8", "m9")} == {"down"})
    assert {name: nodes(view)[name].rack for name in ("m8", "m9")} == {"m8": "r1", "m9": "own"}


def test_the_history_of_a_live_run_is_pulled_and_goes_on_after_its_agent_was_away(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    recording = Recording.create(tmp_path / "run", {})
    offset = json.loads((tmp_path / "run" / "run.json").read_text())["unix_minus_monotonic_ns"]
    started = (BEGAN + offset) / NS

    def record(seconds: range) -> None:
        for k in seconds:
            recording.take([Sample(WAIT, BEGAN + k * NS, 0.25), Sample(COUNT, BEGAN + k * NS, 32.0 * k)])
            recording.beat(BEGAN * 10**6 + k * 2 * NS)

    def share() -> None:
        row = RunRow(id="x/run", node="x", name="train.py", folder=str(tmp_path / "run"), started=started)
        m8.put(Node(name="x", runs=("x/run",)), runs=(row,))

    def rates() -> tuple[float | None, ...]:
        return next((run.history.rate for run in view.poll(0).runs), ())

    m8 = served("m8")
    record(range(5))
    share()
    view = feed(m8.address)
    eventually(lambda: rates() == (32.0,) * 4)
    m8.stop()
    assert nodes(view)["m8"].rate == 32.0  # as of now, and not as of the last verdict, of which there is none
    record(range(5, 9))
    eventually(lambda: nodes(view)["m8"].link != "up")
    m8.start()
    share()
    eventually(lambda: rates() == (32.0,) * 8)
    seen: list[int] = []
    real = RunReader.step

    def step(reader: RunReader) -> tuple[list[list[Reading]], bool]:
        seen.extend(len(run.history.rate) for run in view.rounds[0].runs.values())
        return real(reader)

    monkeypatch.setattr(RunReader, "step", step)
    share()
    eventually(lambda: len(seen) > 2)
    assert set(seen) == {8}  # it does not vanish while more of it is read
    recording.close()


@pytest.mark.parametrize(
    "update",
    [
        b'{"until": 1, "nodes": 7}',
        b'{"until": "x"}',
        b"[]",
        msgspec.json.encode(Update(until=1, nodes=(Node(name="x"),) * 1100)),
    ],
    ids=["kind", "number", "list", "many"],
)
def test_rows_that_are_none_are_a_strangers(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait, update: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    m8 = served("m8")
    real = m8.desk.news
    monkeypatch.setattr(m8.desk, "news", lambda since: msgspec.structs.replace(real(since), update=msgspec.Raw(update)))
    view = feed(m8.address)
    eventually(lambda: nodes(view)["m8"].link == "foreign")


def test_names_that_mean_harm_are_made_harmless(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    chance = random.Random(8)
    bad = "".join(map(chr, [*range(32), 127, *range(128, 160), 0x202E, 0x200B, 0x2066, 0xFEFF]))

    def name() -> str:
        return "".join(chance.choice(bad + "abc/") for _ in range(chance.randrange(1, 40)))

    m8 = served("m8")
    tasks = tuple(TaskRow(pid=n, name=name(), role=name(), run=name()) for n in range(500))
    devices = tuple(DeviceRow(index=name(), name=name(), held=name()) for _ in range(100))
    m8.put(
        Node(
            name=name(), rack=name(), tasks=tasks, devices=devices, finding=name(), runs=("r",),
            unavailable={name(): name()},
        ),
        runs=(RunRow(id="r", node=name(), name=name(), folder=name(), why=name(), command=(name(), name())),),
    )  # fmt: skip
    view = feed(m8.address)
    eventually(lambda: nodes(view)["m8"].tasks)
    update = view.poll(0)
    found = list(_strings(msgspec.to_builtins(update)))
    assert len(found) > 1000
    assert [text for text in found if any(c in bad for c in text)] == []


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _strings(key)
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def test_nodes_that_the_host_file_gets_later_are_asked_as_well(
    served: Callable[..., Served], eventually: Wait, tmp_path: Path
) -> None:
    m8, m9 = served("m8"), served("m9")
    for each in (m8, m9):
        each.put(Node(name="x"))
    file = tmp_path / "hosts"
    file.write_text(f"m8={m8.address}\n")
    view = NodesFeed(hostfile(file), None, beat=0.1, file=file)
    try:
        eventually(lambda: {name: node.link for name, node in nodes(view).items()} == {"m8": "up"})
        file.write_text("")  # somebody is writing it
        assert set(nodes(view)) == {"m8"}
        file.write_text(f"m8={m8.address}\nm9={m9.address}\nm9={m9.address}\n")
        eventually(lambda: {name: node.link for name, node in nodes(view).items()} == {"m8": "up", "m9": "up"})
        m10 = served("m10")
        m10.put(Node(name="x", cpu=10.0))
        file.write_text(f"m9={m10.address}\n")  # it has moved
        eventually(lambda: nodes(view)["m9"].cpu == 10.0)
        file.unlink()
        assert set(nodes(view)) == {"m8", "m9"}
    finally:
        view.close()


def test_a_node_is_called_as_its_agent_is_unless_it_was_given_a_name(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    plain, given = served("a"), served("b")
    for each, name in ((plain, "gpu-node-7"), (given, "gpu-node-8")):
        each.put(Node(name=name, runs=(f"{name}/run",)), runs=(RunRow(id=f"{name}/run", node=name, name="train.py"),))
    view = feed(parse(str(plain.address)), parse(f"mine={given.address}"))
    eventually(lambda: set(nodes(view)) == {"gpu-node-7", "mine"})
    eventually(lambda: {run.id for run in view.poll(0).runs} == {"gpu-node-7/run", "mine/run"})
    plain.stop()
    eventually(lambda: nodes(view)["gpu-node-7"].link == "down")  # it is still called so


def test_two_agents_of_one_name_are_told_apart(
    served: Callable[..., Served], feed: Callable[..., NodesFeed], eventually: Wait
) -> None:
    two = [served("a"), served("b")]
    for each in two:
        each.put(Node(name="localhost"))
    view = feed(*(parse(str(each.address)) for each in two))
    wanted = [{"localhost", f"localhost ({each.address})"} for each in two]
    eventually(lambda: set(nodes(view)) in wanted)
