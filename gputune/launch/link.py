"""What supervisor and recorder say to each other: whole messages over a pair of pipes.

A message is a length and a marshalled value, both made by this same interpreter (the recorder is a fork of the
supervisor), so marshal needs no version, no import and no allowance for strangers.
"""

import marshal
import os

LENGTH = 4  # bytes of a message's length, little endian


class Plan:
    """What the recorder asks the supervisor to start. `env` holds changes only; None takes a name away."""

    __slots__ = ("argv", "env", "family", "keeps_stdout", "rings", "run")

    def __init__(  # noqa: PLR0913 - one parameter a field
        self,
        argv: "tuple[str, ...]",
        env: "dict[str, str | None]",
        rings: str,
        run: "dict[str, object]",
        *,
        keeps_stdout: bool,
        family: bool = False,
    ) -> None:
        self.argv = argv
        self.env = env
        self.rings = rings  # the folder of the rings, "" if there is none
        self.run = run  # what a restarted recorder is told
        self.keeps_stdout = keeps_stdout  # the recorder writes to stdout after the run
        self.family = family  # what the command leaves behind is ended with it


class Started:
    """The command runs: its pid and when it was started, ns of the monotonic clock."""

    __slots__ = ("pid", "t")

    def __init__(self, pid: int, t: int) -> None:
        self.pid = pid
        self.t = t


class StartFailed:
    """The command could not be started; the supervisor has said why and leaves with `status`."""

    __slots__ = ("status",)

    def __init__(self, status: int) -> None:
        self.status = status


class Ended:
    """The command has ended: its exit code (negative: the signal it died of; None: not known), when, and what it used.

    `cpu` is seconds of CPU and `peak` the largest resident size in bytes, both over the command and the children
    that it waited for (getrusage(2)).
    """

    __slots__ = ("code", "cpu", "peak", "t")

    def __init__(self, code: "int | None", t: int, cpu: float, peak: int) -> None:
        self.code = code
        self.t = t
        self.cpu = cpu
        self.peak = peak


class Spoken:
    """The recorder has given its verdict: should it die now, nobody is to give it again.

    `status` is what to leave with instead of the command's own, None for just that one.
    """

    __slots__ = ("status",)

    def __init__(self, status: "int | None") -> None:
        self.status = status


Message = Plan | Started | StartFailed | Ended | Spoken
_KINDS: "dict[str, type[Message]]" = {kind.__name__: kind for kind in (Plan, Started, StartFailed, Ended, Spoken)}


class PipeEnd:
    """One end of the pair of pipes between supervisor and recorder."""

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self.writes = writes
        self.said = False  # whether anything was sent

    def fileno(self) -> int:
        """Return the descriptor that turns readable when a message, or the end of the other side, is there."""
        return self.reads

    def send(self, message: Message) -> bool:
        """Send one message in one write; return False when the other side is gone."""
        self.said = True
        fields = {name: getattr(message, name) for name in message.__slots__}
        data = marshal.dumps((type(message).__name__, fields))
        data = len(data).to_bytes(LENGTH, "little") + data
        try:
            while data:
                data = data[os.write(self.writes, data) :]
        except OSError:
            return False
        return True

    def receive(self) -> "Message | None":
        """Return the next message, waiting for it; None when the other side is gone."""
        head = self._read(LENGTH)
        if head is None:
            return None
        body = self._read(int.from_bytes(head, "little"))
        if body is None:
            return None
        kind, fields = marshal.loads(body)  # noqa: S302 - written by the other half of this same program
        return _KINDS[kind](**fields)

    def close(self) -> None:
        """Close both directions."""
        os.close(self.reads)
        os.close(self.writes)

    def _read(self, size: int) -> "bytes | None":
        data = b""
        while len(data) < size:
            try:
                part = os.read(self.reads, size - len(data))
            except OSError:  # nothing there, where the reader does not wait
                return None
            if not part:
                return None
            data += part
        return data


def pair() -> "tuple[PipeEnd, PipeEnd]":
    """Return two linked ends. None of their descriptors takes the place of a closed stdin, stdout or stderr."""
    here_reads, there_writes = pipe()
    there_reads, here_writes = pipe()
    return PipeEnd(here_reads, here_writes), PipeEnd(there_reads, there_writes)


def pipe() -> "tuple[int, int]":
    """Return the two ends of a pipe, to read and to write; neither takes the place of a closed standard one."""
    low = []
    ends = []
    for end in os.pipe():
        moved = end
        while moved < 3:  # descriptors below it belong to stdin, stdout and stderr, even when those came closed
            low.append(moved)
            moved = os.dup(moved)
        ends.append(moved)
    for spare in low:
        os.close(spare)
    return ends[0], ends[1]
