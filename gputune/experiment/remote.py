"""A process of gputune's on a node of a Ray cluster: the actor that holds it there, and who holds the actor here.

A process of its own, for a worker of Ray has threads, handlers and children that a measurement has no use for. The
actor has no thread and never waits: it is asked, and answers with what is new.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.isolation import own_python
from gputune.host import clusters
from gputune.launch import family, folders, signals
from gputune.launch.output import tail

FOLDER, RINGS, BY = "GPUTUNE_HELD", "GPUTUNE_HELD_RINGS", "GPUTUNE_HELD_BY"  # its folders, and the actor's pid
PIECE = 1 << 20  # B of a log that are handed over at a time
GENTLE_S, END_S = 10.0, 10.0  # s that it gets to end what it has started and itself, asked to and told to
LOOK_S = 0.3  # s between looks; two signals of a kind that come at once are one
ANSWER_S = 30.0  # s that an actor gets to answer before its node is taken for lost: the node itself may be busy
CLOSE_S = 40.0  # s that it gets to end what is left


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What is new: a piece of the log; the files that are there by now; once it is over how it has ended."""

    log: bytes = b""
    files: dict[str, str] = {}
    over: bool = False
    said: str = ""  # on stderr
    status: int = 0  # negative: a signal


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """The process: its code, its folder, what it reads on stdin, and which of its files are handed over."""

    code: str
    cwd: str
    given: str
    files: tuple[str, ...]


class Remote:
    """The actor. What it is told and answers is JSON, for the two ends may have other Pythons."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gputune-ray-")
        self._base = Path(self._folder.name)
        self._rings = folders.rings()
        self._files: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, errand: bytes) -> str:
        """Start the process; return why that is not possible, "" where it is."""
        asked = msgspec.json.decode(errand, type=Errand)
        if not Path(asked.cwd).is_dir():
            return f"there is no folder `{asked.cwd}` on this node"
        self._files = asked.files
        with (self._base / "said").open("wb") as said:
            self._process = subprocess.Popen(
                own_python(asked.code),
                cwd=asked.cwd,
                env={**os.environ, FOLDER: str(self._base), RINGS: self._rings, BY: str(os.getpid())},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        self.say(asked.given)
        return ""

    def say(self, line: str) -> None:
        """Let the process read a line."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it has ended
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def news(self, at: int) -> bytes:
        """Return the log from byte `at` on, and what else is new. `over`: nothing more will come."""
        status = self._process.poll() if self._process is not None else 0
        piece, files = self._log(at), {name: text for name in self._files if (text := self._text(name))}
        if status is None or len(piece) == PIECE:
            return msgspec.json.encode(Heard(log=piece, files=files))
        # 1 << 14 B of what the process said that are handed over
        said = tail(self._base / "said", 1 << 14).decode("utf-8", "replace")
        return msgspec.json.encode(Heard(log=piece, files=files, over=True, said=said, status=status))

    def send(self, number: int) -> None:
        """Send the process a signal."""
        if self._process is not None and self._process.poll() is None:
            signals.send(self._process.pid, number)

    def close(self) -> None:
        """End what still runs, and leave nothing behind. A process that is deaf to a SIGTERM gets a Ctrl-C or two."""
        if self._process is not None:
            self._process.terminate()
            until = time.monotonic() + GENTLE_S
            while self._process.poll() is None and time.monotonic() < until + END_S:
                if time.monotonic() > until:
                    signals.send(self._process.pid, signal.SIGINT)
                time.sleep(LOOK_S)
            self._process.kill()
            self._process.wait()
        folders.remove_rings(self._rings)
        self._folder.cleanup()

    def _log(self, at: int) -> bytes:
        try:
            with next(self._base.glob("*.log")).open("rb") as file:
                file.seek(at)
                return file.read(PIECE)
        except (OSError, StopIteration):
            return b""

    def _text(self, name: str) -> str:
        try:
            return (self._base / name).read_text(encoding="utf-8")
        except OSError:
            return ""


def folder() -> Path:
    """Return, in the process, the folder that is its own; leave where its actor is gone, which it then dies with."""
    family.die_with_parent(signal.SIGTERM)
    if os.getppid() != int(os.environ[BY]):
        os._exit(1)
    return Path(os.environ[FOLDER])


class Lost(Exception):  # noqa: N818 - named for what happened
    """The node, or the actor on it, is gone. The message says why."""


class ProcessNotBegun(Lost):
    """The process could not be started there; the actor lives."""


class Holder:
    """Who holds one actor: `start` it, take what is `awaited` once it is there, and `let_go` of it."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._actor: Any = None
        self._begun: Any = None  # the answer to `start` that is awaited
        self._asked: Any = None  # the answer to `news` that is awaited
        self._asked_at = 0.0
        self._at = 0  # B of its log that are here

    def start(self, errand: Errand, asks: Mapping[str, float], strategy: Any, name: str = "") -> None:
        """Have an actor made where the strategy of Ray's says, with these resources, and the process started."""
        options = {"num_cpus": asks["CPU"], "num_gpus": asks.get("GPU", 0), "max_restarts": 0}
        named = {"name": name} if name else {}
        self._actor = self._ray.remote(Remote).options(**options, **named, scheduling_strategy=strategy).remote()
        self._begun, self._asked, self._at = self._actor.start.remote(msgspec.json.encode(errand)), None, 0

    @property
    def has_begun(self) -> bool:
        """Return whether its node has answered that it has begun."""
        return self._begun is None

    def awaited(self) -> Any:
        """Return the answer that is awaited; ask for news where none is."""
        if self._begun is None and self._asked is None:
            self._asked, self._asked_at = self._actor.news.remote(self._at), time.monotonic()
        return self._begun or self._asked

    def took(self) -> Heard:
        """Take the answer, which is there. Raises Lost."""
        answer, first = self._begun or self._asked, self._begun is not None
        self._begun = self._asked = None
        try:
            told = self._ray.get(answer)
        except Exception as error:
            raise Lost(f"lost: {clusters.first_line(error)}") from error
        if first and told:
            raise ProcessNotBegun(str(told))
        news = Heard() if first else msgspec.json.decode(told, type=Heard)
        self._at += len(news.log)
        return news

    def check(self) -> None:
        """Raise Lost where its actor has not answered for so long that it is given up."""
        if self._asked is not None and time.monotonic() - self._asked_at >= ANSWER_S:
            raise Lost(f"lost: its node has not answered for {ANSWER_S:.0f} s")

    def say(self, line: str) -> None:
        """Have the process read a line."""
        self._actor.say.remote(line)

    def send(self, number: int) -> None:
        """Have a signal handed on to the process."""
        self._actor.send.remote(number)

    def closing(self) -> Any:
        """Ask its actor to end what is left; return the answer."""
        return self._actor.close.remote()

    def kill(self) -> None:
        """Give its place back."""
        with suppress(Exception):
            self._ray.kill(self._actor)

    def let_go(self, answer: Any = None) -> None:
        """Wait until what is left has ended, unless it is lost, and give its place back."""
        with suppress(Exception):  # its node has just been lost, and with it whatever was left
            if answer is not None:
                self._ray.get(answer, timeout=CLOSE_S)
        self.kill()
