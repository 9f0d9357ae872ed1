"""Ticks of samples as flat buffers, and the Arrow message of a second of them. In C where there was a compiler.

A message is a head, which describes the buffers, and the buffers. The head depends only on how many rows and values
there are, and from one second to the next there are as many: pyarrow makes one of each kind, and the rest is put
together from bytes, in a tenth of the time.
"""

import struct
from array import array
from collections.abc import Sequence

import pyarrow as pa

from gputune.core.sample import Metric, Reading

ROWS = pa.schema([("t", pa.int64()), ("column", pa.list_(pa.uint16())), ("value", pa.list_(pa.float64()))])
ALIGNED = 8  # B; each buffer of a message is filled up to a multiple of it
VALUE = 8  # B of a value


def packed(values: Sequence[float]) -> bytes:
    """Return values as they lie in a message; in two fifths of the time of an array."""
    return struct.pack(f"{len(values)}d", *values)


def _laid(
    readings: Sequence[Reading], metrics: tuple[Metric, ...], instances: tuple[str, ...]
) -> tuple[int, bytes] | None:
    """Return the time of a tick and its values, packed, if it has just these samples in this order; else None.

    Turned on its side by one call, as long as its shortest reading. Where one is no sample there are not four fields,
    or what stands in the place of its metric is none. Its time is its last sample's, or its first one's where probes
    answer late.
    """
    try:
        found, times, values, where = zip(*readings, strict=False)
        if where != instances or found != metrics:
            return None
        return max(times[0], times[-1]), packed(values)
    except (ValueError, TypeError, struct.error):
        return None


try:
    from gputune import _rows

    laid = _rows.laid
except ImportError:  # no compiler when it was installed
    laid = _laid


class Rows:
    """Ticks as flat buffers: a time, and a run of column ids and values each."""

    def __init__(self) -> None:
        self.times = array("q")
        self.ends = array("i", [0])
        self.ids = bytearray()
        self.values = bytearray()

    def add(self, t: int, ids: bytes, values: bytes) -> None:
        """Add one tick: its time in ns, its columns' ids as 16-bit numbers, and a value for each, packed."""
        self.ids += ids
        self.values += values
        self.times.append(t)
        self.ends.append(len(self.values) // VALUE)

    def buffers(self) -> list[bytes]:
        """Return times, ends and ids, ends and values: what the three columns consist of, in their order."""
        ends = self.ends.tobytes()
        return [self.times.tobytes(), ends, bytes(self.ids), ends, bytes(self.values)]


class Heads:
    """The heads of the messages made so far, by number of rows and values."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bytes] = {}

    def message(self, rows: Rows) -> bytes:
        """Return the Arrow message of these rows."""
        kind = (len(rows.times), len(rows.values) // VALUE)
        buffers = rows.buffers()
        body = b"".join([buffer + bytes(-len(buffer) % ALIGNED) for buffer in buffers])
        head = self._known.get(kind)
        if head is None:
            message = _by_pyarrow(*kind, buffers)
            head = message[: len(message) - len(body)]
            if head + body != message:  # a pyarrow that lays buffers out in another way
                return message
            if len(self._known) >= 64:  # kept; a recorder at its beat needs a handful
                self._known.clear()
            self._known[kind] = head
        return head + body


def _by_pyarrow(rows: int, values: int, buffers: Sequence[bytes]) -> bytes:
    times, ends, ids, _, numbers = map(pa.py_buffer, buffers)
    flat = pa.Array.from_buffers(pa.uint16(), values, [None, ids])
    floats = pa.Array.from_buffers(pa.float64(), values, [None, numbers])
    columns = [
        pa.Array.from_buffers(pa.int64(), rows, [None, times]),
        pa.Array.from_buffers(pa.list_(pa.uint16()), rows, [None, ends], children=[flat]),
        pa.Array.from_buffers(pa.list_(pa.float64()), rows, [None, ends], children=[floats]),
    ]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=ROWS).serialize())
