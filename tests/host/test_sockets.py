"""A process waits at a socket of the internet if the kernel says so, whatever its stacks can show."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.host.sockets import Sockets

TABLE = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0\n"
AT = 0x10


@pytest.fixture
def stands(tmp_path: Path) -> Callable[[str], bool]:
    """Return a function: whether process 100, with socket 77 of the internet and 78 of the machine, waits in a call."""
    folder = tmp_path / "100"
    (folder / "fd").mkdir(parents=True)
    (folder / "net").mkdir()
    for descriptor, leads in (3, "socket:[77]"), (4, "socket:[78]"), (5, "/data/train.bin"):
        (folder / "fd" / str(descriptor)).symlink_to(leads)
    (folder / "net" / "tcp").write_text(TABLE + ROW.format(inode=77))
    (folder / "mem").write_bytes(bytes(AT) + struct.pack("<ihh", 3, 1, 0))
    (folder / "syscall").write_text("running\n")
    sockets = Sockets(tmp_path, 100, "x86_64")

    def of(text: str) -> bool:
        (folder / "syscall").write_text(text + "\n")
        return sockets.waits()

    return of


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("running", False),
        ("-1 0x7ffd 0x7f00", False),
        ("45 0x3 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f00", True),  # recvfrom
        ("45 0x4 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f00", False),  # as from a worker's queue
        ("0 0x5 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f00", False),  # read, from a file
        ("0 0x9 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f00", False),  # closed meanwhile
        (f"7 {AT:#x} 0x1 0x64 0x0 0x0 0x0 0x7ffd 0x7f00", True),  # poll, of one
        (f"7 {AT:#x} 0x2 0x64 0x0 0x0 0x0 0x7ffd 0x7f00", False),
        ("202 0x3 0x1 0x64 0x0 0x0 0x0 0x7ffd 0x7f00", False),  # futex
    ],
)
def test_the_call_and_its_descriptor_decide(stands: Callable[[str], bool], call: str, waits: bool) -> None:
    assert stands(call) is waits


@pytest.mark.parametrize("timeout", ["None", "60"])
def test_a_real_process_is_seen_to_wait_with_and_without_a_timeout(timeout: str) -> None:
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
    code += f"s.settimeout({timeout}); s.sendall(b'x'); s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        child = subprocess.Popen([sys.executable, "-c", code, str(server.getsockname()[1])])
        try:
            connection = server.accept()[0]
            connection.settimeout(60)
            assert connection.recv(1) == b"x"
            try:
                sockets = Sockets(Path("/proc"), child.pid)
                deadline = time.monotonic() + 60
                while not (seen := sockets.waits()) and time.monotonic() < deadline:
                    time.sleep(0.01)
            except OSError as refused:
                pytest.skip(f"the kernel does not tell: {refused}")
            if os.uname().machine in {"x86_64", "aarch64"}:
                assert seen
            connection.close()
        finally:
            child.kill()
            child.wait()
