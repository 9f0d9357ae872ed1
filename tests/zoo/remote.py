"""A file system whose files are a while away, for scripts that are about that: FUSE, spoken by hand.

`mounted(folder, point, latency)` serves the files of a folder under another path, each answer so many seconds late,
from a process of its own. It takes /dev/fuse and the right to mount, which `container.py` gives; without them
the script leaves with status 77, which is "not here". Reads go past the page cache, 128 KiB at a time.

Source: the kernel's include/uapi/linux/fuse.h, version 7.31 of the protocol.
"""

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

NOT_HERE = 77
READY = b"ready\n"
THREADS = 16  # requests that are under way at once
REQUEST = 1 << 17  # B; the longest one that is read
ROOT = 1  # the folder's own node
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
OPENDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 27, 29, 36, 38, 42
SILENT = {FORGET, INTERRUPT, BATCH_FORGET}  # nobody waits for an answer to these
AT_ONCE = {INIT, RELEASE, FLUSH, RELEASEDIR, DESTROY}
DIRECT_IO = 1
PR_SET_PDEATHSIG = 1
HEADER = struct.Struct("<IIQQIIIHH")  # len, opcode, unique, node, uid, gid, pid, …


@contextlib.contextmanager
def mounted(folder: Path, point: Path, latency: float) -> Iterator[Path]:
    """Serve `folder` under `point`, which is there already and empty."""
    command = [sys.executable, __file__, str(folder), str(point), str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        if server.stdout.readline() != READY:
            print(f"not here: {server.stderr.read().decode().strip()}", file=sys.stderr)
            sys.exit(NOT_HERE)
        try:
            yield point
        finally:
            subprocess.run(["umount", "--lazy", point], check=False)
            server.kill()


class Server:
    """Answers the kernel's questions about the files of one folder."""

    def __init__(self, folder: Path, latency: float) -> None:
        self.folder, self.latency = folder, latency
        self.names = ["", "", *sorted(path.name for path in folder.iterdir())]  # by node; 0 is none, 1 the folder
        self.files = {}

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """Return the answer to one question. Raises OSError."""
        if opcode not in AT_ONCE:
            time.sleep(self.latency)
        if opcode == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, REQUEST, 0, THREADS, THREADS, REQUEST // 2, 1, *[0] * 10)
        if opcode == LOOKUP:
            return self.lookup(body.rstrip(b"\0").decode())
        if opcode == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if opcode in {OPEN, OPENDIR}:
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.descriptor(node), size, offset)
        if opcode in AT_ONCE:
            return b""
        raise OSError(errno.ENOSYS, "not answered")

    def lookup(self, name: str) -> bytes:
        """Return the node of a name, which nobody may keep: each opening asks again, as for a file on a server."""
        if name not in self.names[ROOT + 1 :]:
            raise OSError(errno.ENOENT, name)
        node = self.names.index(name, ROOT + 1)
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self.attributes(node)

    def attributes(self, node: int) -> bytes:
        """Return what `stat` says of a node."""
        found = (self.folder / self.names[node]).stat()
        mode = stat.S_IFDIR | 0o555 if node == ROOT else stat.S_IFREG | 0o444
        when = int(found.st_mtime)
        return struct.pack(
            "<6Q10I", node, found.st_size, found.st_blocks, when, when, when, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )

    def descriptor(self, node: int) -> int:
        """Return the open file of a node."""
        if node not in self.files:
            self.files[node] = os.open(self.folder / self.names[node], os.O_RDONLY)
        return self.files[node]

    def serve(self, fuse: int) -> None:
        """Answer until the file system is gone."""
        while True:
            try:
                question = os.read(fuse, REQUEST)
            except OSError as error:
                if error.errno in {errno.EINTR, errno.EAGAIN, errno.ENOENT}:  # it was taken back
                    continue
                os._exit(0)
            length, opcode, unique, node, *_ = HEADER.unpack_from(question)
            if opcode in SILENT:
                continue
            try:
                code, answer = 0, self.answer(opcode, node, question[HEADER.size : length])
            except OSError as error:
                code, answer = -(error.errno or errno.EIO), b""
            os.write(fuse, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)


def main() -> None:
    """Mount, say so, and serve."""
    folder, point, latency = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        sys.exit(f"/dev/fuse cannot be opened: {error.strerror}")
    options = f"fd={fuse},rootmode=40555,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"zoo", os.fsencode(point), b"fuse.zoo", 0, options.encode()):
        sys.exit(f"nothing may be mounted: {os.strerror(ctypes.get_errno())}")
    server = Server(folder, latency)
    first = os.read(fuse, REQUEST)  # INIT; others wait for its answer
    _, opcode, unique, *_ = HEADER.unpack_from(first)
    answer = server.answer(opcode, 0, b"")
    os.write(fuse, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    for _ in range(THREADS - 1):
        threading.Thread(target=server.serve, args=(fuse,), daemon=True).start()
    server.serve(fuse)


if __name__ == "__main__":
    main()
