"""The door: the only thing of gputune that listens on TCP. It speaks TLS, and bounds who comes in and what they send.

Bytes go on to a Unix socket on which the Flight service listens, and back. Flight itself takes messages of any size
from anybody, before their token is looked at, and any number of connections; so that is bounded here, where bytes are
counted before they are a message. What a screen asks is some hundred bytes a second. Who measures the link says so in
TLS's handshake, and goes no further than here (`link_rate.py`).
"""

import errno
import select
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.wire import link_rate
from gputune.wire.messages import LINK_ALPN

MOST_CONNECTIONS = 64  # connections at once; each has a thread, and a screen needs one
MOST_OF_ONE = 16  # of them from one address, so that nobody can take them all from there
STUCK = 10.0  # s that a peer may take no byte of what it has asked for
UNANSWERED = 10.0  # s after which who was given no answer is sent away: without the token there never is one
FRAME_HEAD, DATA = 9, 0  # of HTTP/2: B before each frame, and the kind of one that holds data
BURST = 256 << 10  # B that a peer may send at once ...
RATE = 64 << 10  # ... and B/s in the long run: ten times what the windows of an answer at 100 MB/s need
CHUNK = 64 << 10  # B moved at once


class AgentPortTaken(GputuneError):  # noqa: N818 - named for what happened
    """Somebody listens there already."""

    def __init__(self, host: str, port: int) -> None:
        hint = f"choose another port: `gputune agent --listen {host}:{port + 1}`"
        super().__init__(f"port {port} of `{host}` is in use", hint=hint)


class Door:
    """Listens on `host` and `port` (0: any) from the moment it is made, and lets nobody in before `open`.

    Raises AgentPortTaken, or BadUsage where that is no address of this machine.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, inside: Path, tokens: Sequence[str]) -> None:
        self._context = context
        self._tokens = tokens
        self._inside = str(inside)
        self._listener = _listening(host, port)
        self.host, self.port = host, int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._of: Counter[str] = Counter()  # connections by address
        self._closed = False

    def open(self) -> None:
        """Begin to let peers in."""
        threading.Thread(target=self._accept, name="gputune-door", daemon=True).start()

    def close(self) -> None:
        """Listen no more. Who is in is sent away by the end of the process."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                peer, address = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # no descriptor is free: somebody will leave
                continue
            if not self._admit(str(address[0])):
                peer.close()
                continue
            threading.Thread(target=self._serve, args=(peer, str(address[0])), daemon=True).start()

    def _admit(self, address: str) -> bool:
        with self._lock:
            if self._of.total() >= MOST_CONNECTIONS or self._of[address] >= MOST_OF_ONE:
                return False
            self._of[address] += 1
            return True

    def _serve(self, peer: socket.socket, address: str) -> None:
        """Look after one peer until either side leaves."""
        try:
            with peer:
                peer.settimeout(5.0)  # s for the handshake, from a peer that may never speak
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._context.wrap_socket(peer, server_side=True) as outside:
                    wanted = outside.selected_alpn_protocol()
                    if wanted == "h2":
                        self._splice(outside)
                    elif wanted == LINK_ALPN:
                        link_rate.serve(outside, self._tokens)
        except (OSError, ValueError, GputuneError):  # it left, was no TLS, had no certificate, said nonsense
            pass
        finally:
            with self._lock:
                self._of[address] -= 1
                if not self._of[address]:
                    del self._of[address]

    def _splice(self, outside: ssl.SSLSocket) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as inside:
            inside.settimeout(STUCK)
            inside.connect(self._inside)
            outside.settimeout(0)
            allowance, answers = Allowance(), Answers()
            poll = select.poll()
            poll.register(outside, select.POLLIN)
            poll.register(inside, select.POLLIN)
            began = heard = time.monotonic()
            while True:
                ready = {descriptor for descriptor, _ in poll.poll(1000)}
                if outside.fileno() in ready or outside.pending():
                    data = _received(outside)
                    if data == b"" or (data and not allowance.spend(len(data))):
                        return
                    if data:
                        heard = time.monotonic()
                        inside.sendall(data)
                if inside.fileno() in ready:
                    answer = inside.recv(CHUNK)
                    if not answer:
                        return
                    answers.take(answer)
                    _send(outside, answer)
                now = time.monotonic()
                # 300.0 s without a byte from the peer; a screen asks once a second, and comes again when it was sent
                # away
                if now - heard > 300.0 or (not answers.any and now - began > UNANSWERED):
                    return


class Answers:
    """Looks for an answer among the frames of HTTP/2 that go out. A call that is refused has none: no frame of data."""

    def __init__(self) -> None:
        self.any = False
        self._head = b""
        self._skip = 0  # bytes of the present frame that are still to come

    def take(self, data: bytes) -> None:
        """Look at what is sent next."""
        at = 0
        while not self.any and at < len(data):
            step = min(self._skip, len(data) - at)
            at, self._skip = at + step, self._skip - step
            if self._skip:
                return
            more = data[at : at + FRAME_HEAD - len(self._head)]
            at, self._head = at + len(more), self._head + more
            if len(self._head) == FRAME_HEAD:
                self._skip, kind = int.from_bytes(self._head[:3], "big"), self._head[3]
                self.any = kind == DATA and self._skip > 0
                self._head = b""


class Allowance:
    """How much a peer may send: `BURST` at once, filled up again at `RATE`."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = time.monotonic()

    def spend(self, count: int) -> bool:
        """Return whether so many bytes are within it."""
        at = time.monotonic()
        self._left = min(float(BURST), self._left + (at - self._at) * RATE) - count
        self._at = at
        return self._left >= 0


def _received(outside: ssl.SSLSocket) -> bytes | None:
    """Return what has come, nothing when the peer has left, None where it is no whole record yet."""
    try:
        return outside.recv(CHUNK)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def _send(outside: ssl.SSLSocket, data: bytes) -> None:
    """Send all of it; a peer that takes nothing for long raises."""
    view = memoryview(data)
    poll = select.poll()
    poll.register(outside, select.POLLOUT)
    while view:
        try:
            view = view[outside.send(view) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):  # noqa: PERF203 - each attempt may meet a full buffer
            if not poll.poll(STUCK * 1000):
                raise TimeoutError from None


def _listening(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=MOST_CONNECTIONS)
    except socket.gaierror as error:
        says = f"`{clean(host)}` does not resolve: {clean(error.strerror or str(error))}"
        raise BadUsage(says, hint="like `--listen 0.0.0.0:7070`") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AgentPortTaken(host, port) from None
        why = clean(error.strerror or str(error))
        if error.errno == errno.EADDRNOTAVAIL:
            raise BadUsage(f"`{clean(host)}` is no address of this machine", hint="`ip addr` lists them") from None
        hint = "ports below 1024 are for root: like `--listen 0.0.0.0:7070`"
        raise GputuneError(f"port {port} of `{clean(host)}` cannot be listened on: {why}", hint=hint) from None
