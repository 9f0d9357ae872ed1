"""A device whose work is what `work(ns)` said before an event was recorded, and whose events pass at once."""

import time
from collections import deque

_clock = [0.0, time.monotonic()]  # ms of device time when its queue is empty, host time then
initialized = False
queue = 1 << 30  # launches that the device's queue holds
_ends = deque()  # ms, when what is queued will be done
current = 0  # the device that the thread uses
_queued_calls = []  # what is called once it is initialised, with the stack of who asked for it
TOTAL = 1 << 30  # B
held = [0, 0]  # B that tensors hold, and the most that they ever did


def is_initialized():
    return initialized


def init():
    global initialized  # noqa: PLW0603 - scripts set it as well
    for call, _stack in _queued_calls:
        call()
    initialized = True


def keep(size):
    """Allocate so many bytes for good."""
    if held[0] + size > TOTAL:
        for observer in _C.observers:
            observer(0, size, TOTAL, TOTAL - held[0])
        raise OutOfMemoryError("CUDA out of memory")
    held[:] = held[0] + size, max(held[1], held[0] + size)


class OutOfMemoryError(RuntimeError):
    pass


class Properties:
    uuid = "51a00000-0000-4000-8000-000000000000"
    total_memory = TOTAL


def get_device_properties(device):
    return Properties


class _C:
    """What torch's own C part is asked of the allocator, and of modes."""

    modes = []  # noqa: RUF012 - one stack

    @classmethod
    def _len_torch_function_stack(cls):
        return len(cls.modes)

    @classmethod
    def _push_on_torch_function_stack(cls, mode):
        cls.modes.append(mode)

    @classmethod
    def _pop_torch_function_stack(cls):
        return cls.modes.pop()

    observers = []  # noqa: RUF012 - one allocator
    counts = True

    @staticmethod
    def _cuda_getDevice():  # noqa: N802 - torch's name
        return current

    @classmethod
    def _cuda_memoryStats(cls, device):  # noqa: N802 - likewise
        if not cls.counts:
            raise RuntimeError("cudaMallocAsync does not count")
        live = {"all": {"current": held[0], "peak": held[1]}}
        return {"allocated_bytes": live, "reserved_bytes": live, "num_alloc_retries": 0}

    @classmethod
    def _cuda_attach_out_of_memory_observer(cls, observer):
        cls.observers.append(observer)


def is_current_stream_capturing():
    return False


def work(ms):
    """Queue so many milliseconds of work, as soon as the device's queue has room."""
    while _ends and _ends[0] <= time.monotonic() * 1e3:
        _ends.popleft()
    if len(_ends) >= queue:
        time.sleep(max(0.0, _ends.popleft() / 1e3 - time.monotonic()))
    _ends.append(max(_clock[0], time.monotonic() * 1e3) + ms)
    _clock[0] = max(_clock[0], time.monotonic() * 1e3) + ms


def called(ms):
    """Queue the work of one of torch's own functions, which modes stand before."""
    if not _C.modes:
        work(ms)
        return
    mode = _C.modes.pop()
    try:
        mode.__torch_function__(work, (), (ms,))
    finally:
        _C.modes.append(mode)


def _sleep(cycles):
    work(cycles / 2e6)  # at 2 GHz


def synchronize():
    time.sleep(max(0.0, _clock[0] / 1e3 - time.monotonic()))


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        assert initialized, "the guest must not initialise the device"
        self.device = None

    def record(self, stream=None):
        if self.device not in {None, current}:
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {current}.")
        self.device = current
        self.at = max(_clock[0], time.monotonic() * 1e3)

    def query(self):
        return time.monotonic() * 1e3 >= self.at

    def elapsed_time(self, other):
        if self.device != other.device:
            raise RuntimeError("CUDA error: invalid resource handle")
        return other.at - self.at

    def synchronize(self):
        raise AssertionError("the guest waits for the device")
