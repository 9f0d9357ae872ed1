"""A checksum of what a Parquet file says of itself: its pages have checksums of their own, its footer has none.

A flipped bit there gives a column another's name, or a metric another unit, and every page is still whole. So the
footer holds the CRC-32 of itself, taken with zeros in its own place: any reader of Parquet sees a pair of key and value
more.
"""

import re
import zlib
from collections.abc import Mapping

KEY = b"gputune.footer"  # of Parquet's key-value metadata
OPEN = b"0" * 8  # hexadecimal digits, until it is closed
_TAIL = 8  # B behind a footer: its length, and "PAR1"
_PLACE = re.compile(re.escape(KEY) + rb"\x18\x08([0-9a-f]{8})")  # in Thrift's compact protocol: a string of 8 bytes


def closed(data: bytes) -> bytes:
    """Return a file whose metadata holds KEY with the value OPEN, with the checksum of its footer there."""
    start = _footer(data)
    place = _PLACE.search(data, start)
    if place is None:  # another Parquet writer: it is read as one of an older gputune
        return data
    crc = f"{zlib.crc32(data[start:]):08x}".encode()
    return data[: place.start(1)] + crc + data[place.end(1) :]


def is_broken(data: bytes) -> bool:
    """Return whether a footer is not as it was closed; one without a checksum is of an older gputune."""
    start = _footer(data)
    place = _PLACE.search(data, start)
    if place is None:
        return False
    open_ = data[start : place.start(1)] + OPEN + data[place.end(1) :]
    return f"{zlib.crc32(open_):08x}".encode() != place[1]


def without(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Return what a file carries beside it."""
    return {key: value for key, value in metadata.items() if key != KEY} or None if metadata else None


def _footer(data: bytes) -> int:
    """Return where the footer begins; 0 where the file does not say it."""
    length = int.from_bytes(data[-_TAIL:-4], "little")
    return max(0, len(data) - _TAIL - length)
