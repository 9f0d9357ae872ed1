"""What the screen costs: 1,000 nodes of 8 devices told anew every second, beside the same table in Textual's DataTable.

Each screen is a process of its own on a terminal of its own (a pty that is read all the time, 50 × 160). The feed is
simulated in the screen's process, and its rows pass `harmless` as those of real nodes do; what making them up costs is
measured apart and taken away. Memory is beyond what the process holds once everything is imported. Key to paint: from
the write of a key to the first byte that comes back, at random moments of a second. A frame is what the main thread
needs to take in the rows of all nodes and to draw what has changed.
"""

import argparse
import fcntl
import json
import os
import pty
import random
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from all import SHARE, row
from common import YARDSTICK, Figure, emit, figure
from screen_feed import DEVICES, PIPE

HERE = Path(__file__).resolve().parent
NODES = 1000
SIZE = (50, 160)
SETTLE = 3.0  # s
SECONDS = 10  # of each window in which CPU is counted
WINDOWS = 3
KEYS = 80
STARTS = 8
CPU, MEMORY, KEY, PAINT = 0.05, 80e6, 0.050, 0.300  # budgets
FIRST_FIGURES = b"HOST"  # a title on the screen of one machine
FRAME = "CPU of the main thread from one second's rows to the next"
HEAD = """# The screen

Made by `make bench-tui` on {cores} cores under a load of {load:.1f}: where that is far above the cores, times and CPU
say more of the others than of the screen. A bare interpreter (`python -I -S -c pass`) took {yardstick:.1f} ms
meanwhile, about 10 ms on the idle machine on which budgets were set; the last column is the value over it.

{doc}

| what | value | from … to | budget | holds | in yardsticks |
|---|---|---|---|---|---|
"""


class Terminal:
    """One screen on a pty. Everything it writes is read at once; what it tells of itself is kept as facts."""

    def __init__(self, *command: str) -> None:
        self.began = time.monotonic()
        self.last = 0.0
        self.read = 0
        self.first: dict[bytes, float] = {}  # text waited for, to when it was there
        self.facts: list[dict[str, float]] = []
        self._wanted: list[bytes] = []
        self._tail = b""
        self._lock = threading.Condition()
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONIOENCODING": "utf-8"}
        for name in ("NO_COLOR", "PYTHONDONTWRITEBYTECODE"):  # as installed, Python keeps what it has compiled
            environ.pop(name, None)
        self._facts, told = os.pipe()
        environ[PIPE] = str(told)
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True, pass_fds=[told]
        )
        os.close(slave)
        os.close(told)
        for work in (self._drain, self._hear):
            threading.Thread(target=work, daemon=True).start()

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self.master, 1 << 20)
            except OSError:
                return
            with self._lock:
                self.last = time.monotonic()
                self.read += len(data)
                self._tail = (self._tail + data)[-(1 << 16) :]
                for text in [text for text in self._wanted if text in self._tail]:
                    self._wanted.remove(text)
                    self.first[text] = self.last
                self._lock.notify_all()

    def _hear(self) -> None:
        with open(self._facts, "rb") as pipe:  # noqa: PTH123 - a descriptor, not a path
            for line in pipe:
                with self._lock:
                    self.facts.append(json.loads(line))
                    self._lock.notify_all()

    def seen(self, text: bytes, patience: float = 60.0) -> float:
        """Wait until a text was written; return s from the start."""
        with self._lock:
            self._wanted.append(text)
            if text in self._tail:
                self.first[text] = time.monotonic()
            if not self._lock.wait_for(lambda: text in self.first, patience):
                raise SystemExit(f"{text!r} was not seen: {self._tail[-500:]!r}")
            return self.first[text] - self.began

    def known(self, count: int) -> dict[str, float]:
        """Wait until so many facts were told, and return the last of them."""
        with self._lock:
            self._lock.wait_for(lambda: len(self.facts) >= count, 60)
            return self.facts[-1]

    def key(self, keys: bytes) -> float:
        """Type, and return s until something was written."""
        with self._lock:
            before = self.read
        began = time.monotonic()
        os.write(self.master, keys)
        with self._lock:
            self._lock.wait_for(lambda: self.read > before, 5)
            return time.monotonic() - began

    def cpu(self) -> float:
        """Return the s of CPU that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def screen(script: str, nodes: int, label: str, *, budgets: bool) -> list[Figure]:
    """Return CPU, memory, frame time and key latency of one screen."""
    terminal = Terminal(sys.executable, str(HERE / script), str(nodes))
    terminal.seen(b"n0001")
    time.sleep(SETTLE)
    shares, frames = [], []
    for _ in range(WINDOWS):
        first = terminal.known(len(terminal.facts) + 1)
        last = terminal.known(len(terminal.facts) + SECONDS)
        shares.append((last["cpu"] - first["cpu"]) / (last["at"] - first["at"]))
        frames.append((last["frame"] - first["frame"]) / max(1, last["polls"] - first["polls"]))
    memory = terminal.known(1)["rss"]
    waits = [typed(terminal, k) for k in range(KEYS)]
    terminal.close()
    late = sorted(waits)[int(0.95 * len(waits))]
    cpu, most, key = (CPU, MEMORY, KEY) if budgets else (None, None, None)
    return [
        Figure(f"{label}: {SHARE}", "ratio", statistics.median(shares), min(shares), max(shares), cpu),
        Figure(f"{label}: a frame", "s", statistics.median(frames), min(frames), max(frames), None, FRAME),
        Figure(f"{label}: memory beyond the imports", "B", memory, memory, memory, most),
        Figure(
            f"{label}: key to paint", "s", statistics.median(waits), min(waits), late, key, "to the 95th percentile"
        ),
    ]


def typed(terminal: Terminal, number: int) -> float:
    """Type a key at a random moment: down, a page down, down, a page up; return s to what it brings."""
    time.sleep(0.05 + random.Random(number).random() * 0.15)
    return terminal.key((b"\x1b[B", b"\x1b[6~", b"\x1b[B", b"\x1b[5~")[number % 4])


def first_paint() -> list[Figure]:
    """Return the time from the start of `gputune tui` to its first page, to its first figures, and its CPU by then."""
    times, figures, used, bare = [], [], [], []
    for _ in range(STARTS):
        began = time.monotonic()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        bare.append(time.monotonic() - began)
        terminal = Terminal(sys.executable, "-m", "gputune", "tui")
        times.append(terminal.seen(b"leave"))
        figures.append(terminal.seen(FIRST_FIGURES))
        used.append(terminal.cpu())
        terminal.close()
    return [
        figure(YARDSTICK, "s", bare),
        figure("tui: first paint", "s", times, PAINT, "`gputune tui`, from the start of Python; still without figures"),
        figure("tui: first figures", "s", figures, None, "those of this machine"),
        figure("tui: CPU until the first figures", "s", used, None, "what a machine that does nothing else needs"),
    ]


def main() -> None:
    """Measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=NODES)
    options.add_argument("--markdown", type=Path, help="write the figures into this file too")
    chosen = options.parse_args()
    others = os.getloadavg()[0]
    figures = first_paint()
    label = f"tui, {chosen.nodes:,} nodes × {DEVICES} devices at 1 Hz"
    figures += screen("screen_ours.py", chosen.nodes, label, budgets=True)
    figures += screen("screen_theirs.py", chosen.nodes, "the same in Textual's DataTable", budgets=False)
    emit(figures)
    if chosen.markdown:
        yardstick = figures[0].value
        about = (__doc__ or "").strip()
        head = HEAD.format(doc=about, cores=os.cpu_count(), load=others, yardstick=yardstick * 1e3)
        chosen.markdown.write_text(head + "".join(row(one, yardstick) for one in figures))


if __name__ == "__main__":
    main()
