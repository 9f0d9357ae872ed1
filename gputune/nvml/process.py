"""NVML behind a deadline: starts the process that makes the calls, reads what has arrived, and never waits for it.

A call that hangs costs a gap: it is noticed by its start time in shared memory, the process is killed (and left alone
where the kernel cannot kill it), and a new one goes on without that call for a while. Probes share one process: each
subscribes (`subscribe`) and reads its own copy of the answers. Nothing here imports pynvml.

Over 300 lines: the words of the child's answers stand beside the code that takes them.
"""

import contextlib
import json
import mmap
import os
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gputune.host.procfs import read_bytes, stat_of

SLOT = 64  # bytes shared with the child (gputune/nvml/child.py)
DEADLINE = 2.0  # s that a call may take; NVML's slowest healthy ones block for 20 ms
STARVED = 5  # times as long, if the process could run and got no CPU: a loaded machine is no hung driver
START_DEADLINE = 60.0  # s for the initialisation: without persistence mode it wakes up every card, for seconds each
RESTARTS = (0.0, 1.0, 5.0, 15.0, 60.0)  # s before the next start, by how many starts gave nothing
HUNG = "does not answer"
MEMORY = "memory"  # the field that may be asked for more often, by its name in gputune/nvml/fields.py
STARTING = frozenset({"initialisation", "loading of the library"})
IDENTIFIES = "identification of"  # a device, as a part of the initialisation (gputune/nvml/child.py)
CHILD = (
    "import sys; sys.path[:] = {path!r}; from gputune.nvml.child import main; main({slot}, {skip!r})"  # no site, no cwd
)

Person: TypeAlias = "tuple[int, int | None, float | None]"  # pid, memory in B, SM share 0 to 1; None is not known


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """One device as NVML names it. `minor` is the N of /dev/nvidiaN, `instances` the UUIDs of its MIG instances."""

    index: int
    name: str
    uuid: str
    minor: int
    mig: bool
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that cannot be read: a field of a device, a device (`field` empty), or all (`device` -1).

    `why` is a clause for people that begins with a verb, or empty when it works again; `since` is ns of the monotonic
    clock, 0 if that is not known.
    """

    device: int
    field: str
    why: str
    since: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one beat of the child gave: all of it at `t`, ns of the monotonic clock."""

    t: int
    values: tuple[tuple[str, int, float], ...] = ()  # metric, device index, value in base units
    people: dict[int, tuple[Person, ...]] = field(default_factory=dict)  # device index to who is on it
    xids: tuple[tuple[int, int], ...] = ()  # device index (-1 unknown) and number
    devices: tuple[NvmlDevice, ...] = ()  # after an initialisation
    cuda: int = 0  # with them: the newest CUDA that the driver runs (13020 is 13.2), 0 unknown
    troubles: tuple[Unreadable, ...] = ()
    fatal: str = ""  # NVML cannot be used at all: one sentence
    hint: str = ""


class Nvml:
    """The child process, as seen from the recorder. One for all probes: `subscribe`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._slot: mmap.mmap | None = None
        self._tail = b""
        self._skip: dict[str, float] = {}
        self._fruitless = 0  # starts in a row that gave no answer
        self._due = 0.0  # when the next start may be
        self._stuck: list[subprocess.Popen[bytes]] = []
        self.chosen: tuple[int, ...] | None = None
        self.often: tuple[str, ...] = ()  # fields that are read on every beat
        self._said_slow = False
        self.over = False  # nothing more will come
        self.standing = Answer(0)  # what a late subscriber must know: the devices, or why there are none
        self.queues: list[deque[Answer]] = []

    def choose(self, devices: tuple[int, ...]) -> None:
        """Read these devices from now on; before that only who is on which device is read."""
        if devices != self.chosen:
            self.chosen = devices
            self._tell()

    def hasten(self, fields: tuple[str, ...]) -> None:
        """Read these fields of the chosen devices as often as can be, and all others as ever."""
        if fields != self.often:
            self.often = fields
            self._tell()

    def poll(self) -> None:
        """Take what has arrived, and see to a child that hangs or has ended. Never blocks; about 3 µs when idle."""
        at = time.monotonic()
        if self._process is None:
            if not self.over and at >= self._due:
                self._start()
            return
        ended = self._receive()
        if self.over:
            self.stop()
        elif ended:
            self._ended(at)
        else:
            self._watch(at)

    def stop(self) -> None:
        """End the child without waiting: SIGKILL, and if it is stuck in the driver it is left there."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        try:
            process.wait(0.1)  # a process that can die does so within a millisecond
        except subprocess.TimeoutExpired:
            self._stuck.append(process)  # kept so that it is reaped when it ever comes out
        if self._slot is not None:
            self._slot.close()
            self._slot = None

    def _start(self) -> None:
        self._stuck = [process for process in self._stuck if process.poll() is None]
        memory = os.memfd_create("gputune-nvml")
        try:
            os.ftruncate(memory, SLOT)
            self._slot = mmap.mmap(memory, SLOT)
            path = [folder for folder in sys.path if folder and Path(folder).is_absolute()]  # never the user's folder
            path.append(str(Path(__file__).parents[2]))  # an editable installation is found by a hook of site's
            code = CHILD.format(path=path, slot=memory, skip=self._skip)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],  # the user's folder and PYTHON* variables mean nothing here
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(memory,),
                start_new_session=True,  # the terminal's signals are for the command
                bufsize=0,
            )
        except OSError as reason:
            self._fail(f"cannot be started: {reason}")
            return
        finally:
            os.close(memory)
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        os.set_blocking(self._process.stdout.fileno(), False)
        self._tail, self._said_slow = b"", False
        self._tell()

    def _tell(self) -> None:
        if self._process is None or self._process.stdin is None or self.chosen is None:
            return
        with contextlib.suppress(OSError):  # it has ended, which `poll` sees
            self._process.stdin.write(json.dumps({"chosen": self.chosen, "often": self.often}).encode() + b"\n")

    def _receive(self) -> bool:
        """Read whole lines from the child; return whether it has closed its end."""
        assert self._process is not None  # noqa: S101 - `poll` looked
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        while True:
            try:
                data = os.read(self._process.stdout.fileno(), 65536)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not data:
                return True
            *lines, self._tail = (self._tail + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        answer = _answer(line)
        if answer.values or answer.devices or answer.people:
            self._fruitless = 0
        if answer.fatal:
            self.over = True
        if answer.fatal or answer.devices:
            self.standing = answer
        self._publish(answer)

    def _watch(self, at: float) -> None:
        """Look for how long the present call has been under way."""
        assert self._slot is not None  # noqa: S101 - there is one with each process
        since, label = struct.unpack_from("<q56s", self._slot)
        if not since:
            return
        name = label.rstrip(b"\0").decode(errors="replace")
        seconds = at - since / 1e9
        starts = name in STARTING or name.startswith(IDENTIFIES)
        if seconds > (START_DEADLINE if starts else DEADLINE) and (seconds > STARVED * DEADLINE or not self._starved()):
            self._hung(name, since)
        elif starts and seconds > 2.5 and not self._said_slow:  # s after which a slow initialisation is said
            self._said_slow = True
            self._publish(_whole("is still starting", since))

    def _starved(self) -> bool:
        """Tell whether the child is ready to run, or stopped by somebody: not waiting for the driver."""
        stat = stat_of(read_bytes(f"/proc/{self._process.pid}/stat")) if self._process is not None else None
        return stat is not None and stat.state in {b"R", b"T", b"t"}

    def _hung(self, name: str, since: int) -> None:
        self.stop()
        if name not in STARTING:
            # 30.0 s until a call that hung is tried again; doubled each time, for each attempt is a gap for all
            self._skip[name] = 2 * self._skip.get(name, 30.0 / 2)
        what, _, index = name.rpartition(" of device ")
        one = (
            Unreadable(int(index), what, HUNG, since) if index.isdigit() and what else Unreadable(-1, name, HUNG, since)
        )
        self._publish(Answer(time.monotonic_ns(), troubles=(one,)))
        self._again()
        if len(self._stuck) >= 3:  # processes that the kernel could not kill, after which no more are started
            self._fail("hangs in the driver")

    def _ended(self, at: float) -> None:
        """See to a child that ended by itself: killed by somebody, or by a fault of the driver's library."""
        self.stop()
        if self._fruitless >= len(RESTARTS):
            self._fail("ends again and again")
            return
        self._publish(_whole("was interrupted", int(at * 1e9)))
        self._again()

    def _again(self) -> None:
        self._due = time.monotonic() + RESTARTS[min(self._fruitless, len(RESTARTS) - 1)]
        self._fruitless += 1

    def _fail(self, why: str) -> None:
        self.over = True
        self.standing = Answer(time.monotonic_ns(), fatal=f"NVML {why}", hint="see what `nvidia-smi` says")
        self._publish(self.standing)

    def _publish(self, answer: Answer) -> None:
        for queue in self.queues:
            queue.append(answer)


class Subscription:
    """One probe's share in the NVML process."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        # 4096 answers kept for a subscriber that does not read
        self._queue: deque[Answer] = deque([nvml.standing] if nvml.standing.t else [], maxlen=4096)
        nvml.queues.append(self._queue)

    def read(self) -> list[Answer]:
        """Return what has arrived since the last call, at once."""
        self._nvml.poll()
        answers = list(self._queue)
        self._queue.clear()
        return answers

    def choose(self, devices: tuple[int, ...]) -> None:
        """Have these devices read; it holds for all subscribers."""
        self._nvml.choose(devices)

    def hasten(self, fields: tuple[str, ...]) -> None:
        """Have these fields read as often as can be, until others are named; it holds for all subscribers."""
        self._nvml.hasten(fields)

    @property
    def chosen(self) -> tuple[int, ...]:
        """Return the devices that somebody chose."""
        return self._nvml.chosen or ()

    def close(self) -> None:
        """Leave; the last one ends the process."""
        if self._queue in self._nvml.queues:
            self._nvml.queues = [queue for queue in self._nvml.queues if queue is not self._queue]
            if not self._nvml.queues:
                self._nvml.stop()


_shared: list[Nvml] = []


def subscribe() -> Subscription:
    """Share in the NVML process of this process; the first one to read starts it."""
    _shared[:] = [nvml for nvml in _shared if nvml.queues]
    if not _shared:
        _shared.append(Nvml())
    return Subscription(_shared[0])


def _whole(why: str, since: int) -> Answer:
    return Answer(time.monotonic_ns(), troubles=(Unreadable(-1, "", why, since),))


def _answer(line: dict[str, Any]) -> Answer:
    """Turn a line of the child into an answer."""
    trouble = line.get("e")
    return Answer(
        t=line.get("t") or time.monotonic_ns(),
        values=tuple((metric, index, value) for metric, index, value in line.get("v", ())),
        people={int(index): tuple((p, m, s) for p, m, s in who) for index, who in line.get("p", {}).items()},
        xids=tuple((index, number) for index, number in line.get("x", ())),
        devices=tuple(NvmlDevice(i, n, u, m, g, tuple(parts)) for i, n, u, m, g, parts in line.get("devices", ())),
        cuda=line.get("cuda", 0),
        troubles=(Unreadable(trouble[0], trouble[1], trouble[2] or "", trouble[3]),) if trouble else (),
        fatal=line.get("fatal", ""),
        hint=line.get("hint", ""),
    )
