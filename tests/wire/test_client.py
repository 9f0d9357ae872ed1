"""What a client makes of agents that do not answer, of strangers, and of answers that nobody should believe."""

import json
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from gputune.recording.rows import ROWS
from gputune.wire import credentials, failing
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.credentials import Credentials
from gputune.wire.messages import LARGEST_ANSWER, META, PROTOCOL, CursorFields, Since


@pytest.fixture
def known(made: Path) -> Credentials:
    return credentials.read(made, credentials.CLIENT)


def failed(address: Address, known: Credentials | None = None) -> AgentFailed:
    """Return how asking for news fails."""
    far = AgentClient(address, known)
    try:
        with pytest.raises(AgentFailed) as error:
            far.news(Since())
        return error.value
    finally:
        far.close()


def test_somebody_elses_socket_is_not_asked(local: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp anybody may have put one where ours would be."""
    monkeypatch.setattr(failing.os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(failing, "ROOT", 10**6)
    found = failed(local)
    assert (found.state, found.why) == ("refused", "its socket belongs to another user")


def test_an_agent_answers_on_its_socket(local: Address) -> None:
    far = AgentClient(local)
    assert far.hello().host == "m8"
    assert far.news(Since()).life == "abc"
    assert far.document("machine", "run.json") == b"{}"
    pulled = far.pull("machine", CursorFields())
    assert [row.values for row in pulled.rows] == [[(0, 0.0)], [(0, 0.5)], [(0, 1.0)]]
    assert pulled.columns[0][0].name == "cpu.busy"
    assert far.pull("machine", pulled.said.next).rows == []
    far.close()


def test_an_agent_answers_behind_its_door(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials
) -> None:
    far = AgentClient(behind_a_door(made), known)
    assert far.news(Since()).life == "abc"
    assert len(far.pull("machine", CursorFields()).rows) == 3
    assert abs(far.offset) <= far.uncertain < 5
    far.close()


def test_an_agent_that_was_away_is_asked_anew(local: Address, shelf: Any, tmp_path: Path) -> None:
    far = AgentClient(local)
    gone = AgentClient(Address("m9", path=str(tmp_path / "none.sock")))
    with pytest.raises(AgentFailed):
        gone.news(Since())
    Path(local.path).rename(tmp_path / "none.sock")
    assert gone.news(Since()).life == "abc"
    gone.close()
    far.close()


def test_what_the_agent_says_no_to_is_told_in_its_words(local: Address) -> None:
    far = AgentClient(local)
    with pytest.raises(AgentFailed, match="there is no such run here"):
        far.document("other", "run.json")
    with pytest.raises(AgentFailed, match="there is no such run here"):
        far.pull("other", CursorFields())
    far.close()


def test_a_name_that_does_not_resolve(known: Credentials) -> None:
    error = failed(Address("m8", "no-such-host.invalid", 7070), known)
    assert (error.state, error.why) == ("down", "its name does not resolve")


def test_a_port_that_nobody_listens_on(known: Credentials) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = failed(Address("m8", "127.0.0.1", port), known)
    assert (error.state, error.why) == ("down", f"no agent listens on port {port}")


def test_a_socket_that_is_not_there_and_one_that_nobody_listens_on(tmp_path: Path) -> None:
    assert "no such socket" in failed(Address("m8", path=str(tmp_path / "a.sock"))).why
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "b.sock"))
    assert "nobody listens" in failed(Address("m8", path=str(tmp_path / "b.sock"))).why


def test_a_host_without_credentials_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = failed(Address("m8", "127.0.0.1", server.getsockname()[1]))
    assert error.state == "refused"
    assert "no credentials" in error.why


def test_the_token_of_another(behind_a_door: Callable[..., Address], made: Path, known: Credentials) -> None:
    wrong = Credentials(known.authority, "x" * 40)
    error = failed(behind_a_door(made), wrong)
    assert (error.state, error.why) == ("refused", "our token is not the one it wants")


def test_a_certificate_for_another_name(behind_a_door: Callable[..., Address], tmp_path: Path, shelf: Any) -> None:
    credentials.make(tmp_path / "c", ["m8.example"])
    error = failed(behind_a_door(tmp_path / "c"), credentials.read(tmp_path / "c", "client"))
    assert (error.state, error.why) == ("refused", "its certificate is for another name")
    assert shelf.calls == 0


def test_a_certificate_of_another_authority(behind_a_door: Callable[..., Address], made: Path, others: Path) -> None:
    error = failed(behind_a_door(made), credentials.read(others, "client"))
    assert (error.state, error.why) == ("refused", "its certificate was signed by another authority")


def test_an_agent_that_wants_a_certificate(
    behind_a_door: Callable[..., Address], made: Path, known: Credentials
) -> None:
    error = failed(behind_a_door(made, mutual=True), Credentials(known.authority, known.token))
    assert error.state == "refused"
    assert "wants a certificate" in error.why


@pytest.fixture
def stranger(request: pytest.FixtureRequest) -> Iterator[Address]:
    """Somebody on TCP who is no agent: says what the parameter says to whoever comes, or nothing."""
    said: bytes | None = request.param
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            held.append(peer)
            if said is not None:
                peer.sendall(said)
                peer.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Address("m8", "127.0.0.1", server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for peer in held:
        peer.close()
    thread.join(20)


@pytest.mark.parametrize(
    "stranger", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"\0" * 999], indirect=True
)
def test_a_stranger_is_no_agent(stranger: Address, known: Credentials) -> None:
    error = failed(stranger, known)
    assert (error.state, error.why) == ("foreign", "what listens there speaks no TLS")


@pytest.mark.parametrize("stranger", [b""], indirect=True)
def test_who_hangs_up_without_a_word_may_be_an_agent_that_is_full(stranger: Address, known: Credentials) -> None:
    error = failed(stranger, known)
    assert (error.state, error.why) == ("down", "it hung up: too many connections, or no agent")


@pytest.mark.parametrize("stranger", [None], indirect=True)
def test_who_never_answers_costs_some_seconds(
    stranger: Address, known: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing, "PATIENCE", 0.2)
    monkeypatch.setattr("gputune.wire.client.PATIENCE", 0.5)
    error = failed(stranger, known)
    assert error.state == "down"
    assert "did not answer" in error.why


def test_another_version(local: Address, shelf: Any) -> None:
    shelf.protocol = PROTOCOL + 1
    error = failed(local)
    assert error.state == "foreign"
    assert f"speaks version {PROTOCOL + 1}" in error.why
    far = AgentClient(local)
    with pytest.raises(AgentFailed, match="speaks version"):
        far.pull("machine", CursorFields())
    far.close()


class Liar(flight.FlightServerBase):
    """Answers each action with `answer`, and each ticket with `table` in messages of `chunk` rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(flight.Location.for_grpc_unix(str(path)))
        self.answer = b""
        self.table = pa.table({"a": [1]})

    def do_action(self, context: object, action: object) -> Iterator[bytes]:
        return iter([self.answer])

    def do_get(self, context: object, ticket: object) -> object:
        return flight.RecordBatchStream(self.table)


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Liar]:
    server = Liar(tmp_path / "liar.sock")
    yield server
    server.shutdown()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"protocol": 1}',
        b'{"protocol":1,"life":1,"unix":"x","update":{}}',
        b"null",
        b"9" * 5000,
    ],
)
def test_nonsense_is_not_believed(liar: Liar, tmp_path: Path, answer: bytes) -> None:
    liar.answer = answer
    error = failed(Address("m8", path=str(tmp_path / "liar.sock")))
    assert error.state in {"foreign", "down"}


def test_a_hundred_times_too_much_is_not_taken(liar: Liar, tmp_path: Path) -> None:
    liar.answer = bytes(LARGEST_ANSWER * 4)
    error = failed(Address("m8", path=str(tmp_path / "liar.sock")))
    assert error.state == "foreign"
    assert "sends more than 8 MiB" in error.why


def rows(count: int, **changes: object) -> pa.Table:
    """Return a table of `count` rows that says of itself what an agent says, and `changes`."""
    said = {
        "protocol": PROTOCOL, "run": "machine", "rows": count, "next": [1, count, 0, "frames"], "columns": [],
        "anew": False, "more": False, "missed": False, "clocks": 0, "unix": 0.0, **changes,
    }  # fmt: skip
    columns = [pa.array([1] * count), pa.array([[0]] * count), pa.array([[1.0]] * count)]
    arrays = [c.cast(f.type) for c, f in zip(columns, ROWS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ROWS.with_metadata({META: json.dumps(said)}))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1]}),
        rows(3).replace_schema_metadata(None),
        rows(3).replace_schema_metadata({META: b"{"}),
        rows(3, rows=2),
        rows(3, rows=10**9),
        rows(3, columns=[[0, "{"]]),
        rows(3, columns=[[0, "[1, 2, 3, 4, 5, 6]"]]),
        rows(3, columns=[[0, '["a", "b", "c", "rm", "", ""]']]),
        rows(3, protocol=7),
        rows(3, next="x"),
    ],
    ids=["schema", "unsaid", "broken", "more", "fewer", "column", "numbers", "kind", "version", "next"],
)
def test_samples_that_are_none_are_not_believed(liar: Liar, tmp_path: Path, table: pa.Table) -> None:
    liar.table = table
    far = AgentClient(Address("m8", path=str(tmp_path / "liar.sock")))
    with pytest.raises(AgentFailed):
        far.pull("machine", CursorFields())
    far.close()


def test_names_of_columns_are_made_harmless(liar: Liar, tmp_path: Path) -> None:
    evil = json.dumps(["gpu.busy\x1b]52;c;x\x07", "\u202e", "", "gauge", "gpu", "0\x1b[2J"])
    liar.table = rows(1, columns=[[0, evil]])
    far = AgentClient(Address("m8", path=str(tmp_path / "liar.sock")))
    metric, instance = far.pull("machine", CursorFields()).columns[0]
    for text in (metric.name, metric.unit, instance):
        assert not any(ord(c) < 32 or c == "\u202e" for c in text)
    far.close()


def test_a_clock_is_known_as_well_as_the_answer_was_quick(local: Address) -> None:
    far = AgentClient(local)
    assert math.isinf(far.uncertain)
    far.hello()
    assert abs(far.offset) <= far.uncertain
    far.close()


def test_words_of_an_agent_are_made_harmless(local: Address, shelf: Any) -> None:
    def document(run: str, name: str) -> bytes:
        from gputune.core.errors import GputuneError

        raise GputuneError("\x1b]52;c;evil\x07", hint="")

    shelf.document = document
    far = AgentClient(local)
    with pytest.raises(AgentFailed) as error:
        far.document("machine", "run.json")
    assert "\x1b" not in str(error.value)
    far.close()


def test_messages_take_fields_of_a_later_version() -> None:
    assert msgspec.json.decode(b'{"protocol": 1, "until": 4, "new": 1}', type=Since).until == 4


def test_a_link_that_falls_silent_while_samples_are_asked_for_costs_seconds(
    liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr("gputune.wire.client.PATIENCE_SAMPLES", 0.5)
    monkeypatch.setattr(type(liar), "do_get", lambda *_: over.wait(20))
    far = AgentClient(Address("m8", path=str(tmp_path / "liar.sock")))
    with pytest.raises(AgentFailed, match="did not answer in time"):
        far.pull("machine", CursorFields())
    over.set()
    far.close()
