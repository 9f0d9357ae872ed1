"""Files in the page cache and out of it again: only those that the script read, and never the whole machine's cache.

`/proc/sys/vm/drop_caches` would do it in one go, but it takes everybody's cache, not only ours.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gputune.core.errors import GputuneError

CODE = frozenset({".py", ".pyc", ".so", ".pyi", ".toml", ".cfg"})
SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib/", "/lib/")
WRITABLE = mmap.PROT_READ | mmap.PROT_WRITE


class NoFiles(GputuneError):  # noqa: N818 - named for what happened
    """The script was not seen to read any files."""

    def __init__(self) -> None:
        super().__init__(
            "no data files were seen to be read in the trial",
            hint="files that are opened by C libraries are not seen; `--ceiling` shows what faster reading could bring",
        )


def readable(names: Path) -> tuple[Path, ...]:
    """Return the data files that a trial has named in `names`. Raises NoFiles where there are none."""
    try:
        lines = names.read_bytes().splitlines()
    except OSError:
        raise NoFiles from None
    paths = (Path(os.fsdecode(line)) for line in dict.fromkeys(lines))
    found = tuple(path for path in paths if _is_data(path))
    if not found:
        raise NoFiles
    return found


def _is_data(path: Path) -> bool:
    text = str(path)
    if text.startswith(SYSTEM) or path.suffix in CODE or "/site-packages/" in text or "/lib/python" in text:
        return False
    return path.is_file() and os.access(path, os.R_OK)


def drop(files: Iterable[Path]) -> None:
    """Ask the kernel to forget what it keeps of these files. `resident` tells how much it still keeps."""
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has gone since
            continue
        try:
            os.fdatasync(descriptor)  # pages that are not written yet cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:  # a file system that knows no advice
            pass
        finally:
            os.close(descriptor)


def resident(files: Sequence[Path]) -> float:
    """Return the share of these files' pages that are in memory, 0 to 1, by a sample of them.

    Source: mincore(2).
    """
    step = max(1, len(files) // 500)  # files whose pages are looked up
    counts = [_pages(path) for path in files[::step]]
    whole = sum(pages for _there, pages in counts)
    return sum(there for there, _pages_ in counts) / whole if whole else 0.0


def _pages(path: Path) -> tuple[int, int]:
    """Return (pages in memory, pages) of one file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, WRITABLE) as mapped:
            pages = -(-len(mapped) // mmap.PAGESIZE)
            flags = (ctypes.c_ubyte * pages)()
            first = ctypes.c_char.from_buffer(mapped)  # the mapping is private and writable for this alone
            failed = ctypes.CDLL(None).mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(mapped)), flags
            )
            del first  # or the mapping cannot be closed
            return (0, 0) if failed else (sum(flag & 1 for flag in flags), pages)
    except (OSError, ValueError):  # gone, or empty
        return 0, 0
