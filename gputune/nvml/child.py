"""The process that makes the NVML calls: it may hang in the driver, and nobody waits for it.

Started by `gputune/nvml/process.py`, which reads a line of JSON from its stdout for each beat and watches through 64
bytes of shared memory which call is under way since when. On stdin it is told which devices matter, and its end means
that the recorder is gone. Lines are objects with some of these keys:

| key | value |
|---|---|
| `devices` | what there is, once after each initialisation: index, name, uuid, minor, mig, instances |
| `cuda` | with it: the newest CUDA that the driver runs, 1000 times major and 10 times minor; 0 unknown |
| `t`, `v` | ns of the monotonic clock, and `[metric, index, value]` of each value read |
| `p` | index to `[[pid, memory or null, SM share or null], …]` |
| `x` | `[index, number]` of each Xid event |
| `e` | `[index, field, reason, since]`: fails since then, ns; `null`: works again; field "": the device, -1: all |
| `fatal`, `hint` | NVML cannot be used at all; the process ends |

Over 300 lines: which failure is a field's, a device's or all of NVML's is decided over the whole of them, in one place.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import struct
import sys
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

from gputune.core.prctl import Option, prctl

if TYPE_CHECKING:  # imported by `_load`, once the library is known to be there
    from gputune.nvml import fields

SLOT = 64  # bytes of shared memory: when the call began (0: none is under way), and which one it is
BEAT_S = 0.2  # s; the finest that fields are due in: utilisation is new every 1/6 s at best
LATER = 0.5  # s; the same for a child that is no longer young: a mean over minutes needs no more
LOST_RETRY = 10.0  # s until a failed field or device is tried again, doubled each time
SLOWEST_RETRY = 300.0  # s
DEAF = 2.0  # s without any answer but Unknown Error, after which NVML is initialised again
FOR_EVER = float("inf")
REBORN = (1.0, 2.0, 5.0, 10.0, 30.0)  # s between attempts at that
XIDS = "Xid events"
CUDA = "version of CUDA"
MAX_INSTANCES = 8


class NvmlCode(IntEnum):
    """What a call of NVML may return, by the names of `nvml.h`. pynvml's own would cost 25 ms without a driver."""

    UNINITIALIZED = 1
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    ARGUMENT_VERSION_MISMATCH = 25
    UNKNOWN = 999


NO_NVML = frozenset({NvmlCode.UNINITIALIZED, NvmlCode.DRIVER_NOT_LOADED, NvmlCode.UNKNOWN})  # all of it is gone
HOPELESS = frozenset(
    {NvmlCode.NOT_SUPPORTED, NvmlCode.NO_PERMISSION, NvmlCode.FUNCTION_NOT_FOUND, NvmlCode.ARGUMENT_VERSION_MISMATCH}
)  # they stay
GONE = frozenset({NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED})  # one sentence for all fields of the device
WHY: dict[int, str] = {
    NvmlCode.NOT_SUPPORTED: "is not supported by this device",
    NvmlCode.NO_PERMISSION: "may not be read by this user",
    NvmlCode.FUNCTION_NOT_FOUND: "is not known to this driver",
    NvmlCode.GPU_IS_LOST: "cannot be read: the device is lost (it has fallen off the bus; dmesg shows its Xid)",
    NvmlCode.RESET_REQUIRED: "cannot be read until the device is reset",
    NvmlCode.UNKNOWN: "failed with an unknown error",
}
CANNOT: dict[int, tuple[str, str]] = {
    NvmlCode.NO_PERMISSION: (
        "this user may not use NVML",
        "check the permissions of /dev/nvidiactl, or the container's device list",
    ),
    NvmlCode.DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded",
        "load it (`modprobe nvidia`), or start the container with its GPUs",
    ),
    NvmlCode.LIBRARY_NOT_FOUND: (
        "no NVIDIA driver library (libnvidia-ml.so.1) is on this machine",
        "with an NVIDIA GPU: install its driver; in a container: start it with its GPUs (`--gpus all`)",
    ),
    NvmlCode.LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver and its library have different versions",
        "the driver was updated while it was loaded: reboot, or reload its kernel module",
    ),
}


IDENTIFICATION = "identification"  # of a device, as a call that may hang


class Slot:
    """Says to the recorder which call is under way, so that it can tell a hung one."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def enter(self, label: str) -> None:
        """Say that a call begins."""
        struct.pack_into("<q56s", self._memory, 0, time.monotonic_ns(), label.encode()[:56])

    def leave(self) -> None:
        """Say that none is under way."""
        struct.pack_into("<q", self._memory, 0, 0)


class Due:
    """When one field of one device is read next, and how it fared."""

    __slots__ = ("at", "beat", "field", "retry", "said", "since")

    def __init__(self, field: "fields.Field", at: float) -> None:
        self.field, self.beat, self.at = field, field.beat, at
        self.said = False  # the recorder was told that it fails
        self.since = 0  # when it began to fail, ns; 0 while it works
        self.retry = LOST_RETRY


def label(field: str, index: int) -> str:
    """Return how a field of a device is called between the two processes, and to people."""
    return f"{field} of device {index}"


class Reader:
    """NVML, initialised: reads what is due of the devices that matter."""

    def __init__(self, slot: Slot, skip: dict[str, float]) -> None:
        self._slot = slot
        self._skip = skip  # labels of calls that hung, and the seconds until they are tried again
        self._nv, self._fields = _load()
        self._cards: dict[int, fields.DeviceFields] = {}
        self._due: dict[int, list[Due]] = {}
        self._events: Any = None
        self._events_due = 0.0
        self._answered = time.monotonic()
        self._deaf = False  # something failed as everything does when NVML is gone
        self._reborn = 0
        self._young_until = time.monotonic() + 10.0  # s: after them a mean over minutes needs no finer beat
        self._gone: set[int] = set()
        self.chosen: set[int] | None = None
        self._often: frozenset[str] = frozenset()  # names of fields that are due on every beat
        self.initialise()

    def initialise(self) -> None:
        """Start NVML and look what there is. Raises NVMLError."""
        self._slot.enter("initialisation")
        nv = self._nv
        nv.nvmlInit()
        self._cards = {}
        self._due, self._gone = {}, set()
        missing: list[tuple[int, Any]] = []
        for index in range(nv.nvmlDeviceGetCount()):
            name = label(IDENTIFICATION, index)
            if name in self._skip:  # it hung, and the recorder has told of it: without it the others can be read
                continue
            self._slot.enter(name)
            try:
                self._cards[index] = self._card(index)
            except nv.NVMLError as reason:
                missing.append((index, reason))
        self._slot.enter("initialisation")
        if not self._cards:
            none = nv.NVML_ERROR_TIMEOUT if self._skip else nv.NVML_ERROR_NOT_FOUND
            raise missing[0][1] if missing else nv.NVMLError(none)
        self._schedule()
        self._listen()
        self._slot.leave()
        self._answered = time.monotonic()
        there = [[c.index, c.name, c.uuid, c.minor, c.mig, c.instances] for c in self._cards.values()]
        say(devices=there, cuda=self._cuda())
        for index, error in missing:
            say(e=[index, "", WHY.get(error.value, f"cannot be read: {text_of(error)}"), time.monotonic_ns()])

    def _cuda(self) -> int:
        """Return the newest CUDA that the driver runs, 0 where it does not say, or did not answer before."""
        if CUDA in self._skip:
            return 0
        self._slot.enter(CUDA)
        try:
            return int(self._nv.nvmlSystemGetCudaDriverVersion_v2())
        except self._nv.NVMLError:
            return 0
        finally:
            self._slot.leave()

    def told(self, chosen: list[int], often: list[str]) -> None:
        """Learn which devices matter, and which fields of them are due as often as can be."""
        self.chosen, self._often = set(chosen), frozenset(often)
        for due in (due for dues in self._due.values() for due in dues):
            if due.field.name in self._often and not due.since:  # what fails keeps its back-off
                due.at = min(due.at, time.monotonic())

    @property
    def beat(self) -> float:
        """Return the seconds between two calls of `read`."""
        beat = BEAT_S if self._often or time.monotonic() < self._young_until else LATER
        # 4 devices; with more of them each is read less often, so that the cost stays what it is
        return beat * max(1.0, len(self.chosen or ()) / 4)

    def read(self) -> dict[str, Any]:
        """Read what is due, and return the line for it."""
        at = time.monotonic()
        values: list[tuple[str, int, float]] = []
        people: dict[int, list[tuple[int, int | None, float | None]]] = {}
        for index, card in self._cards.items():
            chosen = self.chosen is not None and index in self.chosen
            for due in self._due[index]:
                identifies = due.field.name in IDENTIFYING
                if due.at <= at and (chosen or identifies):
                    values += [(metric, index, value) for metric, value in self._one(card, due, at)]
                    if identifies and not due.since:
                        people[index] = _people(card)
        line: dict[str, Any] = {"t": time.monotonic_ns(), "v": values}
        if people:
            line["p"] = people
        if self._events is not None and at >= self._events_due:
            self._events_due = at + 1.0  # s between looks for Xid events
            if found := self._xids():
                line["x"] = found
        self._slot.leave()
        return line if len(line) > 2 or values else {}

    def _one(self, card: "fields.DeviceFields", due: Due, at: float) -> "list[fields.Value]":
        """Read one field; a failure is said once, and tried again later where that can help."""
        self._slot.enter(label(due.field.name, card.index))
        due.at = max(due.at + (BEAT_S if due.field.name in self._often else due.beat), at)
        nv, module = self._nv, self._fields
        try:
            values: list[fields.Value] = module.checked(due.field.read(card))
        except nv.NVMLError as reason:
            self._refused(card.index, due, reason)
        except module.UnsupportedError as reason:
            self._fail(card.index, due, f"{WHY[NvmlCode.NOT_SUPPORTED]} ({reason})", wait=FOR_EVER)
        except (module.NonsenseError, AttributeError, TypeError, OSError, ValueError, ArithmeticError) as reason:
            self._fail(card.index, due, f"is not to be trusted: {reason}")
        else:
            self._answered, self._deaf = time.monotonic(), False
            if due.said:
                say(e=[card.index, due.field.name, None, due.since])
            due.said, due.since, due.retry = False, 0, LOST_RETRY
            if card.index in self._gone:
                self._gone.discard(card.index)
                say(e=[card.index, "", None, 0])
            return values
        return []

    def _refused(self, index: int, due: Due, reason: Any) -> None:
        """Take an NVML error for what it is about: a field, a device, or NVML as a whole."""
        code = reason.value
        why = WHY.get(code, f"failed: {text_of(reason)}")
        if code in GONE:
            if index not in self._gone:
                self._gone.add(index)
                say(e=[index, "", why, time.monotonic_ns()])
            for other in self._due[index]:
                other.at = max(other.at, time.monotonic() + LOST_RETRY)
        elif code in NO_NVML and not (due.since and self._answered > due.since / 1e9):
            self._deaf = True
            due.since = due.since or time.monotonic_ns()
            # 1.0 s until a field that gave Unknown Error is asked again: then either all of NVML is gone, or that
            # field
            due.at = time.monotonic() + 1.0
        else:
            self._fail(index, due, why, wait=FOR_EVER if code in HOPELESS else 0.0)

    def _fail(self, index: int, due: Due, why: str, *, wait: float = 0.0) -> None:
        due.since = due.since or time.monotonic_ns()
        if not due.said:
            say(e=[index, due.field.name, why, due.since])
            due.said = True
        due.at = time.monotonic() + (wait or due.retry)
        due.retry = min(2 * due.retry, SLOWEST_RETRY)

    def revive(self) -> None:
        """Initialise again if NVML has given nothing but Unknown Error for a while, with back-off.

        A container loses its GPUs for good when systemd reloads: a fresh initialisation helps if they come back.
        """
        at = time.monotonic()
        if not self._deaf or at < self._answered + DEAF:
            return
        if self._reborn == 0:
            say(e=[-1, "", "answers with nothing but unknown errors", time.monotonic_ns()])
        self._answered = at + REBORN[min(self._reborn, len(REBORN) - 1)] - DEAF
        self._reborn += 1
        try:
            self._slot.enter("shutdown")
            self._nv.nvmlShutdown()
        except self._nv.NVMLError:
            pass  # it was not initialised any more, or is beyond that too
        try:
            self.initialise()
        except self._nv.NVMLError:
            return
        finally:
            self._slot.leave()
        self._deaf, self._reborn = False, 0
        say(e=[-1, "", None, 0])

    def _card(self, index: int) -> "fields.DeviceFields":
        nv = self._nv
        handle = nv.nvmlDeviceGetHandleByIndex(index)
        mig = bool(_try(nv, lambda: nv.nvmlDeviceGetMigMode(handle)[0], 0))
        card: fields.DeviceFields = self._fields.DeviceFields(
            index=index,
            handle=handle,
            name=str(_try(nv, lambda: nv.nvmlDeviceGetName(handle), "NVIDIA GPU")),
            uuid=str(_try(nv, lambda: nv.nvmlDeviceGetUUID(handle), "")),
            minor=int(_try(nv, lambda: nv.nvmlDeviceGetMinorNumber(handle), index)),
            mig=mig,
            instances=self._instances(handle) if mig else (),
        )
        return card

    def _instances(self, handle: Any) -> tuple[str, ...]:
        nv = self._nv
        found = (
            _try(nv, lambda i=i: nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetMigDeviceHandleByIndex(handle, i)), "")
            for i in range(MAX_INSTANCES)
        )
        return tuple(str(uuid) for uuid in found if uuid)

    def _schedule(self) -> None:
        """Plan the first readings: all at once, but for the slow ones, which are spread over the devices."""
        at = time.monotonic()
        for place, index in enumerate(self._cards):
            self._due[index] = []
            for field in self._fields.FIELDS:
                due = Due(field, at)
                wait = self._skip.get(label(field.name, index), 0.0)
                if wait:
                    due.at, due.said, due.since = at + wait, True, time.monotonic_ns()
                elif field.name == "PCIe traffic":
                    due.at += place * field.beat / len(self._cards)
                self._due[index].append(due)

    def _listen(self) -> None:
        """Ask for Xid events; a driver that has none goes without."""
        nv = self._nv
        self._events = None
        if XIDS in self._skip:
            return
        self._slot.enter(XIDS)  # as long as a reading of them may take: whatever it is that hangs, the rest goes on
        try:
            events = nv.nvmlEventSetCreate()
            for card in self._cards.values():
                nv.nvmlDeviceRegisterEvents(card.handle, nv.nvmlEventTypeXidCriticalError, events)
        except nv.NVMLError:
            return
        self._events = events

    def _xids(self) -> list[tuple[int, int]]:
        nv = self._nv
        by_address = {ctypes.cast(card.handle, ctypes.c_void_p).value: i for i, card in self._cards.items()}
        found: list[tuple[int, int]] = []
        self._slot.enter(XIDS)
        try:
            while len(found) < MAX_INSTANCES:
                event = nv.nvmlEventSetWait_v2(self._events, 0)
                address = ctypes.cast(event.device, ctypes.c_void_p).value
                found.append((by_address.get(address, -1), int(event.eventData)))
        except nv.NVMLError as reason:
            if reason.value != nv.NVML_ERROR_TIMEOUT:
                self._events = None if reason.value in HOPELESS else self._events
        return found


IDENTIFYING = frozenset({"processes", "SM share of processes"})  # read of all devices: the job may turn up on any


def _people(card: "fields.DeviceFields") -> list[tuple[int, int | None, float | None]]:
    """Return who is on the device; who had no SM time has a share of 0, and None where it cannot be measured."""
    known = dict(card.processes)
    if card.shares is None:
        return [(pid, taken, None) for pid, taken in known.items()]
    return [(pid, known.get(pid), card.shares.get(pid, 0.0)) for pid in {**known, **card.shares}]


def _try(nv: Any, call: Any, otherwise: Any) -> Any:
    try:
        return call()
    except (nv.NVMLError, AttributeError):
        return otherwise


def text_of(reason: Exception) -> str:
    """Return an NVML error's text."""
    return str(reason) or type(reason).__name__


def _load() -> tuple[Any, Any]:
    import pynvml  # noqa: PLC0415 - 25 ms that a machine without the library does not pay

    from gputune.nvml import fields  # noqa: PLC0415 - imports pynvml

    return pynvml, fields


def say(**line: object) -> None:
    """Send one line to the recorder; when nobody reads any more, end."""
    try:
        os.write(1, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    except OSError:
        os._exit(0)


def give_up(code: int, text: str) -> NoReturn:
    """Tell why there is nothing to read, and end."""
    why, hint = CANNOT.get(code, (f"NVML cannot be used: {text}", "`nvidia-smi` fails likewise: mend the driver first"))
    say(fatal=why, hint=hint, code=code)
    os._exit(0)


def main(slot_fd: int, skip: dict[str, float]) -> None:
    """Read until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the command
    parent = os.getppid()
    prctl(Option.PDEATHSIG, signal.SIGKILL)  # also out of a hung call
    if os.getppid() != parent:
        os._exit(0)
    slot = Slot(mmap.mmap(slot_fd, SLOT))
    slot.enter("loading of the library")
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        give_up(12, "")
    reader = _start(slot, skip)
    beat = time.monotonic()
    while _listen_to_parent(reader, beat):
        if line := reader.read():
            say(**line)
        reader.revive()
        beat = max(beat + reader.beat, time.monotonic())


def _start(slot: Slot, skip: dict[str, float]) -> Reader:
    try:
        return Reader(slot, skip)
    except ImportError as reason:
        give_up(-1, f"{reason}")
    except Exception as reason:  # noqa: BLE001 - whatever it is, it is told and costs this instrument only
        code = getattr(reason, "value", -1)
        if code == 6:
            say(fatal="NVML finds no GPU on this machine", hint="in a container: start it with its GPUs", code=code)
            os._exit(0)
        give_up(code if isinstance(code, int) else -1, text_of(reason))


def _listen_to_parent(reader: Reader, until: float) -> bool:
    """Wait for the next beat; return False when the recorder is gone."""
    while select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
        data = os.read(0, 4096)
        if not data:
            return False
        for line in data.splitlines():
            reader.told(**json.loads(line))
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
