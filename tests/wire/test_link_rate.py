"""How fast a link is: what a link that is held back carries, who may ask for it, and who is told nothing."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.wire import credentials, link_rate
from gputune.wire.address import Address
from gputune.wire.credentials import Credentials
from gputune.wire.door import Door
from gputune.wire.link_rate import NoLink, Transferred, bounded, measure
from gputune.wire.messages import LINK_ALPN, LONGEST_ASK

PACE = 8e6  # B/s of the narrow link, each way


@pytest.fixture
def known(made: Path) -> Credentials:
    return credentials.read(made, credentials.CLIENT)


class Narrow:
    """A link that is slower than both of its ends: each of four connections has a quarter of `PACE`."""

    def __init__(self, to: Address) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = Address("m8", "127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection((self._to.host, self._to.port), 20)
                for each in (here, there):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                    self._open.append(each)
                for source, sink in ((here, there), (there, here)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 14):
                sink.sendall(data)
                time.sleep(len(data) / (PACE / link_rate.STREAMS))
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def narrow() -> Iterator[Callable[[Address], Address]]:
    """A maker of narrow links to an agent."""
    with ExitStack() as stack:

        def make(to: Address) -> Address:
            found = Narrow(to)
            stack.callback(found.close)
            return found.address

        yield make


def test_a_narrow_link_is_measured_as_it_is(
    behind_a_door: Callable[..., Address], narrow: Callable[[Address], Address], made: Path, known: Credentials
) -> None:
    link = measure(narrow(behind_a_door(made)), known, 0.8)
    for rate in (link.sent, link.received):
        assert 0.25 * PACE < rate < 1.1 * PACE  # a busy machine sleeps longer than it is told, and never less
    assert 0 < link.answer_least <= link.answer < 20


def test_a_quick_link_is_measured_in_a_moment(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials
) -> None:
    link = measure(behind_a_door(made), known, 0.3)
    assert min(link.sent, link.received) > PACE
    assert link.streams == link_rate.STREAMS


@pytest.mark.parametrize(
    ("pressed", "at_least"),
    [([0.9, 0.95, 0.8, 0.2], False), ([0.9, 0.9, 0.1, 0.1], True), ([None] * 4, True), ([], True)],
    ids=["link", "half", "unknown", "unsaid"],
)
def test_a_link_that_was_not_waited_for_carries_at_least_so_much(pressed: list[float | None], at_least: bool) -> None:
    counted = Transferred(moved=1, seconds=1.0)
    flows = [(counted, Transferred(moved=1, seconds=1.0, pressed=share)) for share in pressed] or [(counted, None)] * 4
    assert link_rate._at_least(flows) is at_least


@pytest.mark.parametrize("token", ["", "wrong" * 8])
def test_nothing_is_measured_without_the_token(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials, token: str
) -> None:
    with pytest.raises(NoLink, match="our token is not the one it wants"):
        measure(behind_a_door(made), replace(known, token=token), 0.2)


def test_the_token_is_told_to_no_other_authority(
    behind_a_door: Callable[..., Address], made: Path, others: Path
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        measure(behind_a_door(made), credentials.read(others, credentials.CLIENT), 0.2)


def test_where_certificates_are_wanted_one_is_needed(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials
) -> None:
    address = behind_a_door(made, mutual=True)
    with pytest.raises(OSError):  # noqa: PT011 - an alert, or a reset, as TLS comes to tell it
        measure(address, replace(known, certificate=b"", key=b""), 0.2)
    assert measure(address, known, 0.2).sent > 0


@pytest.mark.parametrize(
    "said",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b'{"token": "x", "want": "rm"}\n',
        b"x" * (LONGEST_ASK + 1),
        b'{"token": 1}\n',
    ],
)
def test_who_says_nonsense_is_answered_with_nothing(
    behind_a_door: Callable[..., Address], made: Path, said: bytes
) -> None:
    address = behind_a_door(made)
    context = ssl.create_default_context(cafile=str(made / "client" / "ca.pem"))
    context.set_alpn_protocols([LINK_ALPN])
    with (
        socket.create_connection((address.host, address.port), 20) as raw,
        context.wrap_socket(raw, server_hostname=address.host) as peer,
    ):
        peer.sendall(said)
        with suppress(OSError):
            assert peer.recv(100) == b""


def test_who_has_the_token_and_says_nonsense_ends_nothing_but_its_connection(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    address = behind_a_door(made)
    context = ssl.create_default_context(cafile=str(made / "client" / "ca.pem"))
    context.set_alpn_protocols([LINK_ALPN])
    with (
        socket.create_connection((address.host, address.port), 20) as raw,
        context.wrap_socket(raw, server_hostname=address.host) as peer,
    ):
        peer.sendall(json.dumps({"token": known.token, "want": "take", "seconds": 0.2}).encode() + b"\n")
        assert peer.recv(1) == b"+"
        peer.sendall(bytes(1000) + b"nonsense\n")
        with suppress(OSError):
            assert peer.recv(100) == b""
    assert measure(address, known, 0.2).sent > 0
    assert raised == []


def test_a_peer_that_wants_too_much_gets_as_much_as_anybody() -> None:
    assert bounded(1e9) == 5.0
    assert bounded(-1) == 0.2
    assert bounded(float("inf")) == 5.0


def test_an_agent_that_knows_no_such_thing_is_told(made: Path, tmp_path: Path, known: Credentials) -> None:
    own = credentials.read(made, credentials.SERVER)
    context = credentials.context(own.folder, mutual=False)
    context.set_alpn_protocols(["h2"])
    door = Door("127.0.0.1", 0, context, tmp_path / "nobody.sock", own.accepted)
    door.open()
    with pytest.raises(NoLink, match="older gputune"):
        measure(Address("m8", "127.0.0.1", door.port), known, 0.2)
    door.close()


@pytest.mark.parametrize("answer", [b"+", b"+x\n", b'+{"moved": 1}\n', b"+" + b"\0" * 100 + b"\xff\n"])
def test_an_agent_that_lies_is_not_believed(made: Path, known: Credentials, answer: bytes) -> None:
    context = credentials.context(made / "server", mutual=False)
    server = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        with suppress(OSError, ValueError), context.wrap_socket(peer, server_side=True) as stream:
            wish = json.loads(stream.recv(LONGEST_ASK))
            stream.sendall(b"+" if wish["want"] == "echo" else answer)
            while wish["want"] == "echo" and (data := stream.recv(64)):
                stream.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with pytest.raises((NoLink, OSError)):
        measure(Address("m8", "127.0.0.1", server.getsockname()[1]), known, 0.2)
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(20)
