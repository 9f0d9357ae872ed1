"""How fast the link between two machines is: the bytes that arrive in a second, each way, and the time of an answer.

Both ends of it. The asking end comes through the other's door, with certificate and token as for any call, and wants
`gputune-link` of TLS in place of Flight's `h2`, since Flight itself moves a fraction of what a fast link does. One line
says what is wanted: `give` (send, and I count), `take` (I send, and you count), `echo`.

Whether the link set the pace is what TCP says at the sending end: it was the link for as long as there was something to
send, and neither the receiver's window nor the sender's buffer held it up. Else one of the ends was too slow, for want
of a CPU mostly, and the link carries at least so much.
"""

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from gputune.core.errors import GputuneError
from gputune.wire.address import Address
from gputune.wire.credentials import Credentials, is_one_of
from gputune.wire.messages import LINK_ALPN, LINK_SECONDS, LONGEST_ASK, PROTOCOL, LinkRate

STREAMS = 4  # connections at once: one alone may be held back by its window, and by one CPU that encrypts
CHUNK = 256 << 10  # B sent at once
WARM = 0.25  # s left out at the beginning, in which TCP finds its pace
STUCK = 10.0  # s that one end waits for a byte of the other
GRACE = 10.0  # s that a slow link may take to carry what was sent by the end
LONGEST_LINE = 2 * GRACE  # s for a line, from a peer that may send it byte by byte
PINGS, PINGING = 200, 1.0  # answers that are asked for, and s that they may take together
PING = b"." * 64
PRESSED = 0.5  # of the time: a link that was to carry more than it could for less of it did not set the pace
TCP_TIMES = struct.Struct("168x3Q")  # of Linux's struct tcp_info: us busy, held up by the receiver, and by the buffer
ACCEPTED = b"+"
END = ord("\n")  # ends a line; what is measured with are zeros


class NoLink(GputuneError):  # noqa: N818 - named for what happened
    """The link could not be measured, for this reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why, hint="docs/agents.md says what both agents need")


class LinkRateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the asking end wants, with the token that lets it in."""

    protocol: int = PROTOCOL
    token: str
    want: Literal["give", "take", "echo"]
    seconds: float = 2.0


class Transferred(msgspec.Struct, frozen=True, kw_only=True):
    """One end of one connection: the B that it moved in so many s.

    `pressed`, at the sending end: the share of that time in which it was the link that TCP waited for, None if unknown.
    """

    moved: int
    seconds: float
    pressed: float | None = None


for _kind in (LinkRateRequest, Transferred):  # by one thread: see the end of messages.py
    msgspec.json.Decoder(_kind)


def serve(stream: ssl.SSLSocket, tokens: Sequence[str]) -> None:
    """Do what one asking end wants. Raises OSError when it leaves; without one of the tokens nothing is said to it."""
    stream.settimeout(STUCK)
    try:
        wish = msgspec.json.decode(_line(stream), type=LinkRateRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, NoLink):
        return
    if not is_one_of(wish.token.encode(errors="replace"), tokens) or wish.protocol != PROTOCOL:
        return
    stream.sendall(ACCEPTED)
    seconds = bounded(wish.seconds)
    if wish.want == "echo":
        _echo(stream)
    elif wish.want == "give":
        pour(stream, seconds)
    else:
        _say(stream, drain(stream, seconds)[0])


def bounded(seconds: float) -> float:
    """Return how long somebody may measure who wants so many seconds."""
    least, most = LINK_SECONDS
    return min(most, max(least, seconds))


def measure(address: Address, credentials: Credentials, seconds: float) -> LinkRate:
    """Return how fast the link to the agent at `address` is. Raises OSError or NoLink."""
    answers = sorted(_pings(address, credentials))
    there = _together(lambda start: _pushed(address, credentials, seconds, start))
    back = _together(lambda start: _pulled(address, credentials, seconds, start))
    if not _rate(there) or not _rate(back):
        raise NoLink(f"within {seconds:.2g} s nothing came through that could be counted")
    return LinkRate(
        sent=_rate(there),
        sent_at_least=_at_least(there),
        received=_rate(back),
        received_at_least=_at_least(back),
        answer=answers[len(answers) // 2],
        answer_least=answers[0],
        streams=STREAMS,
    )


# A connection's two ends: who counted the bytes, and who sent them (None where it did not say).
Ends = tuple[Transferred, Transferred | None]


def _rate(flows: Sequence[Ends]) -> float:
    """Return the B/s of all connections together, counted where they arrived."""
    return sum(counted.moved / counted.seconds for counted, _ in flows if counted.seconds)


def _at_least(flows: Sequence[Ends]) -> bool:
    """Return whether the ends may have been the limit: unless most connections say that the link was."""
    pressed = [sent.pressed for _, sent in flows if sent is not None and sent.pressed is not None]
    return 2 * sum(share >= PRESSED for share in pressed) <= len(flows)


def _together(one: Callable[[threading.Barrier], Ends]) -> list[Ends]:
    """Return what several connections saw that began at one time."""
    start = threading.Barrier(STREAMS)
    found: list[Ends] = []
    errors: list[Exception] = []

    def guarded() -> None:
        try:
            found.append(one(start))
        except Exception as error:  # noqa: BLE001 - it is raised below, by the thread that was asked
            errors.append(error)
            start.abort()  # nobody is to wait for us

    threads = [threading.Thread(target=guarded, name="gputune-link", daemon=True) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):  # which is only what the others saw of it
            raise error
    if errors:
        raise TimeoutError("timed out")
    return found


def _pulled(address: Address, credentials: Credentials, seconds: float, start: threading.Barrier) -> Ends:
    with _opened(address, credentials) as stream:
        start.wait(STUCK)
        _wish(stream, LinkRateRequest(token=credentials.token, want="give", seconds=seconds))
        return drain(stream, seconds)


def _pushed(address: Address, credentials: Credentials, seconds: float, start: threading.Barrier) -> Ends:
    with _opened(address, credentials) as stream:
        start.wait(STUCK)
        _wish(stream, LinkRateRequest(token=credentials.token, want="take", seconds=seconds))
        own = pour(stream, seconds)
        stream.settimeout(GRACE + STUCK)
        return _flow(_line(stream)), own


def _pings(address: Address, credentials: Credentials) -> list[float]:
    """Return the s that answers took."""
    with _opened(address, credentials) as stream:
        _wish(stream, LinkRateRequest(token=credentials.token, want="echo"))
        found: list[float] = []
        until = time.monotonic() + PINGING
        while not found or (len(found) < PINGS and time.monotonic() < until):
            began = time.perf_counter()
            stream.sendall(PING)
            _exactly(stream, len(PING))
            found.append(time.perf_counter() - began)
        return found


@contextmanager
def _opened(address: Address, credentials: Credentials) -> Iterator[ssl.SSLSocket]:
    """Yield a connection to that agent's door. Its certificate is checked before anything of ours is sent to it."""
    context = ssl.create_default_context(cadata=credentials.authority.decode("ascii", "replace"))
    context.set_alpn_protocols([LINK_ALPN])
    if credentials.key:
        context.load_cert_chain(credentials.folder / "client.pem", credentials.folder / "client.key")
    with socket.create_connection((address.host, address.port), STUCK) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname=address.host) as stream:
            if stream.selected_alpn_protocol() != LINK_ALPN:
                raise NoLink("it measures no links: it is no agent, or one of an older gputune")
            yield stream


def _wish(stream: ssl.SSLSocket, wish: LinkRateRequest) -> None:
    stream.sendall(msgspec.json.encode(wish) + b"\n")
    if stream.recv(1) != ACCEPTED:
        raise NoLink("our token is not the one it wants")


def _echo(stream: ssl.SSLSocket) -> None:
    until = time.monotonic() + PINGING + STUCK
    while time.monotonic() < until and (data := stream.recv(len(PING))):
        stream.sendall(data)


class ByteMeter:
    """Counts bytes in a window: from what is moved `WARM` after the first byte on, for `seconds`."""

    def __init__(self, stream: ssl.SSLSocket, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds
        self._first: float | None = None
        self._begins: float | None = None
        self._last = 0.0
        self._moved = 0
        self._times: tuple[float, float] | None = None

    def count(self, moved: int) -> None:
        """Count bytes that have just been moved. Those that open the window came before it."""
        at = time.monotonic()
        if self._first is None:
            self._first = at
        if self._begins is None:
            if at >= self._first + WARM:
                self._begins = self._last = at
                self._times = _times(self._stream)
        elif at <= self._begins + self._seconds:
            self._moved += moved
            self._last = at

    @property
    def over(self) -> bool:
        """Return whether the window is over."""
        return self._begins is not None and time.monotonic() > self._begins + self._seconds

    @property
    def flow(self) -> Transferred:
        """Return what was counted, at the end of the window."""
        passed = self._last - self._begins if self._begins is not None else 0.0
        before, after = self._times, _times(self._stream)
        pressed = None
        if before is not None and after is not None and after[0] > before[0]:
            pressed = (after[1] - before[1]) / (after[0] - before[0])
        return Transferred(moved=self._moved, seconds=passed, pressed=pressed)


def _times(stream: ssl.SSLSocket) -> tuple[float, float] | None:
    """Return the time (s), and for how many s until then it was the link that this end's TCP waited for.

    None on kernels before 4.10. Source: tcp_info in linux/tcp.h, tcpi_busy_time and what follows it.
    """
    told = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_TIMES.size)
    if len(told) < TCP_TIMES.size:
        return None
    busy, by_receiver, by_buffer = TCP_TIMES.unpack(told)
    return time.monotonic(), (busy - by_receiver - by_buffer) / 1e6


def _wait(poll: "select.poll") -> None:
    """Wait for the other end. Raises TimeoutError."""
    if not poll.poll(STUCK * 1000):
        raise TimeoutError("timed out")


def pour(stream: ssl.SSLSocket, seconds: float) -> Transferred:
    """Send for so long, then say in a line how it went, and return that."""
    meter, poll, data = ByteMeter(stream, seconds), select.poll(), memoryview(bytes(CHUNK))
    poll.register(stream, select.POLLOUT)
    stream.settimeout(0)
    begun = False  # a write that was begun has to be finished: TLS has made a record of it
    while begun or not meter.over:
        try:
            moved = stream.send(data)
        except ssl.SSLWantWriteError:  # noqa: PERF203 - each attempt may meet a full buffer
            begun = True
            _wait(poll)
        else:
            begun = False
            meter.count(moved)
    flow = meter.flow
    _say(stream, flow)
    return flow


def drain(stream: ssl.SSLSocket, seconds: float) -> Ends:
    """Count what the other end pours, and return that and how it went there; None where its line comes too late."""
    meter, poll, buffer = ByteMeter(stream, seconds), select.poll(), bytearray(CHUNK)
    poll.register(stream, select.POLLIN)
    stream.settimeout(0)
    until = time.monotonic() + WARM + seconds + GRACE
    while time.monotonic() < until:
        try:
            moved = stream.recv_into(buffer)
        except ssl.SSLWantReadError:
            _wait(poll)
            continue
        if not moved:
            raise ConnectionResetError("it hung up")
        if buffer[moved - 1] == END:
            return meter.flow, _flow(bytes(buffer[:moved]).rpartition(b"\0")[2])
        meter.count(moved)
    return meter.flow, None


def _say(stream: ssl.SSLSocket, flow: Transferred) -> None:
    stream.settimeout(GRACE)
    stream.sendall(msgspec.json.encode(flow) + b"\n")


def _flow(line: bytes) -> Transferred:
    try:
        return msgspec.json.decode(line, type=Transferred)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoLink("its answer is not understood") from None


def _line(stream: ssl.SSLSocket) -> bytes:
    """Return the next line, which is all that comes."""
    data, until = b"", time.monotonic() + LONGEST_LINE
    while not data.endswith(b"\n") and time.monotonic() < until:
        more = stream.recv(LONGEST_ASK)
        if not more:
            raise ConnectionResetError("it hung up")
        data += more
        if len(data) > LONGEST_ASK:
            raise NoLink("it says too much")
    return data


def _exactly(stream: ssl.SSLSocket, count: int) -> None:
    while count:
        more = len(stream.recv(count))
        if not more:
            raise ConnectionResetError("it hung up")
        count -= more
