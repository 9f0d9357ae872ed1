"""An agent's service with a made-up shelf, on a Unix socket and behind a door; and credentials for it."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from gputune.core.errors import GputuneError
from gputune.core.sample import Metric
from gputune.recording.encoding import declaration
from gputune.recording.rows import ROWS
from gputune.wire import credentials
from gputune.wire.address import Address
from gputune.wire.door import Door
from gputune.wire.messages import (
    MACHINE,
    PROTOCOL,
    Ask,
    CursorFields,
    Hello,
    LinkRate,
    MetricColumn,
    News,
    RowsHeader,
    Since,
    WhichLink,
)
from gputune.wire.server import Service

CORES = Metric("cpu.busy", "cores", "Cores in use.")


class Shelf:
    """Serves three rows of one column. Tests may replace its answers."""

    def __init__(self) -> None:
        self.calls = 0
        self.protocol = PROTOCOL
        self.update: bytes = b'{"until": 3}'

    def hello(self) -> Hello:
        self.calls += 1
        return Hello(protocol=self.protocol, gputune="1", host="m8", life="abc", unix=time.time(), runs=(MACHINE,))

    def news(self, since: Since) -> News:
        self.calls += 1
        raw = msgspec.Raw(self.update)
        return News(protocol=self.protocol, life="abc", unix=time.time(), whole=True, update=raw)

    def document(self, run: str, name: str) -> bytes:
        self.calls += 1
        if run != MACHINE:
            raise GputuneError("there is no such run here", hint="")
        return b"{}"

    def pull(self, ask: Ask) -> tuple[pa.RecordBatch, RowsHeader]:
        self.calls += 1
        if ask.run != MACHINE:
            raise GputuneError("there is no such run here", hint="")
        rows = [(k, [0], [k / 2]) for k in range(3)][ask.since.row :]
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(ROWS)]
        said = RowsHeader(
            protocol=self.protocol,
            run=ask.run,
            rows=len(rows),
            next=CursorFields(1, 3, 1, "frames"),
            columns=(MetricColumn(0, declaration(CORES, "")),),
            anew=True,
            more=False,
            missed=False,
            clocks=0,
            unix=time.time(),
        )
        return pa.RecordBatch.from_arrays(columns, schema=ROWS), said

    def link(self, ask: WhichLink) -> LinkRate:
        self.calls += 1
        return LinkRate(
            sent=1e8,
            sent_at_least=False,
            received=9e7,
            received_at_least=True,
            answer=2e-4,
            answer_least=1e-4,
            streams=4,
        )


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Credentials for 127.0.0.1 and localhost."""
    folder = tmp_path_factory.mktemp("credentials")
    credentials.make(folder, ["127.0.0.1", "localhost"])
    return folder


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Credentials for the same names, of another authority."""
    folder = tmp_path_factory.mktemp("others")
    credentials.make(folder, ["127.0.0.1", "localhost"])
    return folder


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def local(shelf: Shelf, tmp_path: Path) -> Iterator[Address]:
    """An agent on a Unix socket."""
    path = tmp_path / "a.sock"
    service = Service(path, shelf)
    yield Address("m8", path=str(path))
    service.shutdown()


@pytest.fixture
def behind_a_door(shelf: Shelf, tmp_path: Path) -> Iterator[Callable[..., Address]]:
    """A maker of agents on TCP: after `behind_a_door(folder)`, one with these credentials listens on loopback."""
    open_: list[tuple[Door, Service]] = []

    def make(folder: Path, *, mutual: bool = False) -> Address:
        own = credentials.read(folder, credentials.SERVER)
        inside = tmp_path / f"{len(open_)}.sock"
        service = Service(inside, shelf, tokens=own.accepted, turns=threading.Semaphore(4))
        door = Door("127.0.0.1", 0, credentials.context(own.folder, mutual=mutual), inside, own.accepted)
        door.open()
        open_.append((door, service))
        return Address("m8", "127.0.0.1", door.port)

    yield make
    for door, service in open_:
        door.close()
        service.shutdown()
