"""One process of a packed run on a node of a cluster: the actor that holds its launcher.

The launcher (`launcher.py`) is a process of its own, as it is without a cluster: it starts the task, watches it, and
ends it if the actor goes. The actor itself has no thread and never waits: it is asked, and answers with what is new.
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec

from gputune.core.isolation import own_python
from gputune.host import clusters
from gputune.launch import folders, signals
from gputune.launch.output import tail
from gputune.sharing.cards import Cards
from gputune.sharing.preparing import LAUNCHER
from gputune.sharing.spec import PROBED, VARIABLE, Job, Spec, decode, encode
from gputune.verdict.packed import FILE
from gputune.watching import starting

PIECE = 1 << 20  # B of a log that are handed over at a time
SAID = 1 << 14  # B of what the launcher said that are handed over
GENTLE_S, END_S = 10.0, 10.0  # s that the launcher gets to end its task and itself, asked to and told to
LOOK_S = 0.3  # s between looks; two signals of a kind that come at once are one
CARD_S = 20.0  # s that the driver gets to tell of a card


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What is new: a piece of the log, how it is by now, and once it is over what came of it.

    `document`, `probed`: JSON, "" for none.
    """

    log: bytes = b""
    over: bool = False
    document: str = ""
    probed: str = ""
    said: str = ""
    status: int = 0  # that the launcher left with; negative: a signal


class Hosted:
    """The actor. Its answers are JSON, for the two ends may have other Pythons."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gputune-ray-")
        self._base = Path(self._folder.name)
        self._rings = ""
        self._launcher: subprocess.Popen[bytes] | None = None

    def start(self, text: str, cwd: str) -> str:
        """Start the launcher of a spec with one task; return why that is not possible, "" where it is."""
        if not Path(cwd).is_dir():
            return f"there is no folder `{cwd}` on this node"
        spec = decode(text)
        job = msgspec.structs.replace(spec.jobs[0], argv=clusters.here(spec.jobs[0].argv))
        self._rings = folders.rings()
        spec = _placed(spec, job, str(self._base), self._rings)
        changes = {**starting.environment(self._rings), VARIABLE: encode(spec)}
        environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
        with (self._base / "said").open("wb") as said:
            self._launcher = subprocess.Popen(
                own_python(LAUNCHER),
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        return ""

    def news(self, at: int) -> bytes:
        """Return what is new as JSON, the log from byte `at` on. Over is what has nothing more to tell."""
        status = self._launcher.poll() if self._launcher is not None else 0
        piece = self._log(at)
        if status is None or len(piece) == PIECE:
            return msgspec.json.encode(News(log=piece, document=self._text(FILE)))
        return msgspec.json.encode(
            News(
                log=piece,
                over=True,
                document=self._text(FILE),
                probed=self._text(PROBED),
                said=self._said(),
                status=status,
            )
        )

    def send(self, number: int) -> None:
        """Send the launcher a signal, which it hands on to its task."""
        if self._launcher is not None and self._launcher.poll() is None:
            signals.send(self._launcher.pid, number)

    def close(self) -> None:
        """End what still runs, and leave nothing behind. A launcher kills all that it has at its second Ctrl-C."""
        if self._launcher is not None:
            self._launcher.terminate()
            until = time.monotonic() + GENTLE_S
            while self._launcher.poll() is None and time.monotonic() < until + END_S:
                if time.monotonic() > until:
                    signals.send(self._launcher.pid, signal.SIGINT)
                time.sleep(LOOK_S)
            self._launcher.kill()
            self._launcher.wait()
        if self._rings:
            folders.remove_rings(self._rings)
        self._folder.cleanup()

    def card(self) -> tuple[str, float] | None:
        """Return the name of the card that we were given, and its memory in B; None where its driver tells nothing."""
        cards = Cards()
        try:
            cards.wait(CARD_S)
            found = next(iter(cards.allowed()), None)
            return (found.name, found.room) if found is not None and found.room is not None else None
        finally:
            cards.close()

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

    def _said(self) -> str:
        return tail(self._base / "said", SAID).decode("utf-8", "replace")


def _placed(spec: Spec, job: Job, folder: str, rings: str) -> Spec:
    """Return the spec as it is here: its places, and whose child the launcher is."""
    return msgspec.structs.replace(spec, jobs=(job,), folder=folder, logs=folder, rings=rings, parent=os.getpid())
