"""An agent lets nobody in: whatever bytes, TLS or token a stranger brings, it is sent away, and others are answered.

Whoever has no token speaks TLS to a real agent and sends frames of HTTP/2 as they are not, or cut, or noise; some come
with TLS 1.2, with a token or a certificate of another `--init` or one that has expired, to a door that is full, or as
another user to its socket. Then one with the token is answered as ever, nothing was asked of the agent's shelf, and its
memory has not grown.
"""

import contextlib
import dataclasses
import errno
import os
import random
import shutil
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from gputune.wire import credentials, door, openssl
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.door import Door
from gputune.wire.server import Service
from tests.faults import runs
from tests.faults.row import Case, chance, must
from tests.wire.conftest import Shelf

TESTS = "wire/test_server.py, test_door.py, test_credentials.py"
QUICK, FULL, SHARE = 2000, 1_000_000, 60
SECONDS = 120.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
KINDS = range(12)  # of HTTP/2's frames, and two that are none
GROWN = 64 << 20  # B that the agent may have more than at the start, whoever knocks
NOBODY = 65534  # a user that has nothing to do with it
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
    """A real agent behind two doors on loopback, one of them for certificates, and who knows its token."""

    def __init__(self, folder: Path) -> None:
        for name in ("ours", "others"):
            credentials.make(folder / name, ["127.0.0.1"])
        shutil.copytree(folder / "ours", folder / "expired")
        days, openssl.DAYS = openssl.DAYS, -1
        credentials.make(folder / "expired", ["127.0.0.1"])  # by the same authority, until yesterday
        openssl.DAYS = days
        own = credentials.read(folder / "ours", credentials.SERVER)
        self.shelf = Shelf()
        self.open = Path(tempfile.mkdtemp(prefix="faults-open-"))
        self.open.chmod(0o755)  # only the socket itself keeps others out
        self.socket = self.open / "agent.sock"
        inside = folder / "door.sock"
        self._services = [
            Service(self.socket, self.shelf),  # its user's own
            Service(inside, self.shelf, tokens=own.accepted, turns=threading.Semaphore(4)),
        ]
        plain, mutual, late = (
            credentials.context(folder / "ours" / "server", mutual=False),
            credentials.context(folder / "ours" / "server", mutual=True),
            credentials.context(folder / "expired" / "server", mutual=False),
        )
        self._doors = [Door("127.0.0.1", 0, how, inside, own.accepted) for how in (plain, mutual, late)]
        for each in self._doors:
            each.open()
        self.address, self.mutual, self.late = (Address("m8", "127.0.0.1", each.port) for each in self._doors)
        self.known = credentials.read(folder / "ours", credentials.CLIENT)
        self.other = credentials.read(folder / "others", credentials.CLIENT)
        self.expired = credentials.read(folder / "expired", credentials.CLIENT)
        self.folder = folder

    def hello(self, address: Address | None = None) -> None:
        """Ask as somebody who may."""
        far = AgentClient(address or self.address, self.known)
        try:
            must(far.hello().host == "m8", "another answer than ever")
        finally:
            far.close()

    def refuses(self, known: credentials.Credentials | None, address: Address | None = None, why: str = "") -> None:
        """Ask as somebody who may not."""
        far = AgentClient(address or self.address, known)
        try:
            far.hello()
        except AgentFailed as error:
            must(why in str(error), f"another reason: {error}")
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
        for each in self._doors:
            each.close()
        for service in self._services:
            service.shutdown()
        shutil.rmtree(self.open)


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


def strangers(agent: Agent, dice: random.Random) -> None:
    """Come with a token or a certificate that is none of this agent's, or is no longer one."""
    known = agent.known
    agent.refuses(dataclasses.replace(known, token=dice.choice(("", "x", "wrong" * 1000, agent.other.token))))
    agent.refuses(agent.other)  # it does not believe in the agent either
    agent.refuses(known, agent.late)  # nor somebody who may ask in one whose certificate has expired
    for whose in (agent.other, agent.expired, dataclasses.replace(known, certificate=b"", key=b"")):
        mine = dataclasses.replace(whose, authority=known.authority, token=known.token)
        agent.refuses(mine, agent.mutual)
    agent.refuses(dataclasses.replace(known, token=agent.other.token), agent.mutual)


def full(agent: Agent) -> None:
    """Take all places at the door: who comes then is sent away, and once there is room people are answered."""
    sources = [f"127.0.0.{number}" for number in range(2, 2 + door.MOST_CONNECTIONS // door.MOST_OF_ONE)]
    at = (agent.address.host, agent.address.port)
    peers = [socket.create_connection(at, 20, (source, 0)) for source in sources for _ in range(door.MOST_OF_ONE)]
    try:
        with contextlib.suppress(OSError), socket.create_connection(at, 20) as raw:
            agent.context().wrap_socket(raw, server_hostname=agent.address.host)
            must(holds=False, says="a door that is full lets one more in")
    finally:
        for peer in peers:
            peer.close()
    runs.eventually(lambda: _answers(agent), "an answer, once there is room", 20)


def _answers(agent: Agent) -> bool:
    try:
        agent.hello()
    except AgentFailed:
        return False
    return True


def another_user(agent: Agent) -> None:
    """Come to its socket as another user, and ask at a socket that is another user's."""
    if os.geteuid():
        return
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os._exit(socket.socket(socket.AF_UNIX).connect_ex(str(agent.socket)))
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    must(found == errno.EACCES, f"another user at its socket: {os.strerror(abs(found))}")
    os.chown(agent.socket, NOBODY, NOBODY)
    try:
        agent.refuses(None, Address("m8", path=str(agent.socket)), "its socket belongs to another user")
    finally:
        os.chown(agent.socket, 0, 0)


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    agent = Agent(folder)
    agent.hello()
    agent.hello(agent.mutual)
    agent.hello(Address("m8", path=str(agent.socket)))
    calls = agent.shelf.calls
    own = psutil.Process()
    sizes: list[int] = []

    def case(number: int) -> None:
        nonlocal calls
        dice = chance("agent", number)
        if number % 97 == 0:
            older(agent)
        elif number % 89 == 0:
            strangers(agent, dice)
        elif number % 397 == 0:
            full(agent)
            calls = agent.shelf.calls
        elif number % 83 == 0:
            another_user(agent)
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
        calls = agent.shelf.calls

    try:
        yield case
    finally:
        agent.close()
