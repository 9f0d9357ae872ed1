"""Who may ask what: every kind of Flight call, with the token, without it, with a wrong one, without TLS."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from gputune.recording.rows import ROWS
from gputune.wire import credentials
from gputune.wire.address import Address
from gputune.wire.messages import LONGEST_ASK

RUN = flight.FlightDescriptor.for_path("machine")


class Handshake(flight.ClientAuthHandler):
    """What a client says that wants to log in."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(b"let me in")
        incoming.read()

    def get_token(self) -> bytes:
        return b""


def put(client: Any, options: Any) -> None:
    writer, reader = client.do_put(RUN, ROWS, options)
    writer.close()
    reader.read()


def exchange(client: Any, options: Any) -> None:
    writer, reader = client.do_exchange(RUN, options)
    writer.done_writing()
    reader.read_chunk()
    writer.close()


def get_schema(client: Any, options: Any) -> object:
    """Ask for a schema; pyarrow has an OSError for whatever fails here, which says what it is in its words."""
    try:
        return client.get_schema(RUN, options)
    except OSError as error:
        kind = flight.FlightUnauthenticatedError if "Unauthenticated" in str(error) else flight.FlightUnavailableError
        raise kind(str(error)) from None


READING: dict[str, Callable[[Any, Any], object]] = {
    "list_flights": lambda c, o: list(c.list_flights(options=o)),
    "get_flight_info": lambda c, o: c.get_flight_info(RUN, o),
    "get_schema": get_schema,
    "do_get": lambda c, o: c.do_get(flight.Ticket(b'{"run": "machine"}'), o).read_all(),
    "do_action": lambda c, o: list(c.do_action(flight.Action("hello", b""), o)),
    "list_actions": lambda c, o: list(c.list_actions(o)),
}
WRITING: dict[str, Callable[[Any, Any], object]] = {
    "do_put": put,
    "do_exchange": exchange,
    "handshake": lambda c, o: c.authenticate(Handshake(), o),
}
CALLS = {**READING, **WRITING}


def client_of(address: Address, **options: Any) -> Any:
    return flight.FlightClient(f"grpc+tls://{address.host}:{address.port}", **options)


def bearing(token: str | None) -> Any:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return flight.FlightCallOptions(timeout=20, headers=headers)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("token", [None, "", "wrong", "wrong" * 1000], ids=["none", "empty", "wrong", "long"])
def test_no_kind_of_call_is_answered_without_the_token(
    behind_a_door: Callable[..., Address], made: Path, shelf: Any, call: str, token: str | None
) -> None:
    known = credentials.read(made, credentials.CLIENT)
    client = client_of(behind_a_door(made), tls_root_certs=known.authority)
    with pytest.raises(flight.FlightUnauthenticatedError):
        CALLS[call](client, bearing(token))
    assert shelf.calls == 0
    client.close()


@pytest.mark.parametrize("call", READING)
def test_every_reading_call_is_answered_with_the_token(
    behind_a_door: Callable[..., Address], made: Path, call: str
) -> None:
    known = credentials.read(made, credentials.CLIENT)
    client = client_of(behind_a_door(made), tls_root_certs=known.authority)
    assert READING[call](client, bearing(known.token))
    client.close()


@pytest.mark.parametrize("call", WRITING)
def test_nothing_can_be_written(behind_a_door: Callable[..., Address], made: Path, shelf: Any, call: str) -> None:
    known = credentials.read(made, credentials.CLIENT)
    client = client_of(behind_a_door(made), tls_root_certs=known.authority)
    with pytest.raises((NotImplementedError, pa.ArrowNotImplementedError, flight.FlightUnauthenticatedError)):
        WRITING[call](client, bearing(known.token))
    assert shelf.calls == 0
    client.close()


@pytest.mark.parametrize("call", CALLS)
def test_no_kind_of_call_is_answered_without_tls(
    behind_a_door: Callable[..., Address], made: Path, shelf: Any, call: str
) -> None:
    address = behind_a_door(made)
    known = credentials.read(made, credentials.CLIENT)
    client = flight.FlightClient(f"grpc://{address.host}:{address.port}")
    with pytest.raises((flight.FlightUnavailableError, flight.FlightInternalError)):
        CALLS[call](client, bearing(known.token))
    assert shelf.calls == 0
    client.close()


@pytest.mark.parametrize("call", CALLS)
def test_a_client_believes_no_other_authority(
    behind_a_door: Callable[..., Address], made: Path, others: Path, shelf: Any, call: str
) -> None:
    wrong = credentials.read(others, credentials.CLIENT)
    client = client_of(behind_a_door(made), tls_root_certs=wrong.authority)
    with pytest.raises(flight.FlightUnavailableError):
        CALLS[call](client, bearing(wrong.token))
    assert shelf.calls == 0
    client.close()


@pytest.mark.parametrize("whose", ["nobody", "others"])
def test_with_mutual_tls_a_client_needs_a_certificate_of_the_authority(
    behind_a_door: Callable[..., Address], made: Path, others: Path, shelf: Any, whose: str
) -> None:
    known, other = credentials.read(made, credentials.CLIENT), credentials.read(others, credentials.CLIENT)
    address = behind_a_door(made, mutual=True)
    given = {"cert_chain": other.certificate, "private_key": other.key} if whose == "others" else {}
    client = client_of(address, tls_root_certs=known.authority, **given)
    with pytest.raises(flight.FlightUnavailableError):
        READING["do_action"](client, bearing(known.token))
    assert shelf.calls == 0
    client.close()
    own = {"cert_chain": known.certificate, "private_key": known.key}
    client = client_of(address, tls_root_certs=known.authority, **own)
    assert READING["do_action"](client, bearing(known.token))
    client.close()


def test_the_unix_socket_is_its_users_own(local: Address) -> None:
    about = Path(local.path).stat()
    assert stat.S_ISSOCK(about.st_mode)
    assert stat.S_IMODE(about.st_mode) == 0o600


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("rm", b""),
        ("news", b"{"),
        ("news", b'{"protocol": 99}'),
        ("news", b" " * (LONGEST_ASK + 1)),
        ("news", b"\xff"),
        ("document", b'{"run": "machine", "name": "../../etc/passwd"}'),
        ("document", b'{"run": "../x", "name": "run.json"}'),
    ],
)
def test_what_is_not_understood_is_refused_without_a_traceback(local: Address, kind: str, body: bytes) -> None:
    client = flight.FlightClient(f"grpc+unix://{local.path}")
    with pytest.raises(flight.FlightServerError) as refused:
        list(client.do_action(flight.Action(kind, body), bearing(None)))
    assert "Traceback" not in str(refused.value)
    assert "gputune/" not in str(refused.value)
    client.close()


@pytest.mark.parametrize(
    "ticket", [b"", b"machine", b"{}", b'{"run": "no"}', b'{"run": 1}', b'{"run":"machine","since":[-1]}']
)
def test_a_ticket_of_nothing_is_refused(local: Address, ticket: bytes) -> None:
    client = flight.FlightClient(f"grpc+unix://{local.path}")
    if b"since" in ticket:
        assert client.do_get(flight.Ticket(ticket), bearing(None)).read_all().num_rows <= 3
    else:
        with pytest.raises(flight.FlightServerError):
            client.do_get(flight.Ticket(ticket), bearing(None)).read_all()
    client.close()
