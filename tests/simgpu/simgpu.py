"""A simulated GPU for training scripts and tests: standard library only, usable by path from any folder.

`Device` is what a training script uses: kernels are time on a card that all processes with the same `SIMGPU_STATE`
share, copies have a rate, memory is counted. `Cards` makes such a state and controls it: clocks, faults, strangers.
The NVML that the real pynvml finds in `build()`'s folder answers from the same state. The physics is engine.c.

    from simgpu import Device            # with this folder on sys.path
    gpu = Device()                       # card 0; without SIMGPU_STATE a private one
    gpu.copy_h2d(bytes, pinned=True, non_blocking=True)
    gpu.launch(0.004)                    # returns at once
    gpu.synchronize()
"""

import atexit
import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "libnvidia-ml.so.1"
OOM, LOST = -2, -3  # engine.c
MARK, KERNEL, H2D, D2H = range(4)  # sim.h
STREAMS = 8
BOOKS = ("since", "kernel", "h2d", "d2h", "collective_wait", "collective_move", "exposed_copy", "exposed_collective")
BOOKS += ("spun", "kernels", "copies", "collectives", "waits", "latest", "until")
GPU_IS_LOST, NOT_SUPPORTED, NO_PERMISSION, UNKNOWN, DRIVER_NOT_LOADED, MISMATCH = 15, 3, 4, 999, 9, 18  # nvml.h


class OutOfMemoryError(RuntimeError):
    """The card has no room for an allocation."""


class DeviceLostError(RuntimeError):
    """The card has fallen off the bus."""


def build() -> Path:
    """Compile the library, once for each state of its source, and return the folder that it lies in."""
    sources = sorted(HERE.glob("*.c"))
    text = b"".join(file.read_bytes() for file in [*sources, HERE / "sim.h"])
    base = Path(os.environ.get("SIMGPU_CACHE") or Path(tempfile.gettempdir()) / f"simgpu-{os.getuid()}")
    folder = base / hashlib.sha256(text).hexdigest()[:16]
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f"part-{os.getpid()}"
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-std=gnu11", "-O2", "-fPIC", "-shared", "-o", part, *sources, "-lpthread", "-lm"],
            check=True,
            timeout=120,
        )
        part.rename(library)  # whole or not at all: several processes may build at the same time
    return folder


_libraries: dict[Path, ctypes.CDLL] = {}


def _library() -> ctypes.CDLL:
    path = build() / LIBRARY
    if path not in _libraries:
        lib = ctypes.CDLL(str(path))
        c, i, n, d = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double
        for name, result, arguments in (
            ("sim_create", i, [c, i]),
            ("sim_use", i, [c]),
            ("sim_open", i, [i]),
            ("sim_close", None, [i]),
            ("sim_enqueue", n, [i, i, i, d, i, i, i]),
            ("sim_finished", n, [i, i, n, i]),
            ("sim_synchronize", i, [i]),
            ("sim_alloc", i, [i, n]),
            ("sim_used", n, [i]),
            ("sim_busy", d, [i]),
            ("sim_booked", i, [i, i, ctypes.POINTER(d)]),
            ("sim_set", i, [i, c, n]),
            ("sim_slower", i, [i, d]),
            ("sim_name", i, [i, c]),
            ("sim_ghost", i, [i, i, n, i]),
            ("sim_xid", i, [i, i]),
            ("sim_fault", i, [c, i, i, d, i, n]),
            ("sim_heal", None, []),
            ("sim_hits", n, [i]),
            ("sim_calls", n, []),
            ("sim_unknown", None, []),
        ):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        _libraries[path] = lib
    return _libraries[path]


def create(path: Path, devices: int = 1) -> Path:
    """Make the state of `devices` idle cards at `path`, which must not exist yet."""
    if _library().sim_create(os.fsencode(path), devices) != 0:
        raise OSError(f"no state of {devices} devices could be made at {path}")
    return path


class Event:
    """A mark on a stream: when everything that was queued before it had finished."""

    def __init__(self, device: "Device", stream: int, number: int) -> None:
        self._at = (device, stream, number)

    def query(self) -> bool:
        """Tell whether it has happened."""
        return self._finished(wait=False) > 0

    def synchronize(self) -> None:
        """Wait until it has happened."""
        self._finished(wait=True)

    def elapsed_since(self, earlier: "Event") -> float:
        """Return the seconds from an earlier event to this one, waiting for both."""
        return (self._finished(wait=True) - earlier._finished(wait=True)) / 1e9

    def _finished(self, *, wait: bool) -> int:
        device, stream, number = self._at
        return device._check(device._lib.sim_finished(device.index, stream, number, wait))


class Device:
    """One card, as this process uses it. A forked child gets a place of its own at its first call.

    `spin` makes waiting for the card burn a CPU, as CUDA does by default; sleeping is kinder to small test machines.
    """

    def __init__(self, index: int = 0, *, spin: bool = False) -> None:
        self.index = index
        self.spin = spin
        if "SIMGPU_STATE" not in os.environ:
            folder = tempfile.TemporaryDirectory(prefix="simgpu-")
            atexit.register(folder.cleanup)
            os.environ["SIMGPU_STATE"] = str(create(Path(folder.name) / "state", index + 1))
        self._lib = _library()
        self._check(self._lib.sim_open(index))
        atexit.register(self._lib.sim_close, index)

    def launch(
        self, seconds: float, *, stream: int = 0, sm: float = 0.9, tensor: float = 0.0, dram: float = 0.3
    ) -> None:
        """Queue a kernel that takes `seconds` on an otherwise idle card at full clocks, and return at once.

        `sm`, `tensor` and `dram` are the shares of those units that it keeps busy.
        """
        self._enqueue(stream, KERNEL, seconds, round(1000 * sm), round(1000 * tensor), round(1000 * dram))

    def step(self, batch: int, *, per_sample: float, fixed: float = 0.0, kernels: int = 1, tensor: float = 0.0) -> None:
        """Queue a training step whose time grows with the batch: `fixed + batch * per_sample` seconds in `kernels`."""
        for _ in range(kernels):
            self.launch((fixed + batch * per_sample) / kernels, tensor=tensor)

    def copy_h2d(self, count: int, *, pinned: bool = False, non_blocking: bool = False, stream: int = 0) -> None:
        """Copy `count` bytes to the card, in the stream's order.

        As in CUDA, it returns at once only from pinned memory and with `non_blocking`; else it waits for the stream.
        """
        number = self._enqueue(stream, H2D, count, pinned)
        if not (pinned and non_blocking):
            self._wait(stream, number)

    def copy_d2h(self, count: int, *, pinned: bool = False, non_blocking: bool = False, stream: int = 0) -> None:
        """Copy `count` bytes back from the card, as `copy_h2d`; `.item()` is one of 4 bytes."""
        number = self._enqueue(stream, D2H, count, pinned)
        if not (pinned and non_blocking):
            self._wait(stream, number)

    def record(self, stream: int = 0) -> Event:
        """Put a mark on the stream."""
        return Event(self, stream, self._enqueue(stream, MARK, 0))

    def synchronize(self) -> None:
        """Wait until everything that this process queued on the card has finished."""
        if self.spin:
            for stream in range(STREAMS):
                self._wait(stream, self._enqueue(stream, MARK, 0))
        else:
            self._check(self._lib.sim_synchronize(self.index))

    def alloc(self, count: int) -> None:
        """Take `count` bytes of the card's memory. Raises OutOfMemoryError."""
        self._check(self._lib.sim_alloc(self.index, count))

    def free(self, count: int) -> None:
        """Give `count` bytes back."""
        self._check(self._lib.sim_alloc(self.index, -count))

    def busy(self) -> float:
        """Return the seconds, ever, in which the card ran at least one kernel of anybody."""
        return float(self._lib.sim_busy(self.index))

    def close(self) -> None:
        """Leave the card: memory is given back, queued work is dropped."""
        self._lib.sim_close(self.index)

    def _enqueue(self, stream: int, kind: int, amount: float, *keeps_busy: int) -> int:
        sm, tensor, dram = (*keeps_busy, 0, 0, 0)[:3]
        return self._check(self._lib.sim_enqueue(self.index, stream, kind, amount, sm, tensor, dram))

    def _wait(self, stream: int, number: int) -> None:
        if self.spin:
            while not self._check(self._lib.sim_finished(self.index, stream, number, 0)):
                pass
        else:
            self._check(self._lib.sim_finished(self.index, stream, number, 1))

    def _check(self, code: int) -> int:
        if code >= 0:
            return code
        if code == OOM:
            raise OutOfMemoryError("CUDA out of memory (simulated)")
        raise DeviceLostError(
            f"CUDA error: device {self.index} is lost (simulated)" if code == LOST else f"no card {code}"
        )


class Cards:
    """The hand on the cards of one state: what a test or the command line switches on and off.

    Parameters are the names in sim.h: clocks in MHz, power in mW, memory in B, `throttle` NVML's bit mask, `lost`,
    `mig`, `gpm` and `fields` 0 or 1, `compute_mode` NVML's number, `gen` and `width` of the PCIe link, `pid_offset`
    what is added to every pid, `slice_sms` and `slice_memory` what the one instance of a card in MIG mode has.
    """

    def __init__(self, path: Path) -> None:
        os.environ["SIMGPU_STATE"] = str(path)
        self._lib = _library()
        if self._lib.sim_use(os.fsencode(path)) != 0:
            raise OSError(f"{path} is no state of simulated cards")

    def set(self, device: int = 0, **params: int) -> None:
        """Set parameters of one device."""
        for name, value in params.items():
            if self._lib.sim_set(device, name.encode(), value) != 0:
                raise KeyError(f"device {device} has no parameter {name}")

    def slower(self, factor: float, device: int = 0) -> None:
        """Make a device's copies and collectives take `factor` times as long, over so many lanes less; or more."""
        self._lib.sim_slower(device, factor)

    def name(self, text: str, device: int = 0) -> None:
        """Give a device another product name."""
        self._lib.sim_name(device, text.encode())

    def fault(
        self, function: str, code: int = 0, *, device: int = -1, delay: float = 0.0, value: int | None = None
    ) -> int:
        """Let an NVML function (`*`: all) return `code`, be late by `delay` s (-1: hang), or succeed with `value`.

        Returns a number for `hits`. A fault without code, delay and value only counts calls.
        """
        given = 0 if value is None else ctypes.c_int64(value).value
        return int(self._lib.sim_fault(function.encode(), device, code, delay, value is not None, given))

    def hits(self, fault: int) -> int:
        """Return how often a fault was met."""
        return int(self._lib.sim_hits(fault))

    def calls(self) -> int:
        """Return how many NVML calls were made, by all processes."""
        return int(self._lib.sim_calls())

    def heal(self) -> None:
        """Take all faults back."""
        self._lib.sim_heal()

    def unknown_error(self) -> None:
        """Let every process that uses NVML now get Unknown Error until it initialises again."""
        self._lib.sim_unknown()

    def xid(self, number: int, device: int = 0) -> None:
        """Report an Xid event."""
        self._lib.sim_xid(device, number)

    def ghost(self, pid: int, memory: int, sm: float, device: int = 0) -> None:
        """Show a process that is not of this machine on a card, with `sm` of its SM time; `memory` 0 takes it away."""
        self._lib.sim_ghost(device, pid, memory, round(100 * sm))

    def booked(self, device: int = 0, pid: int | None = None) -> dict[str, float]:
        """Return how a process (default: this one) spent its time on a card, in ns; also of one that has ended.

        `kernel`: one of its kernels ran; `h2d`, `d2h`: a copy; `collective_wait`, `collective_move`: it stood in a
        collective. `exposed_copy`, `exposed_collective`: none ran, and a stream that has kernels waited for that.
        `idle` is the rest of the time from `since`, its first use of the card, to `until`. `spun` is the part of
        `kernel` in which nothing but cycles was counted, as a device is held back. `kernels`, `copies`, `collectives`
        and `waits` (by CUDA: synchronizations that the process asked for) are numbers of them. Raises KeyError for a
        process that was never there. `latest` is when it last had anything to do.
        """
        out = (ctypes.c_double * len(BOOKS))()
        if self._lib.sim_booked(device, os.getpid() if pid is None else pid, out) != 0:
            raise KeyError(f"process {pid} was never on device {device}")
        books = dict(zip(BOOKS, out, strict=True))
        told = books["kernel"] + books["exposed_copy"] + books["exposed_collective"]
        return books | {"idle": books["until"] - books["since"] - told}
