"""Which signals the supervisor passes on, and how it tells a terminal's from somebody's kill."""

import os
import signal
import time

# Everything that can be caught but the news of children. Faults of our own (SEGV, ...) stay deadly though blocked:
# the kernel does not hold them back.
WATCHED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
FORWARDED = WATCHED - {signal.SIGCHLD}
STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})

# What ends a supervisor that no longer has a command to protect.
LEAVES = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

# A recorder ends by itself, never by what was meant for the command's process group. Faults stay deadly.
FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS}
)

MOST_PID = 1 << 22  # Linux's largest


def deaf() -> None:
    """Ignore what a terminal or a kill of the process group sends (in the recorder; its children inherit it)."""
    for number in FORWARDED - FAULTS:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):  # the C library keeps a few real-time signals to itself
            continue


def from_group(info: signal.struct_siginfo, child: int) -> bool:
    """Return whether the kernel sent this to our whole process group (a terminal does), so that `child` has it too."""
    if info.si_code <= 0:  # SI_USER, SI_QUEUE, SI_TKILL: somebody's kill, to us
        return False
    try:
        return os.getpgid(child) == os.getpgrp()
    except ProcessLookupError:
        return True


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # ended just now, or runs as somebody else (sudo)
        return


def die_of(number: int) -> None:
    """End this process by the signal, leaving no core dump of its own; returns only where the kernel refuses."""
    import resource  # noqa: PLC0415 - needed once, at the end

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def is_stopped(pid: int) -> bool:
    """Return whether somebody has stopped a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except (OSError, IndexError):
        return False


def has_terminal() -> bool:
    """Return whether we have a terminal: a shell may wait there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def awaited(
    numbers: "set[signal.Signals] | frozenset[signal.Signals]", longest: float
) -> "signal.struct_siginfo | None":
    """Return a signal that has come, None where none does within so many seconds.

    Who was stopped meanwhile until that time was over is given noise by Python, or EINVAL: its call was interrupted,
    and it does not look again (3.11). Passed on, such noise would be a signal that nobody has sent.
    """
    until = time.monotonic() + longest
    try:
        info = signal.sigtimedwait(numbers, longest)
    except OSError:
        return None
    late = info is not None and time.monotonic() > until
    return None if info is None or (late and not _was_sent(info, numbers)) else info


def _was_sent(info: signal.struct_siginfo, numbers: "set[signal.Signals] | frozenset[signal.Signals]") -> bool:
    """Return whether the fields of a signal are such as the kernel fills in."""
    # 0x80 of where a signal comes from: SI_KERNEL, the largest of them
    plain = info.si_errno == 0 and abs(info.si_code) <= 0x80 and 0 <= info.si_pid <= MOST_PID
    return plain and info.si_signo in numbers
