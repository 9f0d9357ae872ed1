"""A server that takes a while for each answer, one at a time or, with `threads`, all at once."""

import multiprocessing
import socket
import socketserver
import time


def _serve(port: "multiprocessing.Queue[int]", seconds: float, size: int, threads: bool) -> None:
    class Answer(socketserver.BaseRequestHandler):
        """Thinks for a while, and sends so many bytes."""

        def handle(self) -> None:
            first = int(self.request.recv(16))
            time.sleep(seconds)
            self.request.sendall(first.to_bytes(8, "little") * (size // 8))

    kind = socketserver.ThreadingTCPServer if threads else socketserver.TCPServer
    kind.request_queue_size = 64
    with kind(("127.0.0.1", 0), Answer) as server:
        port.put(server.server_address[1])
        server.serve_forever()


def started(seconds: float, size: int, *, threads: bool) -> tuple[multiprocessing.Process, int]:
    """Start it in a process of its own; return that, for the script to end, and its port."""
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=_serve, args=(port, seconds, size, threads), daemon=True)
    server.start()
    return server, port.get()


def asked(port: int, index: int) -> bytes:
    """Ask it over a connection of its own, and return the answer."""
    with socket.create_connection(("127.0.0.1", port)) as question, question.makefile("rb") as answer:
        question.sendall(b"%d" % index)
        return answer.read()
