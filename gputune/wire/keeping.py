"""What nodes recorded of themselves, kept where you are: one run folder a node, filled by pulling.

A row is taken once, however often the link was lost: the cursor moves when an answer has come whole, and what was not
fetched waits on the node.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputune.core.hygiene import clean
from gputune.core.sample import Json, Metric, Reading, Sample, now
from gputune.recording import Recording
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed, Pulled
from gputune.wire.credentials import Credentials
from gputune.wire.messages import MACHINE, CursorFields

RETRY_S = 0.5  # s to the next try after a failure, twice as long each time ...
SLOWEST_RETRY_S = 1.0  # ... up to that: a node that is back is heard of within 5 s
UNASKED = "it was not asked yet"
RELAY = "it is a relay, through which no samples come: name the nodes behind it"


@dataclass(slots=True)
class RunReader:
    """Reads one run of one agent from wherever it stopped. `missed` counts how often rows had been dropped there."""

    far: AgentClient
    run: str = MACHINE
    at: CursorFields = field(default_factory=CursorFields)
    only: tuple[str, ...] = ()
    missed: int = 0
    rows: int = 0
    clocks: int = 0
    columns: dict[int, tuple[Metric, str]] | None = None

    def step(self) -> tuple[list[list[Reading]], bool]:
        """Return what is new, a list a tick, and whether there is more. Raises AgentFailed; nothing is lost then."""
        pulled = self.far.pull(self.run, self.at, self.only)
        if pulled.said.anew or self.columns is None:
            self.columns = {}
        self.columns |= pulled.columns
        self.at, self.clocks = pulled.said.next, pulled.said.clocks
        self.missed += pulled.said.missed
        self.rows += len(pulled.rows)
        return _ticks(pulled, self.columns), pulled.said.more


def _ticks(pulled: Pulled, columns: dict[int, tuple[Metric, str]]) -> list[list[Reading]]:
    """Return the rows as readings; a column that was never declared is left out."""
    return [
        [Sample(columns[id_][0], row.t, value, columns[id_][1]) for id_, value in row.values if id_ in columns]
        for row in pulled.rows
    ]


class NodeKeeper(threading.Thread):
    """Keeps one node's recording of itself in `folder`, until it is told to end. `trouble` says what is wrong now.

    It ends by itself where it has met a relay.
    """

    def __init__(self, address: Address, credentials: Credentials | None, folder: Path) -> None:
        super().__init__(name="gputune-keeper", daemon=True)
        self.address = address
        self.trouble = UNASKED
        self.reader = RunReader(AgentClient(address, credentials))
        self._folder = folder
        self._recording: Recording | None = None
        self._over = threading.Event()

    def end(self) -> None:
        """Ask it to write what it has, and to end."""
        self._over.set()

    def run(self) -> None:
        """Read on, once a second, and again soon after a failure; end where there is nothing to be had."""
        pause = RETRY_S
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._read_on()
            except AgentFailed as failed:
                if failed.said and self._is_relay():
                    self.trouble = RELAY
                    break
                self.trouble = failed.why
                self._over.wait(pause)
                pause = min(SLOWEST_RETRY_S, 2 * pause)
            else:
                self.trouble, pause = "", RETRY_S
                self._over.wait(max(0.0, began + 1.0 - time.monotonic()))  # s between two questions
        if self._recording is not None:
            self._recording.close()
        self.reader.far.close()

    def _is_relay(self) -> bool:
        """Return whether it speaks for others: it has no recording of its own, and passes on none of theirs."""
        try:
            return MACHINE not in self.reader.far.hello().runs
        except AgentFailed:
            return False

    def _read_on(self) -> None:
        # 512 answers in a row of a node that has much to tell, before somebody asks whether we should end
        for _ in range(512):
            ticks, more = self.reader.step()
            for tick in ticks:
                self._take(tick)
            if self._recording is not None:
                self._recording.beat(now())
            if not more or self._over.is_set():
                return

    def _take(self, tick: list[Reading]) -> None:
        if self._recording is None:
            about: dict[str, Json] = {
                "command": ["gputune", "nodes"],
                "host": self.address.name,
                "unix_minus_monotonic_ns": self.reader.clocks,
                "started": tick[0].t if tick and isinstance(tick[0], Sample) else 0,
            }
            self._recording = Recording.create(self._folder, about)
        self._recording.take(tick)
        if self._recording.broken:
            self.trouble = self._recording.broken


def keepers(addresses: Sequence[Address], credentials: Credentials | None, folder: Path) -> list[NodeKeeper]:
    """Return a keeper for each node, each with a folder of its own in `folder`."""
    return [NodeKeeper(address, credentials, folder / _file_name(address.name)) for address in addresses]


def _file_name(name: str) -> str:
    return (
        "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in clean(name, 64)).strip(".") or "node"
    )
