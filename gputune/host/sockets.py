"""Whether a process waits at a socket of the internet: a call in C has no frame that would tell.

The kernel tells in which system call its first thread stands, and the arguments (proc_pid_syscall(5), for which one
needs the same leave as py-spy). The descriptor leads to an inode, and that to the tables of such sockets. Where a
socket has a timeout Python asks poll() first, and the one descriptor that it asks about lies in the process's memory.
"""

import os
import struct
from pathlib import Path

from gputune.host.procfs import PAGE, OpenProcFile, read_text

# Numbers of system calls by machine: those with the descriptor as their first argument (read, write, connect, accept,
# and those that send or receive), and poll with ppoll. Source: the kernel's syscall_64.tbl and asm-generic/unistd.h.
ON_ONE = {"x86_64": {0, 1, 42, 43, 44, 45, 46, 47}, "aarch64": {63, 64, 202, 203, 206, 207, 211, 212}}
POLLS = {"x86_64": {7, 271}, "aarch64": {73}}
TABLES = ("tcp", "tcp6", "udp", "udp6")
INODE = 9  # column of a table, counted from 0
_SECOND = 2  # field of /proc/PID/syscall with a call's second argument, likewise
_POLLED = struct.Struct("<i")  # the beginning of a struct pollfd


class Sockets:
    """One process, by files of /proc that stay open. `machine` is what `uname -m` says."""

    def __init__(self, proc: Path, pid: int, machine: str = os.uname().machine) -> None:
        """Open its files. Raises OSError where it has ended, or may not be looked at."""
        self._folder = proc / str(pid)
        self._on_one, self._polls = ON_ONE.get(machine, set()), POLLS.get(machine, set())
        self._internet: dict[str, bool] = {}
        self._syscall = OpenProcFile(self._folder / "syscall", PAGE)

    def waits(self) -> bool:
        """Return whether its first thread stands there now. Raises OSError as above."""
        fields = self._syscall.read().split()
        if len(fields) <= _SECOND or not fields[0].isdigit():  # it runs, or waits for something else than a call's end
            return False
        call, first, second = int(fields[0]), int(fields[1], 16), int(fields[_SECOND], 16)
        if call in self._on_one:
            return self._is_internet(first)
        return call in self._polls and second == 1 and self._is_internet(self._polled(first))

    def close(self) -> None:
        """Let go of its files."""
        self._syscall.close()

    def _polled(self, address: int) -> int:
        memory = os.open(self._folder / "mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(_POLLED.unpack(os.pread(memory, _POLLED.size, address))[0])
        finally:
            os.close(memory)

    def _is_internet(self, descriptor: int) -> bool:
        try:
            link = str((self._folder / "fd" / str(descriptor)).readlink())
        except FileNotFoundError:  # it was closed meanwhile
            return False
        if not link.startswith("socket:["):
            return False
        if link not in self._internet:
            if len(self._internet) >= 1000:  # sockets that are remembered
                self._internet.clear()
            self._internet[link] = self._listed(link[len("socket:[") : -1])
        return self._internet[link]

    def _listed(self, inode: str) -> bool:
        tables = (read_text(self._folder / "net" / name) or "" for name in TABLES)
        return any(inode in row.split()[INODE : INODE + 1] for table in tables for row in table.splitlines())
