"""An agent measures its link to another one when it is asked to: one at a time, and only to an agent of its own."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.errors import BadUsage, GputuneError
from gputune.nodes import links
from gputune.nodes.links import Links
from gputune.wire import credentials
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.link_rate import NoLink
from gputune.wire.messages import LinkRate, WhichLink

QUICK = LinkRate(
    sent=1e9, sent_at_least=False, received=1e9, received_at_least=False, answer=1e-4, answer_least=1e-4, streams=4
)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("credentials")
    credentials.make(folder, ["127.0.0.1"])
    return folder


def ask(to: str) -> WhichLink:
    return WhichLink(to=to, seconds=0.2)


def test_two_agents_measure_their_link_with_what_a_node_has(
    agents: Callable[..., Any], made: Path, tmp_path: Path
) -> None:
    server = tmp_path / "node" / "server"  # the half that is copied to each node
    server.mkdir(parents=True)
    for name in ("server.pem", "server.key", "ca.pem", "token"):
        (server / name).write_bytes((made / "server" / name).read_bytes())
        (server / name).chmod(0o600)
    m8, m9 = (agents(name, "--listen", "127.0.0.1:0", "--credentials", str(tmp_path / "node")) for name in ("m8", "m9"))
    far = AgentClient(m8.address)
    link = far.link(m9.told["listen"], 0.2)
    assert min(link.sent, link.received) > 1e6
    assert 0 < link.answer_least <= link.answer
    m9.kill()
    with pytest.raises(AgentFailed, match="no agent listens on port") as failed:
        far.link(m9.told["listen"], 0.2)
    assert failed.value.said  # by m8, which answers
    assert far.hello().host == "m8"
    far.close()


def test_an_agent_without_credentials_says_what_makes_them(agents: Callable[..., Any], tmp_path: Path) -> None:
    m8 = agents("m8", "--credentials", str(tmp_path / "none"))
    far = AgentClient(m8.address)
    with pytest.raises(AgentFailed, match="cannot be read"):
        far.link("127.0.0.1:7070", 0.2)
    far.close()


def test_one_link_at_a_time(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def measure(address: Address, known: object, seconds: float) -> LinkRate:
        begun.set()
        over.wait(60)
        return QUICK

    monkeypatch.setattr(links, "measure", measure)
    asked = Links(made)
    found: list[LinkRate] = []
    first = threading.Thread(target=lambda: found.append(asked.measure(ask("m9"))))
    first.start()
    begun.wait(60)
    with pytest.raises(NoLink, match="another link at this moment"):
        asked.measure(ask("m9"))
    over.set()
    first.join(60)
    assert found == [QUICK]
    assert asked.measure(ask("m9")) == QUICK


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("unix:/run/a.sock", "a Unix socket is no link"),
        ("no-such-host.invalid", "its name does not resolve"),
        ("127.0.0.1:1", "no agent listens on port 1"),
        ("-oProxyCommand", "is not the name or address of a host"),
        ("m9:99999", "no port"),
    ],
)
def test_what_is_no_agent_is_told(made: Path, to: str, why: str) -> None:
    with pytest.raises((NoLink, BadUsage), match=why) as refused:
        Links(made).measure(ask(to))
    assert isinstance(refused.value, GputuneError)
