"""One life of an agent: it reads the machine once a second, writes that down, and serves it until it is asked to end.

Calls are answered by Flight's own threads; this module's loop is the only one that reads, so that no question from
outside makes it read more often. What is served is cheap to answer: rows that are there already, and rows of a file.
"""

import json
import math
import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputune.core.hygiene import clean
from gputune.feeds.local import LocalFeed
from gputune.feeds.rows import Feed, Update
from gputune.launch.descriptors import null, say
from gputune.nodes.links import Links
from gputune.nodes.machine import MachineRecording
from gputune.recording import lean
from gputune.wire import credentials, places
from gputune.wire.address import PORT, several, split
from gputune.wire.door import Door

if TYPE_CHECKING:
    from gputune.nodes.desk import Desk  # it imports pyarrow, which is to come lean
    from gputune.nodes.scraped import Scraped

BEAT_S = 1.0  # s
STUCK = 10.0  # s from a signal to the end, whatever hangs
SERVES = "an agent serves at"  # what it says once it does: who started it may wait for that
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What was asked of an agent. `listen` is HOST[:PORT], empty for the Unix socket alone.

    It ends with the process `with_pid`, and `until_eof` with its standard input, as well as at a signal. `relay` are
    the addresses of the nodes that it speaks for instead of its own; `rack` is where they stand, unless they say so
    themselves. With `hush` it lets go of stderr once it serves. `metrics` is HOST[:PORT] for Prometheus, None for none.
    """

    name: str = ""
    listen: str = ""
    state: Path | None = None
    socket: Path | None = None
    credentials: Path | None = None
    mutual: bool = False
    with_pid: int = 0
    until_eof: bool = False
    quiet: bool = False
    hush: bool = False
    announce: Path | None = None
    relay: tuple[str, ...] = ()
    rack: str = ""
    metrics: str | None = None


def run(wishes: AgentOptions) -> int:
    """Serve until the end; return the status. Raises GputuneError before anything is served."""
    with ExitStack() as stack:
        wakeup = stack.enter_context(signals())
        beats = _Beats(wakeup, wishes, stack)
        state = places.private(wishes.state or places.state())
        stack.callback(os.close, places.lock(state))
        lean()
        over = threading.Event()
        stack.callback(over.set)
        ways = _Ways(wishes, stack)  # what was typed wrong is said before anything is written
        reader = _Reader(wishes, state, stack)
        own = (os.dup(wakeup), over, ways.sockets)
        threading.Thread(target=_end_anyway, args=own, name="gputune-end", daemon=True).start()
        reader.read()
        ways.serve(reader.desk)
        _tell(wishes, ways)
        if wishes.hush:
            null(2)
        for _ in beats:
            reader.desk.beat()
            reader.read()
    return 0


def _end_anyway(wakeup: int, over: threading.Event, sockets: Sequence[Path]) -> None:
    """End the process where it was asked to, and does not: its loop hangs in a read that may never return."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.poll()
    os.close(wakeup)
    if not over.wait(STUCK):
        for path in sockets:
            places.leave(path)
        os._exit(128 + signal.SIGTERM)


class _Ways:
    """The ways in: the Unix socket, and the door where one is wanted. They are checked first, and opened by `serve`."""

    def __init__(self, wishes: AgentOptions, stack: ExitStack) -> None:
        self._stack = stack
        self.socket = places.free(wishes.socket or places.socket())
        self.door: Door | None = None
        self._tokens: tuple[str, ...] = ()
        if wishes.listen:
            host, port = split(wishes.listen, PORT)
            own = credentials.read(wishes.credentials or credentials.home(), credentials.SERVER)
            self._tokens = own.accepted
            context = credentials.context(own.folder, mutual=wishes.mutual)
            self.inside = places.checked(self.socket.with_name(f"{self.socket.stem}.{places.INSIDE}"))
            self.door = Door(host, port, context, self.inside, own.accepted)
            stack.callback(self.door.close)
        self._scraped = _scraped(wishes, stack)

    @property
    def sockets(self) -> tuple[Path, ...]:
        """Return the sockets that it makes."""
        return (self.socket,) if self.door is None else (self.socket, self.inside)

    def serve(self, desk: "Desk") -> None:
        """Open them."""
        from gputune.wire.server import MOST_CALLS, Service  # noqa: PLC0415 - pyarrow comes lean, or not at all

        turns = threading.Semaphore(MOST_CALLS)
        ways: list[tuple[Path, tuple[str, ...]]] = [(self.socket, ())]
        ways += [(self.inside, self._tokens)] if self.door is not None else []
        for path, tokens in ways:
            path.unlink(missing_ok=True)
            service = Service(path, desk, tokens=tokens, turns=turns)
            self._stack.callback(places.leave, path)
            self._stack.callback(service.shutdown)
        if self.door is not None:
            self.door.open()
        if self._scraped is not None:
            self._scraped.open(desk.rows)

    def plain(self) -> dict[str, str]:
        """Return the addresses that it can be reached at, as they are typed."""
        found = {"socket": f"unix:{self.socket}"}
        if self.door is not None:
            host = f"[{self.door.host}]" if ":" in self.door.host else self.door.host or "0.0.0.0"  # noqa: S104 - it is said
            found["listen"] = f"{host}:{self.door.port}"
        if self._scraped is not None:
            found["metrics"] = self._scraped.address
        return found


def _scraped(wishes: AgentOptions, stack: ExitStack) -> "Scraped | None":
    """Return the way in for Prometheus, where one is wanted."""
    if wishes.metrics is None:
        return None
    from gputune.nodes.scraped import Scraped  # noqa: PLC0415 - most agents are not scraped

    made = Scraped(wishes.metrics, (wishes.name,) if wishes.name else ())
    stack.callback(made.close)
    return made


class _Reader:
    """What is read once a second, and the desk that it is put on."""

    def __init__(self, wishes: AgentOptions, state: Path, stack: ExitStack) -> None:
        from gputune.nodes.desk import Desk  # noqa: PLC0415 - pyarrow comes lean, or not at all

        links = Links(wishes.credentials)
        name = wishes.name or places.host()
        self._machine: MachineRecording | None = None
        self._until = 0
        self._trouble = ""
        self._rack = clean(wishes.rack)
        if wishes.relay:
            from gputune.nodes.feed import NodesFeed  # noqa: PLC0415 - most agents speak for themselves

            self._feed: Feed = NodesFeed(several(wishes.relay), credentials.wanted(wishes.credentials))
            self.desk = Desk(name, None, links)
        else:
            self._machine = machine = MachineRecording(state)
            stack.callback(machine.leave)
            self._feed = LocalFeed(name, beside=machine.take, follows=False)
            self.desk = Desk(name, machine.folder, links)
        stack.callback(self._feed.close)
        stack.callback(self.desk.close)

    def read(self) -> None:
        """Read once. What fails is said once, and tried again a second later."""
        try:
            update = self._feed.poll(self._until)
        except Exception as error:  # noqa: BLE001 - what was recorded is still to be served
            self._say(f"the machine could not be read ({type(error).__name__}: {error})")
            return
        self._until = update.until
        if self._machine is not None and self._machine.trouble:
            self._say(self._machine.trouble)
            why = {"recording": self._machine.trouble}
            nodes = tuple(replace(node, unavailable={**node.unavailable, **why}) for node in update.nodes)
            update = replace(update, nodes=nodes)
        self.desk.put(self._placed(update))

    def _placed(self, update: Update) -> Update:
        """Return the rows with the rack that they stand in."""
        if not self._rack:
            return update
        return replace(update, nodes=tuple(replace(node, rack=node.rack or self._rack) for node in update.nodes))

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            say(f"gputune: {clean(trouble)}\n")


def _tell(wishes: AgentOptions, ways: _Ways) -> None:
    """Say where it can be reached: on stderr, and in the file that somebody waits for."""
    told = ways.plain()
    if not wishes.quiet:
        say(f"gputune: {SERVES} {', '.join(told.values())}\n")
    if wishes.announce is not None:
        new = wishes.announce.with_name(f".{wishes.announce.name}.new")
        new.write_text(json.dumps({**told, "pid": os.getpid()}) + "\n")
        new.rename(wishes.announce)


@contextmanager
def signals() -> Iterator[int]:
    """Give a descriptor that is readable once one of `ENDS` has come; as they were before, afterwards."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    heard = [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup wants it
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    old = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    try:
        yield reads
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reads)
        os.close(writes)


class _Beats:
    """Comes round once a second, until a signal, the end of a process, or the end of our input."""

    def __init__(self, wakeup: int, wishes: AgentOptions, stack: ExitStack) -> None:
        self._poll = select.poll()
        self._poll.register(wakeup, select.POLLIN)
        self._input = 0 if wishes.until_eof else -1
        if wishes.until_eof:
            self._poll.register(0, select.POLLIN)
        self._pid = wishes.with_pid
        if self._pid:
            with suppress(OSError):  # a kernel before 5.3: asked once a second instead
                process = os.pidfd_open(self._pid)
                stack.callback(os.close, process)
                self._poll.register(process, select.POLLIN)

    def __iter__(self) -> Iterator[None]:
        due = time.monotonic() + BEAT_S
        while not self._over(due):
            yield
            due = max(due + BEAT_S, time.monotonic())  # what was missed is not made up for

    def _over(self, due: float) -> bool:
        while True:
            left = max(0.0, due - time.monotonic())
            ready = {descriptor for descriptor, _ in self._poll.poll(math.ceil(left * 1000))}
            if self._input in ready and os.read(0, 4096):
                ready.discard(self._input)  # something was said to us: we listen for the end alone
                continue
            return bool(ready) or not self._lives()

    def _lives(self) -> bool:
        if not self._pid:
            return True
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
