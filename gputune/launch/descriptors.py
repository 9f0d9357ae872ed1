"""The descriptors that supervisor and recorder keep, and those that are the command's alone."""

import os


def say(text: str) -> None:
    """Write to stderr, if anybody reads it."""
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return


def null(descriptor: int) -> None:
    """Put /dev/null in the place of a descriptor."""
    try:
        empty = os.open(os.devnull, os.O_RDWR)
        if empty != descriptor:
            os.dup2(empty, descriptor, inheritable=False)
            os.close(empty)
    except OSError:
        return


def is_open(descriptor: int) -> bool:
    """Return whether this process has it."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def close_others(kept: "set[int]") -> None:
    """Close all descriptors but stdin, stdout, stderr and `kept`: what was handed to us was meant for the command."""
    low = 3
    for descriptor in sorted(kept):
        if descriptor >= low:
            os.closerange(low, descriptor)
            low = descriptor + 1
    os.closerange(low, 1 << 16)  # close_range(2) where the kernel has it: one call
