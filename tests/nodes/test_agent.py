"""An agent: one process that reads its machine, writes that down, and serves it; whatever is done to it."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputune.core.sample import Sample
from gputune.feeds.rows import Update
from gputune.nodes.feed import NodesFeed
from gputune.recording import readings
from gputune.recording.about import sealed
from gputune.wire import credentials
from gputune.wire.address import Address, parse
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.keeping import RunReader
from gputune.wire.messages import MACHINE, CursorFields, Since

Wait = Callable[[Callable[[], object]], None]


def written(folder: Path) -> list[int]:
    """Return the times of all ticks that are on the disk, in µs."""
    return [
        max(r.t for r in tick if isinstance(r, Sample)) // 1000
        for tick in readings(folder)
        if any(isinstance(r, Sample) for r in tick)
    ]


def test_serves_its_machine(agents: Callable[..., Any]) -> None:
    agent = agents("m8")
    far = AgentClient(agent.address)
    hello = far.hello()
    assert hello.host == "m8"
    assert hello.runs[0] == MACHINE
    news = far.news(Since())
    (node,) = msgspec.json.decode(news.update, type=Update).nodes
    assert node.name == "m8"
    assert node.memory_total
    again = far.news(Since(until=news.unix and msgspec.json.decode(news.update, type=Update).until, life=news.life))
    assert not again.whole
    far.close()
    assert stat.S_IMODE(Path(agent.address.path).stat().st_mode) == 0o600
    assert agent.end() == 0
    assert not Path(agent.address.path).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_well(agents: Callable[..., Any], number: int) -> None:
    assert agents().end(number) == 0


def test_what_it_recorded_is_read_on_exactly_after_it_was_killed(agents: Callable[..., Any], eventually: Wait) -> None:
    agent = agents()
    reader, ticks = RunReader(AgentClient(agent.address)), list[list[object]]()

    def read_on() -> None:
        try:
            more = True
            while more:
                found, more = reader.step()
                ticks.extend(found)
        except AgentFailed:
            pass

    for _ in range(2):
        before = len(ticks)
        eventually(lambda before=before: read_on() or len(ticks) > before + 1)
        agent.kill()
        agent.start()
    agent.end()
    there = written(agent.recording)
    agent.start()
    eventually(lambda: read_on() or len(ticks) > len(there))
    times = [max(s.t for s in tick) // 1000 for tick in ticks if tick]  # type: ignore[attr-defined]
    assert times[: len(there)] == there
    assert times == sorted(set(times))
    assert reader.missed == 0
    reader.far.close()


def test_a_second_one_is_refused_and_the_first_one_lives(agents: Callable[..., Any]) -> None:
    agent = agents()
    for words in (
        ["--state", str(agent.folder / "state")],
        ["--state", str(agent.folder / "2"), "--socket", agent.address.path],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "gputune", "agent", "--socket", str(agent.folder / "s" / "b.sock"), *words],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "runs here already" in done.stderr
        assert "Traceback" not in done.stderr
    far = AgentClient(agent.address)
    assert far.hello().host == "m8"
    far.close()


def test_it_listens_only_with_tls_and_a_token(agents: Callable[..., Any], tmp_path: Path) -> None:
    credentials.make(tmp_path / "c", ["127.0.0.1"])
    agent = agents("m8", "--listen", "127.0.0.1:0", "--credentials", str(tmp_path / "c"))
    address = parse(f"m8={agent.told['listen']}")
    far = AgentClient(address, credentials.read(tmp_path / "c", "client"))
    assert far.hello().host == "m8"
    far.close()
    nobody = AgentClient(Address("m8", address.host, address.port))
    with pytest.raises(AgentFailed, match="no credentials"):
        nobody.hello()


def test_who_is_refused_says_so_and_goes_on_with_the_token_that_lies_there_by_then(
    agents: Callable[..., Any], tmp_path: Path, eventually: Wait
) -> None:
    credentials.make(tmp_path / "c", ["127.0.0.1"])
    agent = agents("m8", "--listen", "127.0.0.1:0", "--credentials", str(tmp_path / "c"))
    token = tmp_path / "c" / "client" / "token"
    new = token.read_text()
    token.write_text("x" * 43 + "\n")  # of before it was rotated
    view = NodesFeed([parse(f"m8={agent.told['listen']}")], credentials.wanted(tmp_path / "c"), beat=0.1)

    def told() -> tuple[str, str]:
        (node,) = view.poll(0).nodes
        return node.link, node.why

    try:
        eventually(lambda: told() == ("refused", "our token is not the one it wants"))
        token.write_text("")  # somebody is writing it
        eventually(lambda: told()[0] == "refused")
        token.write_text(new)
        eventually(lambda: told()[0] == "up")
    finally:
        view.close()


def test_it_ends_with_its_input(agents: Callable[..., Any]) -> None:
    agent = agents("m8", "--until-eof")
    process = agent.process
    assert process is not None
    assert process.stdin is not None
    process.stdin.write("hello?\n")
    process.stdin.flush()
    AgentClient(agent.address).hello()
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_rebooted_machine_begins_a_new_recording(agents: Callable[..., Any], eventually: Wait) -> None:
    agent = agents()
    eventually(lambda: len(written(agent.recording)) > 1)
    agent.end()
    about = agent.recording / "run.json"
    told = json.loads(about.read_text())
    about.write_bytes(sealed({**told, "boot": f"other-{told['boot']}"}))
    agent.start()
    assert (agent.folder / "state" / "machine-before" / "run.json").exists()
    far = AgentClient(agent.address)
    eventually(lambda: len(far.pull(MACHINE, CursorFields()).rows) > 1)
    far.close()


def test_a_damaged_recording_is_put_aside(agents: Callable[..., Any], eventually: Wait) -> None:
    agent = agents()
    agent.end()
    (agent.recording / "run.json").write_text("{")
    agent.start()
    far = AgentClient(agent.address)
    eventually(lambda: far.pull(MACHINE, CursorFields()).rows)
    far.close()


def test_a_relays_rack_is_that_of_nodes_that_name_none(agents: Callable[..., Any], eventually: Wait) -> None:
    m8, m9 = agents("m8", "--rack", "r7"), agents("m9")
    relay = agents("rack-1", "--rack", "r9", "--relay", f"m8={m8.address},m9={m9.address}")
    far = AgentClient(relay.address)

    def racks() -> dict[str, tuple[str, str]]:
        update = msgspec.json.decode(far.news(Since()).update, type=Update)
        return {node.name: (node.rack, node.link) for node in update.nodes}

    eventually(lambda: racks() == {"m8": ("r7", "up"), "m9": ("r9", "up")})
    far.close()


def test_a_relay_answers_for_others_with_rows_but_without_samples(
    agents: Callable[..., Any], eventually: Wait, tmp_path: Path
) -> None:
    m8 = agents("m8")
    relay = agents("rack-1", "--relay", f"m8={m8.address},m9=unix:{tmp_path / 'none'}")
    far = AgentClient(relay.address)

    def links() -> dict[str, str]:
        update = msgspec.json.decode(far.news(Since()).update, type=Update)
        return {node.name: node.link for node in update.nodes}

    eventually(lambda: links() == {"m8": "up", "m9": "down"})
    assert far.hello().runs == ()
    with pytest.raises(AgentFailed, match="there is no such run here"):
        far.pull(MACHINE, CursorFields())
    far.close()


HANGING = """
import sys, time
from pathlib import Path
from gputune.nodes import agent, desk
from gputune.feeds.rows import Update

class Stuck:  # what it asks does not answer: a mount whose server is gone
    def __init__(self, *args, **options):
        self.asked = 0
    def poll(self, since):
        self.asked += 1
        while self.asked > 1:
            time.sleep(1000)
        return Update(until=1)
    def close(self):
        pass

agent.LocalFeed, agent.STUCK, desk.HANGING = Stuck, 1.0, 2.0
folder = Path(sys.argv[1])
places = {"state": folder / "state", "socket": folder / "s" / "a.sock", "announce": folder / "announced"}
agent.run(agent.AgentOptions(name="m8", **places))
"""


def test_an_agent_whose_reader_hangs_is_not_up_and_ends_when_it_is_told_to(
    tmp_path: Path, popen: Callable[..., Any], eventually: Wait
) -> None:
    with popen([sys.executable, "-c", HANGING, str(tmp_path)]) as process:
        eventually((tmp_path / "announced").exists)
        far = AgentClient(Address("m8", path=str(tmp_path / "s" / "a.sock")))

        def hangs() -> bool:
            try:
                far.news(Since())
            except AgentFailed as failed:
                return failed.state == "down" and "its reader hangs" in failed.why
            return False

        eventually(hangs)
        far.close()
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
        assert not (tmp_path / "s").exists()


def test_a_screen_is_told_how_its_machine_went_also_before_the_screen_was_there(
    agents: Callable[..., Any], eventually: Wait
) -> None:
    agent = agents("m8")
    view = NodesFeed([agent.address], None, beat=0.1)

    def known(what: str) -> int:
        past = view.poll(0).past
        curves = past.curves if past is not None else ()
        return max((sum(v is not None for v in curve.values) for curve in curves if curve.what == what), default=0)

    try:
        eventually(lambda: view.rounds[0].link == "up")
        assert view.poll(0).past is None  # nobody has asked
        view.look_at("m8", 0)
        eventually(lambda: known("cpu") >= 2)
        assert known("host memory") >= 2
        view.look_at("", 0)
        assert view.poll(0).past is None
    finally:
        view.close()
