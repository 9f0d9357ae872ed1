"""An agent's Flight service: it answers who is there, what is new, documents and samples. It changes nothing.

One of them listens on a Unix socket that its user alone may open, and asks for no token. Where the agent is reached
over TCP a second one stands behind the door (`gputune/wire/door.py`), with the same shelf, and every kind of call to it
needs the token, before anything else of the call is looked at.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import pyarrow as pa

from gputune.core.errors import GputuneError
from gputune.recording.rows import ROWS
from gputune.wire.credentials import is_one_of
from gputune.wire.messages import (
    ACTIONS,
    DOCUMENT,
    DOCUMENTS,
    HELLO,
    LARGEST_ANSWER,
    LINK,
    LONGEST_ASK,
    META,
    NEWS,
    PROTOCOL,
    Ask,
    Hello,
    LinkRate,
    News,
    RowsHeader,
    Since,
    WhichDocument,
    WhichLink,
)
from gputune.wire.quietly import flight

MOST_CALLS = 16  # at once, over both ways in: a screen makes one at a time

T = TypeVar("T")


class Shelf(Protocol):
    """What is served. Called from several threads at once; what raises GputuneError is told to who asked."""

    def hello(self) -> Hello:
        """Return who is here."""

    def news(self, since: Since) -> News:
        """Return what is new on this node's screen."""

    def document(self, run: str, name: str) -> bytes:
        """Return a file of a run."""

    def pull(self, ask: Ask) -> tuple[pa.RecordBatch, RowsHeader]:
        """Return the samples of a run after a cursor, and what there is to say of them."""

    def link(self, ask: WhichLink) -> LinkRate:
        """Return how fast the link from here to another agent is. This alone takes seconds."""


class NoToken(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Refuses every call without one of the tokens. Compared in constant time: trying tells nothing."""

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        self._wanted = [f"Bearer {token}" for token in tokens]

    def start_call(self, info: object, headers: Mapping[str, Sequence[str | bytes]]) -> None:  # noqa: ARG002 - pyarrow's signature
        """Let the call through, or raise."""
        given = (headers.get("authorization") or [b""])[0]
        given = given.encode(errors="replace") if isinstance(given, str) else given
        if not is_one_of(given, self._wanted):
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


class Service(flight.FlightServerBase):  # type: ignore[misc] # as above
    """The service itself, answering as soon as it is made. Without `tokens` whoever reaches it is answered."""

    def __init__(
        self, path: Path, shelf: Shelf, *, tokens: Sequence[str] = (), turns: threading.Semaphore | None = None
    ) -> None:
        self._shelf = shelf
        self._turns = turns or threading.Semaphore(MOST_CALLS)
        middleware = {"token": NoToken(tokens)} if tokens else {}
        before = os.umask(0o177)  # the socket is made by C code: 0600 from its first moment on
        try:
            super().__init__(flight.Location.for_grpc_unix(str(path)), middleware=middleware)
        finally:
            os.umask(before)

    def list_flights(self, context: object, criteria: bytes) -> Iterator[Any]:  # noqa: ARG002 - pyarrow's signature
        """List the runs that can be pulled, the machine's own among them."""
        with self._answering():
            runs = self._shelf.hello().runs
        return iter([_info(run) for run in runs])

    def get_flight_info(self, context: object, descriptor: Any) -> Any:  # noqa: ARG002 - as above
        """Describe one run."""
        return _info(self._known(descriptor))

    def get_schema(self, context: object, descriptor: Any) -> Any:  # noqa: ARG002 - as above
        """Say what the samples of any run look like."""
        self._known(descriptor)
        return flight.SchemaResult(ROWS)

    def do_get(self, context: object, ticket: Any) -> Any:  # noqa: ARG002 - as above
        """Return samples of a run after a cursor."""
        with self._answering():
            batch, said = self._shelf.pull(_decoded(ticket.ticket, Ask))
            schema = ROWS.with_metadata({META: msgspec.json.encode(said)})
            table = pa.Table.from_batches([batch.replace_schema_metadata(schema.metadata)], schema=schema)
            return flight.RecordBatchStream(table)

    def list_actions(self, context: object) -> list[tuple[str, str]]:  # noqa: ARG002 - as above
        """List what `do_action` answers."""
        return list(ACTIONS.items())

    def do_action(self, context: object, action: Any) -> Iterator[bytes]:  # noqa: ARG002 - as above
        """Answer one of `ACTIONS`, in JSON."""
        with self._answering():
            answer = self._acted(action.type, action.body.to_pybytes() if action.body is not None else b"")
            if len(answer) > LARGEST_ANSWER:
                raise flight.FlightServerError("the answer is too large")
        return iter([answer])

    def _acted(self, kind: str, body: bytes) -> bytes:
        if kind == HELLO:
            return msgspec.json.encode(self._shelf.hello())
        if kind == NEWS:
            return msgspec.json.encode(self._shelf.news(_decoded(body, Since)))
        if kind == DOCUMENT:
            wanted = _decoded(body, WhichDocument)
            if wanted.name in DOCUMENTS:
                return self._shelf.document(wanted.run, wanted.name)
        if kind == LINK:
            return msgspec.json.encode(self._shelf.link(_decoded(body, WhichLink)))
        raise flight.FlightServerError("there is no such action or document")

    def _known(self, descriptor: Any) -> str:
        """Return the run that a descriptor names."""
        with self._answering():
            path = [bytes(part).decode(errors="replace") for part in descriptor.path or ()]
            if len(path) != 1 or path[0] not in self._shelf.hello().runs:
                raise flight.FlightServerError("there is no such run")
            return path[0]

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Answer when it is this call's turn; tell what failed in a sentence, without a traceback of ours."""
        if not self._turns.acquire(timeout=2.0):  # s that a call waits for its turn
            raise flight.FlightUnavailableError("too many calls at once")
        try:
            yield
        except flight.FlightError:
            raise
        except GputuneError as error:
            raise flight.FlightServerError(str(error.args[0])) from None
        except Exception as error:  # noqa: BLE001 - whoever asks learns that, and no more of this machine
            raise flight.FlightServerError(f"the agent failed ({type(error).__name__})") from None
        finally:
            self._turns.release()


def _info(run: str) -> Any:
    ticket = flight.Ticket(msgspec.json.encode(Ask(run=run)))
    return flight.FlightInfo(ROWS, flight.FlightDescriptor.for_path(run), [flight.FlightEndpoint(ticket, [])], -1, -1)


def _decoded(data: bytes, kind: type[T]) -> T:
    if len(data) > LONGEST_ASK:
        raise flight.FlightServerError("the question is too long")
    try:
        asked = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise flight.FlightServerError("the question is not understood") from None
    if getattr(asked, "protocol", PROTOCOL) != PROTOCOL:
        raise flight.FlightServerError(f"this agent speaks version {PROTOCOL}")
    return asked
