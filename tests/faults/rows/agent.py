"""An agent lets nobody in: whatever bytes, TLS or token a stranger brings, it is sent away, and others are answered.

Whoever has no token speaks TLS to a real agent and sends frames of HTTP/2 as they are not, or cut, or noise. Then one
with the token is answered as ever, nothing was asked of the agent's shelf, and its memory has not grown.
"""

import contextlib
import dataclasses
import random
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from gputune.wire import credentials
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.door import Door
from gputune.wire.server import Service
from tests.faults.row import Case, chance, must
from tests.wire.conftest import Shelf

TESTS = "wire/test_server.py, test_door.py, test_credentials.py"
QUICK, FULL, SHARE = 2000, 1_000_000, 60
SECONDS = 120.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
KINDS = range(12)  # of HTTP/2's frames, and two that are none
GROWN = 64 << 20  # B that the agent may have more than at the start, whoever knocks
EVERY = 20  # cases between two questions of somebody who may ask
LEAST = 4  # s that a stranger waits for an end at the most: the door ends who is too slow after longer


def frame(dice: random.Random) -> bytes:
    """Return a frame of HTTP/2: of any kind, with a length that may be another than its own."""
    body = dice.randbytes(dice.choice((0, 1, 4, 5, 6, 8, 100, 5000)))
    length = len(body) if dice.random() < 0.7 else dice.choice((0, 1, 2**14, 2**24 - 1))
    stream = dice.choice((0, 1, 2, 3, 2**31 - 1))
    return (
        length.to_bytes(3, "big") + bytes((dice.choice(KINDS), dice.getrandbits(8))) + struct.pack(">I", stream) + body
    )


def said(dice: random.Random) -> bytes:
    what = dice.random()
    if what < 0.15:
        return dice.randbytes(dice.choice((1, 24, 1000, 20_000)))
    begins = PREFACE if what < 0.9 else PREFACE[: dice.randrange(24)]
    return begins + b"".join(frame(dice) for _ in range(dice.choice((0, 1, 2, 5, 30))))


class Agent:
    """A real agent behind its door on loopback, and who knows its token."""

    def __init__(self, folder: Path) -> None:
        credentials.make(folder / "ours", ["127.0.0.1"])
        credentials.make(folder / "others", ["127.0.0.1"])
        own = credentials.read(folder / "ours", credentials.SERVER)
        self.shelf = Shelf()
        inside = folder / "agent.sock"
        self._service = Service(inside, self.shelf, tokens=own.accepted, turns=threading.Semaphore(4))
        self._door = Door("127.0.0.1", 0, credentials.context(own.folder, mutual=False), inside, own.accepted)
        self._door.open()
        self.address = Address("m8", "127.0.0.1", self._door.port)
        self.known = credentials.read(folder / "ours", credentials.CLIENT)
        self.other = credentials.read(folder / "others", credentials.CLIENT)
        self.folder = folder

    def hello(self) -> None:
        """Ask as somebody who may."""
        far = AgentClient(self.address, self.known)
        try:
            must(far.hello().host == "m8", "another answer than ever")
        finally:
            far.close()

    def refuses(self, known: object) -> None:
        """Ask as somebody who may not."""
        far = AgentClient(self.address, known)  # type: ignore[arg-type] # credentials
        try:
            far.hello()
        except AgentFailed:
            return
        finally:
            far.close()
        must(holds=False, says="somebody who may not ask was answered")

    def context(self, newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ours" / "client" / "ca.pem"))
        context.set_alpn_protocols(["h2"])
        if newest is not None:
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.maximum_version = newest
        return context

    def close(self) -> None:
        self._door.close()
        self._service.shutdown()


def sent(agent: Agent, data: bytes, dice: random.Random) -> None:
    """Shake hands, say it in pieces, and read what comes until the agent hangs up or we do."""
    raw = socket.create_connection((agent.address.host, agent.address.port), 20)
    try:
        with agent.context().wrap_socket(raw, server_hostname=agent.address.host) as peer:
            peer.settimeout(LEAST)
            with contextlib.suppress(OSError):
                while data:
                    size = dice.choice((len(data), 1 + len(data) // 2, 9))
                    peer.sendall(data[:size])
                    data = data[size:]
                if dice.random() < 0.1:
                    answer = peer.recv(1 << 16)
                    must(b"m8" not in answer, "somebody without the token was told of the node")
    except ssl.SSLError:
        pass
    finally:
        raw.close()


def older(agent: Agent) -> None:
    """Speak TLS 1.2, which is refused."""
    raw = socket.create_connection((agent.address.host, agent.address.port), 20)
    try:
        with agent.context(ssl.TLSVersion.TLSv1_2).wrap_socket(raw, server_hostname=agent.address.host) as peer:
            must(peer.version() == "TLSv1.3", f"the agent speaks {peer.version()}")
    except OSError:
        pass
    finally:
        raw.close()


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    agent = Agent(folder)
    agent.hello()
    calls = agent.shelf.calls
    own = psutil.Process()
    sizes: list[int] = []

    def case(number: int) -> None:
        dice = chance("agent", number)
        if number % 97 == 0:
            older(agent)
        elif number % 89 == 0:
            agent.refuses(agent.other)
        elif number % 83 == 0:
            agent.refuses(dataclasses.replace(agent.known, token=dice.choice(("", "x", "wrong" * 1000, "é"))))
        else:
            sent(agent, said(dice), dice)
        must(agent.shelf.calls == calls, "the shelf was asked by somebody without the token")
        if number % EVERY == 0:
            agent.hello()
            sizes.append(own.memory_info().rss)
            must(
                sizes[-1] < sizes[min(5, len(sizes) - 1)] + GROWN,
                f"its memory grows: {[size >> 20 for size in sizes]} MiB",
            )
        agent.shelf.calls = calls

    try:
        yield case
    finally:
        agent.close()
