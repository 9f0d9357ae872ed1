"""What a frame is: a message with a length and a checksum, so that a torn or damaged file loses only what was hit.

A frame is a header of 16 bytes and a payload: magic, table (high bit set: its schema), version, zero,
length of the payload, CRC-32 of the header so far and the payload. The payload is one Arrow IPC message. A reader that
meets damage goes on at the next magic whose checksum is right.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

MAGIC = b"\x89GPT"  # not text, so that a file opened by mistake says what it is
VERSION = 1
SCHEMA = 0x80  # added to a table's number: the payload is its schema
_HEAD = struct.Struct("<4sBBHI")
_CRC = struct.Struct("<I")
HEADER = _HEAD.size + _CRC.size


class FrameTable(IntEnum):
    """The tables of the frames: nearer to readings than the tables that are kept in the end."""

    COLUMNS = 1
    SAMPLES = 2
    EVENTS = 3
    NOTES = 4
    STACKS = 5


class RecordedFrame(NamedTuple):
    """One whole frame, and where it ends in the data."""

    table: int
    payload: bytes
    end: int


def frame(table: int, payload: bytes) -> bytes:
    """Return the bytes of one frame."""
    head = _HEAD.pack(MAGIC, table, VERSION, 0, len(payload))
    return head + _CRC.pack(zlib.crc32(payload, zlib.crc32(head))) + payload


def whole(data: bytes) -> Iterator[RecordedFrame]:
    """Yield every frame of `data` that is whole, in order; what lies between them was torn or damaged.

    A frame counts once: two of the same bytes are one that a disk has written in two places, for all that is kept has
    a time.
    """
    at = data.find(MAGIC)
    # Sums over what is no frame may read 8 times the data: a torn file has one such place, a hostile one thousands
    left = 8 * len(data)
    seen: dict[bytes, int] = {}  # head and checksum to where such a frame ends
    while 0 <= at <= len(data) - HEADER and left > 0:
        length = _length(data, at)
        found = _at(data, at, length) if length >= 0 else None
        if found is not None:
            before = seen.setdefault(data[at : at + HEADER], found.end)
            if before == found.end or data[before - length : before] != found.payload:
                yield found
        else:
            left -= max(0, length)
        at = data.find(MAGIC, found.end if found else at + 1)


def _length(data: bytes, at: int) -> int:
    """Return how long the payload of the frame at a place is, as its header says; -1 where it can be none."""
    _, _, version, zero, length = _HEAD.unpack_from(data, at)
    return -1 if version != VERSION or zero or at + HEADER + length > len(data) else int(length)


def _at(data: bytes, at: int, length: int) -> RecordedFrame | None:
    start = at + HEADER
    (crc,) = _CRC.unpack_from(data, at + _HEAD.size)
    with memoryview(data) as view, view[start : start + length] as payload:
        if zlib.crc32(payload, zlib.crc32(view[at : at + _HEAD.size])) != crc:
            return None
        return RecordedFrame(data[at + len(MAGIC)], bytes(payload), start + length)
