"""The orders that gputune sends into a training while it runs; the layout of the file is docs/steering.md.

The guest's half is `orders.py` in `probes/guest/`; `tests/guest/test_steering.py` holds the two together.
"""

import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from gputune.core.sample import Json

SIZE = 4096
HEADER = struct.Struct("<QII")  # number of the order, length of its text, CRC-32 of number, length and text
FILE = "steer"  # its name, in the folder of a watch's rings


class OrderChannel:
    """The end of the channel that writes. The file is made (0600), or that of a recorder before us is gone on with."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(fd, 0, SIZE)  # a full disk is an error here, and never a SIGBUS in the training
            self._map = mmap.mmap(fd, SIZE)
        finally:
            os.close(fd)
        self.path = path
        self._view = memoryview(self._map)
        self._word = self._view[:8].cast("Q")

    def send(self, order: Mapping[str, Json]) -> int:
        """Put an order in the place of the last one and return its number. Raises ValueError when it is too long.

        A training that has not come to a batch since then never sees the last one: wait for the note that answers it.
        """
        text = json.dumps(order, separators=(",", ":")).encode()
        if HEADER.size + len(text) > SIZE:
            raise ValueError(f"an order of {len(text)} bytes is too long")
        seq = self._word[0] + 1
        self._view[HEADER.size : HEADER.size + len(text)] = text
        check = zlib.crc32(text, zlib.crc32(struct.pack("<QI", seq, len(text))))
        struct.pack_into("<II", self._map, 8, len(text), check)
        self._word[0] = seq  # last, and in one piece: who reads meanwhile finds that the sums do not agree
        return seq

    def close(self) -> None:
        """Give the mapping back. The file stays: trainings have it mapped."""
        self._word.release()
        self._view.release()
        self._map.close()
