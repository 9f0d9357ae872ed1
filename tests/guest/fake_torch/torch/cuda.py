"""A device whose work is what `work(ns)` said before an event was recorded, and whose events pass at once."""

import time

_clock = [0.0, time.monotonic()]  # ms of device time when its queue is empty, host time then
initialized = False


def is_initialized():
    return initialized


def is_current_stream_capturing():
    return False


def work(ms):
    """Queue so many milliseconds of work."""
    _clock[0] = max(_clock[0], time.monotonic() * 1e3) + ms


def _sleep(cycles):
    work(cycles / 2e6)  # at 2 GHz


def synchronize():
    time.sleep(max(0.0, _clock[0] / 1e3 - time.monotonic()))


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        assert initialized, "the guest must not initialise the device"

    def record(self):
        self.at = max(_clock[0], time.monotonic() * 1e3)

    def query(self):
        return time.monotonic() * 1e3 >= self.at

    def elapsed_time(self, other):
        return other.at - self.at

    def synchronize(self):
        raise AssertionError("the guest waits for the device")
