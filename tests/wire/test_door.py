"""The door bounds who comes in and what they send, before a byte of it is a message."""

import socket
import ssl
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.wire import credentials, door
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed


def connected(address: Address, folder: Path, alpn: str = "h2") -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(folder / "client" / "ca.pem"))
    context.set_alpn_protocols([alpn])
    raw = socket.create_connection((address.host, address.port), 20)
    return context.wrap_socket(raw, server_hostname=address.host)


def is_closed(peer: socket.socket) -> bool:
    """Return whether the other side hangs up within 20 s; what it says until then is passed over."""
    peer.settimeout(20)
    try:
        while peer.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_who_sends_too_much_is_sent_away(behind_a_door: Callable[..., Address], made: Path) -> None:
    address = behind_a_door(made)
    with connected(address, made) as peer:
        with suppress(OSError):  # at which of the writes it notices is the system's affair
            for _ in range(100):
                peer.sendall(bytes(door.BURST // 10))
        assert is_closed(peer)
    far = AgentClient(address, credentials.read(made, credentials.CLIENT))
    assert far.hello().host == "m8"
    far.close()


def test_one_address_cannot_take_all_places(behind_a_door: Callable[..., Address], made: Path) -> None:
    address = behind_a_door(made)
    peers = [socket.create_connection((address.host, address.port), 20) for _ in range(door.MOST_OF_ONE + 1)]
    assert is_closed(peers[-1])
    for peer in peers:
        peer.close()


def test_a_peer_that_never_speaks_holds_up_nobody(behind_a_door: Callable[..., Address], made: Path) -> None:
    address = behind_a_door(made)
    with socket.create_connection((address.host, address.port), 20) as silent:
        far = AgentClient(address, credentials.read(made, credentials.CLIENT))
        assert far.hello().host == "m8"
        far.close()
        assert is_closed(silent)  # once its time for the handshake is over


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"SSH-2.0-x\r\n"])
def test_what_is_no_tls_is_sent_away(behind_a_door: Callable[..., Address], made: Path, said: bytes) -> None:
    address = behind_a_door(made)
    with socket.create_connection((address.host, address.port), 20) as peer:
        peer.sendall(said)
        assert is_closed(peer)


def test_what_does_not_want_to_speak_grpc_is_sent_away(behind_a_door: Callable[..., Address], made: Path) -> None:
    address = behind_a_door(made)
    try:
        with connected(address, made, alpn="http/1.1") as peer:
            assert is_closed(peer)
    except ssl.SSLError:  # where the handshake itself has failed
        pass


def test_who_gets_no_answer_is_sent_away_and_makes_room(
    behind_a_door: Callable[..., Address], made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no token may shake hands, and say that it is alive for as long as it likes."""
    monkeypatch.setattr(door, "UNANSWERED", 1.0)
    monkeypatch.setattr(door, "MOST_OF_ONE", 4)
    address = behind_a_door(made)
    known = credentials.read(made, credentials.CLIENT)
    far = AgentClient(address, known)
    assert far.hello().host == "m8"
    strangers = [connected(address, made) for _ in range(3)]
    for peer in strangers:
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    assert all(is_closed(peer) for peer in strangers)
    another = AgentClient(address, replace(known, token="wrong" * 8))
    with pytest.raises(AgentFailed, match="token"):
        another.hello()
    assert far.hello().host == "m8"  # whose connection is older than all of theirs
    for each in (*strangers, far, another):
        each.close()


def test_an_answer_is_found_wherever_it_is_cut() -> None:
    refused = bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + b"\0" * 6 + bytes([0, 0, 3, 1, 5, 0, 0, 0, 1]) + b"\0\0\0"
    answered = refused + bytes([0, 0, 1, 0, 0, 0, 0, 0, 1]) + b"x"
    for cut in range(1, len(answered)):
        answers = door.Answers()
        for at in range(0, len(refused), cut):
            answers.take(refused[at : at + cut])
        assert not answers.any
        answers = door.Answers()
        for at in range(0, len(answered), cut):
            answers.take(answered[at : at + cut])
        assert answers.any


def test_a_port_in_use_is_told_with_the_next_one(made: Path, tmp_path: Path) -> None:
    context = credentials.context(made / "server", mutual=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(door.AgentPortTaken) as refused:
            door.Door("127.0.0.1", port, context, tmp_path / "x", ["token"])
    assert f"port {port} of `127.0.0.1` is in use" in str(refused.value)
    assert f"--listen 127.0.0.1:{port + 1}" in str(refused.value)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_refused(made: Path, tmp_path: Path, host: str) -> None:
    context = credentials.context(made / "server", mutual=False)
    with pytest.raises(BadUsage):
        door.Door(host, 0, context, tmp_path / "x", ["token"])


def test_an_allowance_fills_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [0.0]
    monkeypatch.setattr(door.time, "monotonic", lambda: at[0])
    allowance = door.Allowance()
    assert allowance.spend(door.BURST)
    assert not allowance.spend(1)
    at[0] = 1.0
    assert allowance.spend(door.RATE - 1)
    assert not allowance.spend(2)


def test_who_has_the_token_before_gets_in_until_the_next_one(
    behind_a_door: Callable[..., Address], tmp_path: Path
) -> None:
    credentials.make(tmp_path / "c", ["127.0.0.1"])
    known = [credentials.read(tmp_path / "c", credentials.CLIENT)]
    for _ in range(2):
        credentials.make(tmp_path / "c", [], rotate=True)
        known.append(credentials.read(tmp_path / "c", credentials.CLIENT))
    address = behind_a_door(tmp_path / "c")
    for own, refused in zip(known, (True, False, False), strict=True):
        far = AgentClient(address, own)
        with pytest.raises(AgentFailed, match="token") if refused else nullcontext():
            assert far.hello().host == "m8"
        far.close()
