"""One agent as seen from elsewhere. It may be anybody's: what it answers is checked before it is believed.

A call either returns what was asked for or raises `AgentFailed`, whose state is what a screen shows of the link. A
client is not for two threads at once. gRPC's own reconnecting is not used: it waits ever longer. After a failure the
next call begins anew.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.core.sample import Metric
from gputune.recording.encoding import declared
from gputune.recording.rows import ROWS
from gputune.wire import failing
from gputune.wire.address import Address
from gputune.wire.credentials import Credentials, renewed
from gputune.wire.failing import State, is_ours
from gputune.wire.messages import (
    DOCUMENT,
    HELLO,
    LARGEST_ANSWER,
    LINK,
    META,
    MOST_COLUMNS,
    MOST_ROWS,
    NEWS,
    PROTOCOL,
    Ask,
    CursorFields,
    Hello,
    LinkRate,
    News,
    RowsHeader,
    Since,
    WhichDocument,
    WhichLink,
)
from gputune.wire.quietly import flight

PATIENCE = 2.0  # s for an answer that is ready
PATIENCE_SAMPLES = 3.0  # s for an answer with samples: they come, or in a second an agent says that they will
TOO_MUCH = f"it breaks off, or sends more than {LARGEST_ANSWER >> 20} MiB at once"
OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST_ANSWER + (1 << 16)),  # B around a message of the largest size
    ("grpc.max_metadata_size", 64 << 10),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # a cluster's proxy leads out of it
]

T = TypeVar("T")


class AgentFailed(GputuneError):  # noqa: N818 - named for what happened
    """An agent did not answer, or not as one does."""

    def __init__(self, address: Address, state: State, why: str, *, said: bool = False) -> None:
        super().__init__(f"{address.name} ({address}): {why}", hint="docs/agents.md says what an agent needs")
        self.state: State = state
        self.why = why
        self.said = said  # by the agent itself, which answers


class TickSamples(NamedTuple):
    """The samples of one tick: `t` is ns of the node's monotonic clock, `values` are by number of column."""

    t: int
    values: Sequence[tuple[int, float]]


class Pulled(NamedTuple):
    """An answer to an `Ask`: `columns` are those declared anew, by number."""

    said: RowsHeader
    columns: dict[int, tuple[Metric, str]]
    rows: list[TickSamples]


class AgentClient:
    """The agent at an address. `credentials` are needed for TCP; a Unix socket is its user's own."""

    def __init__(self, address: Address, credentials: Credentials | None = None) -> None:
        self.address = address
        self.offset = 0.0  # s that its clock is ahead of ours, right to `uncertain`
        self.uncertain = math.inf
        self._credentials = credentials
        self._client: Any = None

    def close(self) -> None:
        """Hang up."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(pa.ArrowException, flight.FlightError):
                client.close()

    def hello(self) -> Hello:
        """Return who is there."""
        began = time.time()
        found = self._decoded(self._act(HELLO, b""), Hello)
        self._clock(found.unix, began)
        return found

    def news(self, since: Since) -> News:
        """Return what is new there."""
        began = time.time()
        found = self._decoded(self._act(NEWS, msgspec.json.encode(since)), News)
        self._clock(found.unix, began)
        return found

    def document(self, run: str, name: str) -> bytes:
        """Return run.json, live.json or findings.json of a run, as it is there."""
        return self._act(DOCUMENT, msgspec.json.encode(WhichDocument(run=run, name=name)))

    def link(self, to: str, seconds: float) -> LinkRate:
        """Return how fast the link from that agent to another one is, as it has just measured it."""
        ask = WhichLink(to=to, seconds=seconds)
        # 60.0 s for a measurement of a link, which takes six of a quick one and up to fifty of a slow one
        return self._decoded(self._act(LINK, msgspec.json.encode(ask), 60.0), LinkRate)

    def pull(self, run: str, since: CursorFields, only: Sequence[str] = ()) -> Pulled:
        """Return the samples of a run after `since`. All of the answer has come, or nothing is returned."""
        ticket = flight.Ticket(msgspec.json.encode(Ask(run=run, since=since, only=tuple(only))))
        try:
            reader = self._connected().do_get(ticket, self._options(PATIENCE_SAMPLES))
            schema = reader.schema
            if not schema.equals(ROWS) or META not in (schema.metadata or {}):
                raise self._foreign("its samples are not like samples")
            said = self._decoded(schema.metadata[META], RowsHeader)
            rows: list[TickSamples] = []
            while (batch := _next(reader)) is not None:
                if len(rows) + batch.num_rows > min(said.rows, MOST_ROWS):
                    raise self._foreign("it sends more than it says")
                batch.validate(full=True)  # what its offsets point to is read from our memory
                rows += _rows(batch)
        except (pa.ArrowException, flight.FlightError, OSError, KeyError) as error:
            raise self._failed(error) from None
        if len(rows) != said.rows or len(said.columns) > MOST_COLUMNS:
            self.close()
            raise AgentFailed(self.address, "down", "its answer was cut off")
        return Pulled(said, self._columns(said), rows)

    def _columns(self, said: RowsHeader) -> dict[int, tuple[Metric, str]]:
        found = {}
        for column in said.columns:
            try:
                metric, instance = declared(column.about)
                words = (metric.name, metric.unit, metric.says, metric.kind, metric.per, instance)
            except (ValueError, TypeError):
                raise self._foreign("its columns are not like columns") from None
            if not all(isinstance(word, str) for word in words) or metric.kind not in {"gauge", "counter"}:
                raise self._foreign("its columns are not like columns")
            name, unit, says, kind, per, instance = words
            metric = Metric(clean(name), clean(unit), clean(says), kind, clean(per))
            found[column.id] = (metric, clean(instance))
        return found

    def _act(self, kind: str, body: bytes, patience: float = PATIENCE) -> bytes:
        try:
            results = self._connected().do_action(flight.Action(kind, body), self._options(patience))
            answer = next(iter(results), None)
            data = b"" if answer is None or answer.body is None else answer.body.to_pybytes()
        except (pa.ArrowException, flight.FlightError, OSError, KeyError) as error:
            raise self._failed(error) from None
        if answer is None:
            self.close()
            raise AgentFailed(self.address, "down", "its answer was cut off")
        return bytes(data)

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        try:
            found = msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            version = _version(data)
            if version not in {None, PROTOCOL}:
                raise self._foreign(_other(version)) from None
            raise self._foreign("its answer is not understood") from None
        version = getattr(found, "protocol", PROTOCOL)
        if version != PROTOCOL:
            raise self._foreign(_other(version))
        return found

    def _connected(self) -> Any:
        if self._client is None:
            self._client = _client(self.address, self._credentials)
        return self._client

    def _options(self, patience: float) -> Any:
        headers = []
        if self._credentials is not None and not self.address.path:
            headers = [(b"authorization", f"Bearer {self._credentials.token}".encode())]
        return flight.FlightCallOptions(timeout=patience, headers=headers)

    def _failed(self, error: Exception) -> AgentFailed:
        """Hang up, and find out why; who was refused asks with what lies where the credentials were, the next time."""
        self.close()
        found = self._why(error)
        if found.state == "refused" and self._credentials is not None:
            self._credentials = renewed(self._credentials)
        return found

    def _why(self, error: Exception) -> AgentFailed:
        said = str(error)
        if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
            return AgentFailed(self.address, "refused", "our token is not the one it wants")
        if isinstance(error, flight.FlightTimedOutError):
            return AgentFailed(self.address, "down", "did not answer in time")
        if isinstance(error, flight.FlightServerError):
            return AgentFailed(self.address, "down", f"it says: {clean(said.partition('. ')[0])}", said=True)
        if isinstance(error, flight.FlightCancelledError):  # gRPC's own word for it: we cancel nothing
            return AgentFailed(self.address, "foreign", TOO_MUCH)
        if isinstance(error, flight.FlightUnavailableError | flight.FlightInternalError):
            state, why = failing.why(self.address, self._credentials)
            return AgentFailed(self.address, state, why)
        return AgentFailed(self.address, "foreign", "it does not answer as an agent does")

    def _foreign(self, why: str) -> AgentFailed:
        self.close()
        return AgentFailed(self.address, "foreign", why)

    def _clock(self, unix: float, began: float) -> None:
        """Learn how far its clock is from ours: it was read somewhere between the question and the answer."""
        ended = time.time()
        half = (ended - began) / 2
        found = unix - (began + half)
        jumped = abs(found - self.offset) > half + self.uncertain  # no clock that only drifts fits both answers
        if half <= 2 * self.uncertain or jumped or not math.isfinite(self.uncertain):
            self.offset, self.uncertain = found, half
        else:
            self.uncertain *= 1.01  # clocks drift: in a minute a slower answer will do


def _client(address: Address, credentials: Credentials | None) -> Any:
    if address.path and not is_ours(address.path):  # said by `failing.why`
        raise flight.FlightUnavailableError("somebody else's socket")
    if address.path:
        return flight.FlightClient(flight.Location.for_grpc_unix(address.path), generic_options=OPTIONS)
    if credentials is None:  # said by `failing.why`, without a word to anybody there
        raise flight.FlightUnavailableError("no credentials")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return flight.FlightClient(
        flight.Location.for_grpc_tls(host, address.port),
        tls_root_certs=credentials.authority,
        cert_chain=credentials.certificate or None,
        private_key=credentials.key or None,
        generic_options=OPTIONS,
    )


def _next(reader: Any) -> Any:
    """Return the next batch; None at the end, which a stream that was cut off looks like as well."""
    try:
        chunk = reader.read_chunk()
    except StopIteration:
        return None
    return chunk.data


def _rows(batch: pa.RecordBatch) -> list[TickSamples]:
    found = []
    columns = (batch.column(index).to_pylist() for index in range(3))
    for t, ids, values in zip(*columns, strict=True):
        if t is None or ids is None or values is None or len(ids) != len(values) or None in ids or None in values:
            raise pa.ArrowInvalid("a row of samples is not whole")
        found.append(TickSamples(t, list(zip(ids, values, strict=True))))
    return found


def _version(data: bytes) -> int | None:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    version = found.get("protocol") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None


def _other(version: object) -> str:
    return f"it speaks version {version} of the protocol, this gputune version {PROTOCOL}"
