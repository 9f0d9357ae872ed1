"""prctl(2), for which Python has no function. ctypes is imported where it is called: a supervisor seldom needs it."""

from enum import IntEnum


class Option(IntEnum):
    """What is set, by the names of `sys/prctl.h` less `PR_SET_`."""

    PDEATHSIG = 1
    CHILD_SUBREAPER = 36
    NO_NEW_PRIVS = 38


def prctl(option: Option, value: int) -> bool:
    """Set an option of this process, or thread; False where the kernel or the C library does not know it."""
    import ctypes  # noqa: PLC0415 - see above

    try:
        arguments = map(ctypes.c_ulong, (value, 0, 0, 0))
        return bool(ctypes.CDLL(None).prctl(int(option), *arguments) == 0)
    except (OSError, AttributeError):
        return False
