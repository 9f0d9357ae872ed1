"""The way in for Prometheus: `GET /metrics` over HTTP, read-only, by default from this machine alone.

A page in somebody's browser may have a name that leads to this machine (DNS rebinding): who calls us by a name that is
not ours is sent away. An address is no such name.
"""

import errno
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any

from gputune.core.errors import BadUsage, GputuneError
from gputune.nodes.called import own_names
from gputune.wire.address import split

HOST, PORT = "127.0.0.1", 7071  # beside that of an agent
PATH = "/metrics"
OWN = f"`--metrics {HOST}:{PORT}` is this machine's own address"
MOST_PEERS = 8  # peers at once: a scrape takes milliseconds
PLAIN = "text/plain; charset=utf-8"
Answer = Callable[[str], tuple[bytes, str]]  # what the peer accepts to a body and its kind


class MetricsPortTaken(GputuneError):  # noqa: N818 - named for what happened
    """Somebody listens there already."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"port {port} of `{host}` is in use", hint="`--metrics :0` takes a free one, and says which")


class Scraped:
    """Listens from the beginning, and answers once it is opened. Raises BadUsage and MetricsPortTaken.

    `names`: what this machine is called beside its own names.
    """

    def __init__(self, wished: str, names: Iterable[str] = ()) -> None:
        if find_spec("prometheus_client") is None:
            raise BadUsage("`--metrics` needs prometheus-client", hint="pip install 'gputune[metrics]'")
        try:
            host, port = split(wished, PORT)
        except BadUsage as error:  # its hint is for nodes that are asked
            raise BadUsage(f"`--metrics`: {error.args[0]}", hint=OWN) from None
        host = host or HOST
        own = {name.lower() for name in ("localhost", host, *own_names(), *names)}
        self._server = _listening(wished, host, port)
        self._server.names = own
        self._open = False
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._server.server_address[1]}{PATH}"

    def open(self, rows: Callable[[], Any]) -> None:
        """Begin to answer, out of `rows`."""
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - most agents have no use for it

        from gputune.nodes.exposition import Exposition  # noqa: PLC0415 - as above

        exposition = Exposition(rows)

        def answer(accepted: str) -> tuple[bytes, str]:
            encode, kind = choose_encoder(accepted)
            return encode(exposition), kind

        self._server.answer = answer
        self._open = True
        threading.Thread(target=self._server.serve_forever, name="gputune-metrics", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        if self._open:
            self._server.shutdown()
        self._server.server_close()


def _listening(wished: str, host: str, port: int) -> "_Server":
    try:
        return _Server((host, port), _Peer)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise MetricsPortTaken(host, port) from None
        says = f"`--metrics {wished}` cannot be listened at: {error.strerror or error}"
        raise BadUsage(says, hint=OWN) from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_PEERS
    names: frozenset[str] | set[str] = frozenset()
    answer: Answer

    def __init__(self, address: tuple[str, int], peer: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._turns = threading.Semaphore(MOST_PEERS)
        super().__init__(address, peer)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Look after a peer in a thread of its own; one too many is sent away."""
        if self._turns.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Look after it, to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._turns.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a peer that left."""


class _Peer(BaseHTTPRequestHandler):
    server: _Server
    timeout = 5.0  # s for a request to come, and for an answer to go
    server_version, sys_version = "gputune", ""

    def do_GET(self) -> None:
        """Answer a scrape."""
        if not self._is_ours(self.headers.get("Host", "")):
            self._say(HTTPStatus.FORBIDDEN, b"this is not what this machine is called\n")
        elif self.path.partition("?")[0] != PATH:
            self._say(HTTPStatus.NOT_FOUND, b"there is " + PATH.encode() + b" alone\n")
        else:
            self._answer()

    def _answer(self) -> None:
        try:
            body, kind = self.server.answer(self.headers.get("Accept", ""))
        except GputuneError as error:  # the machine is not read any more: old numbers are no answer
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.args[0]}\n".encode())
            return
        self._say(HTTPStatus.OK, body, kind)

    def _is_ours(self, host: str) -> bool:
        """Return whether somebody called us by an address, or by a name of ours."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").rstrip(".").lower()
        try:
            return bool(ip_address(name))
        except ValueError:
            return name in self.server.names

    def _say(self, status: HTTPStatus, body: bytes, kind: str = PLAIN) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of it."""
