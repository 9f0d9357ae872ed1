"""What a container is given of a machine: `python container.py --memory 1200 --shm 64 -- CMD …`, both in MiB.

CMD runs in namespaces of its own (user and mount), which on most machines anybody may make; where that is refused this
leaves with status 77, which is "not here". `--shm` is real: a file system of that size on /dev/shm. `--memory` is told,
as LXCFS tells a container: /proc/meminfo has so much in all, and what CMD's processes do not hold of it is available.
Nobody is killed when nothing is.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

NOT_HERE = 77
NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount"]
BEAT = 0.5  # s between looks at what CMD's processes hold
HELD = ("Pss_Anon:", "Pss_Shmem:")  # in kB; what is some file's the kernel could drop, as it drops page cache
MIB = 1 << 20


def leave(why: str) -> NoReturn:
    """Say that there can be no such container here."""
    print(f"not here: {why}", file=sys.stderr)
    sys.exit(NOT_HERE)


def enter() -> NoReturn:
    """Begin again within namespaces of our own."""
    try:
        tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        leave("there is no `unshare`")
    if tried.returncode:
        leave(tried.stderr.strip() or "no namespaces may be made")
    os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, __file__, "--inside", *sys.argv[1:]])


def mount(*arguments: str) -> None:
    """Mount something for CMD alone."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        leave(done.stderr.strip())


def told(total: int, held: int) -> bytes:
    """Return a /proc/meminfo, of the same length whatever it says: it is written while others read it."""
    free = max(0, total - held)
    rows = {"MemTotal": total, "MemFree": free, "MemAvailable": free, "SwapTotal": 0, "SwapFree": 0}
    return "".join(f"{name + ':':15} {amount // 1024:10} kB\n" for name, amount in rows.items()).encode()


def text(file: Path) -> str:
    """Return what a file of /proc says, nothing where its process has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def tree(root: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    found = [root]
    for pid in found:
        yield pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, text(children).split())


def held(root: int) -> int:
    """Return the bytes that a process and its descendants hold, pages that they share counted once."""
    total = 0
    for pid in tree(root):
        rows = text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
        total += sum(int(row.split()[1]) for row in rows if row.startswith(HELD))
    return total * 1024


def run(total: int, command: list[str]) -> int:
    """Run CMD where there are so many bytes; return its status as a shell would."""
    with tempfile.TemporaryDirectory(prefix="zoo-container-") as folder:
        file = Path(folder) / "meminfo"
        file.write_bytes(told(total, 0))
        mount("--bind", str(file), "/proc/meminfo")
        process = subprocess.Popen(command)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, _frame: process.send_signal(got))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the command by itself
        with file.open("r+b", buffering=0) as open_file:
            while True:
                os.pwrite(open_file.fileno(), told(total, held(process.pid)), 0)
                try:
                    status = process.wait(BEAT)
                except subprocess.TimeoutExpired:
                    continue
                return status if status >= 0 else 128 - status


def main() -> int:
    """Parse the command line and run CMD."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=int, metavar="MIB")
    parser.add_argument("--shm", type=int, metavar="MIB")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="+", metavar="CMD")
    options = parser.parse_args()
    if not options.inside:
        enter()
    if options.shm:
        mount("-t", "tmpfs", "-o", f"size={options.shm}m", "tmpfs", "/dev/shm")
    if not options.memory:
        os.execvp(options.command[0], options.command)
    return run(options.memory * MIB, options.command)


if __name__ == "__main__":
    sys.exit(main())
