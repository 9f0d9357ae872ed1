"""Many agents as one feed of rows. Threads ask, each agent about once a second; nobody who polls ever waits for one.

Agents that answer and agents that do not have threads of their own, so a rack that is off makes nobody else late.
"""

import heapq
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.feeds.rows import Node, Past, RunRow, Update, harmless
from gputune.nodes.naming import Names
from gputune.nodes.round import ASK_S, Round
from gputune.wire.address import Address, hostfile
from gputune.wire.credentials import Credentials

LOOK_S = 0.05  # s


class NodesFeed:
    """Rows of all nodes behind these addresses, as they last were. A `gputune.feeds.rows.Feed`.

    Nodes that the host file `file` gets later, or that move in it, are asked as well; those that go from it stay.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        credentials: Credentials | None,
        *,
        beat: float = ASK_S,
        file: Path | None = None,
    ) -> None:
        self.rounds: list[Round] = []
        self._credentials = credentials
        self._beat = beat
        self._file = file
        self._read = _stamp(file)
        self._lock = threading.Lock()
        self._until = 0
        self._told: dict[tuple[str, str], tuple[int, Node | RunRow]] = {}
        self._queue = _Queue()
        self._doubtful = _Queue()
        self._names = Names()
        self._looks: tuple[str, int] = ("", 0)
        self._add(addresses)
        self._threads = [
            threading.Thread(target=self._work, args=(queue,), name="gputune-nodes", daemon=True)
            # 8: an answer takes a millisecond, so they ask 1,000 agents a second, network allowing
            # 16 threads for agents that do not answer: each try may last until its deadline
            for queue, count in ((self._queue, 8), (self._doubtful, 16))
            for _ in range(count if file is not None else min(count, len(self.rounds)))
        ]
        for thread in self._threads:
            thread.start()

    def poll(self, since: int) -> Update:
        """Return the rows that have changed since, and what is gone."""
        self._reread()
        nodes, runs = self._present()
        with self._lock:
            self._until += 1
            for kind, rows in (("node", nodes), ("run", runs)):
                for name, row in rows.items():
                    known = self._told.get((kind, name))
                    if known is None or known[1] != row:
                        self._told[kind, name] = (self._until, row)
            there = {*(("node", name) for name in nodes), *(("run", name) for name in runs)}
            gone = self._told.keys() - there
            for each in gone:
                del self._told[each]
            rows_ = [row for at, row in self._told.values() if at > since]
            return Update(
                until=self._until,
                nodes=tuple(row for row in rows_ if isinstance(row, Node)),
                runs=tuple(row for row in rows_ if isinstance(row, RunRow)),
                gone=tuple(name for kind, name in gone if kind == "node"),
                runs_gone=tuple(name for kind, name in gone if kind == "run"),
                past=harmless(self._past()),
            )

    def settle(self) -> None:
        """Wait until each agent has answered once or failed, or would have: for whoever looks only once."""
        until = time.monotonic() + 4.0  # s in which an agent that is there has answered
        while time.monotonic() < until and any(each.link == "waiting" for each in self.rounds):
            time.sleep(LOOK_S)

    def seek(self, run: str, at: float | None) -> None:
        """Do nothing: rows of other nodes are of the present."""

    def look_at(self, node: str, span: int) -> None:
        """Have the agent of that node asked for what it has kept of it."""
        self._looks = (node, span)
        for each in self.rounds:
            each.looked_at = bool(node) and each.name == node

    def _past(self) -> Past | None:
        node, span = self._looks
        return next((each.past(span) for each in self.rounds if each.looked_at), None) if node else None

    def close(self) -> None:
        """Ask nobody any more. A thread that waits for an answer ends when it has come, or will not come."""
        self._queue.close()
        self._doubtful.close()

    def leave(self, status: int) -> int:
        """Return `status` once all threads have ended. Where one still waits for an answer, the process ends here.

        A thread that came back out of gRPC while Python takes itself down would bring it down with a signal.
        """
        until = time.monotonic() + 0.5  # s that threads have to end
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)
        return status

    def _add(self, addresses: Sequence[Address]) -> None:
        for address in addresses:
            self.rounds.append(Round(address, self._credentials, self._beat, self._names))
            self._doubtful.put(len(self.rounds) - 1, 0.0)

    def _reread(self) -> None:
        """Heed what the host file has got since. While it cannot be read, it says what it said before."""
        stamp = _stamp(self._file)
        if self._file is None or stamp == self._read:
            return
        self._read = stamp
        places = {each.address.name: number for number, each in enumerate(self.rounds)}
        with suppress(GputuneError):
            for address in hostfile(self._file):
                number = places.get(address.name)
                if number is None:
                    self._add([address])
                elif self.rounds[number].address != address:  # it has moved: the next question is a first one
                    self.rounds[number] = Round(address, self._credentials, self._beat, self._names)

    def _present(self) -> tuple[dict[str, Node], dict[str, RunRow]]:
        nodes: dict[str, Node] = {}
        runs: dict[str, RunRow] = {}
        for each in self.rounds:
            nodes |= {row.name: row for row in each.rows()}
            runs |= each.runs
        return nodes, runs

    def _work(self, queue: "_Queue") -> None:
        while (number := queue.get()) is not None:
            each = self.rounds[number]
            each.ask()
            (self._queue if each.answers else self._doubtful).put(number, each.due)


def _stamp(file: Path | None) -> tuple[int, int, int]:
    """Return what changes when a file does."""
    try:
        about = file.stat() if file is not None else None
    except OSError:
        about = None
    return (about.st_mtime_ns, about.st_ino, about.st_size) if about is not None else (0, 0, 0)


class _Queue:
    """Numbers, each to be handed out when it is due (s of time.monotonic())."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int]] = []
        self._closed = False

    def put(self, number: int, due: float) -> None:
        """Put a number in."""
        with self._changed:
            heapq.heappush(self._due, (due, number))
            self._changed.notify()

    def get(self) -> int | None:
        """Wait for the next that is due; None once the queue was closed."""
        with self._changed:
            while not self._closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[1]
                self._changed.wait(left)
        return None

    def close(self) -> None:
        """Let everybody go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
