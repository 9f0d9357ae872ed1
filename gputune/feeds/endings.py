"""The last words of a command that failed, out of its log: the error itself, and not what was printed after it."""

import os
from functools import lru_cache
from pathlib import Path

from gputune.core import opening
from gputune.core.hygiene import clean, mask

LOG_END_B = 16 << 10  # B: a traceback of torch's has some 5 kB
LINES = 8  # of a run; the last of them is the error
OURS = "gputune: "
TRACE = "Traceback (most recent call last)"
LOG = ".log"


def log_of(folder: Path) -> Path:
    """Return where `gputune watch --tui` has a command's output, beside the run folder."""
    return folder.with_name(f"{folder.name}{LOG}")


def last_words(log: Path, count: int = LINES) -> tuple[str, ...]:
    """Return up to `count` lines that a failed command has written last; none where its log is not this user's.

    Of Python's tracebacks the last one counts; what gputune itself has said after the end is none of the command's.
    """
    if log.suffix != LOG or not opening.is_mine(log):  # a recording may be anybody's, and name any file
        return ()
    try:
        about = log.stat()
        return _read(log, (about.st_mtime_ns, about.st_size), count)
    except OSError:
        return ()


@lru_cache(256)
def _read(log: Path, stamp: tuple[int, int], count: int) -> tuple[str, ...]:
    descriptor = opening.opened(log)
    start = max(0, os.fstat(descriptor).st_size - LOG_END_B)
    del stamp  # it stands for what is read
    text = opening.content(descriptor, start, LOG_END_B + LOG_END_B).decode("utf-8", "replace")
    return tuple(clean(mask([line])[0], 200) for line in told(text)[-count:])  # characters of a line


def told(text: str) -> list[str]:
    """Return the lines of the error at the end of a log; of one without a traceback all of the command's."""
    lines = [line.rstrip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    traces = [k for k, line in enumerate(lines) if TRACE in line]
    if traces:
        lines = lines[traces[-1] :]
        ends = [k for k, line in enumerate(lines) if line.startswith(OURS)]
        return lines[: ends[0]] if ends else lines
    last = max((k for k, line in enumerate(lines) if line.startswith(OURS)), default=len(lines))
    while last and last <= len(lines) and lines[last - 1].startswith(OURS):
        last -= 1
    return lines[:last]
