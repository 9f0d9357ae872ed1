"""A table to the bytes of a Parquet file that has been read back and found equal, and those bytes to a table."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gputune.recording import seal
from gputune.recording.lean import lid

ROWS = 1 << 20  # of a part: a segment's 8 MiB of frames hold a third of it at the most
LARGEST = 256 << 20  # B of a part in memory
ALWAYS = 1 << 23  # values of a run, however small its files: a second to read
DENSEST = 48  # values a byte of the files of a run: a loop whose times differ by half a percent comes to 16
LARGEST_NAME = 1 << 20  # B of a name, and numbers of columns and pages, in what a file says of itself
Wanted: TypeAlias = Callable[[list[str]], list[str]] | None


class NotReadBack(Exception):  # noqa: N818 - named for what happened
    """A Parquet file did not read back as it was written."""


class Bound:
    """What may be read of one run: in proportion to its files, for a few bytes of each may hold a million rows."""

    def __init__(self) -> None:
        self._left = ALWAYS

    def take(self, size: int, values: int) -> None:
        """Count a file of `size` bytes that holds so many values. Raises NotReadBack where that is too many."""
        self._left += size * DENSEST
        if values > self._left:
            raise NotReadBack(
                f"it says that it holds {values:,} values in {size:,} B, as no run has so many in so little"
            )
        self._left -= values


def encode(table: pa.Table) -> bytes:
    """Return the table as Parquet with checksums of its pages and of its footer.

    Times, indices and the counters of `samples` are stored as differences, gauges (float32) by byte planes, all else
    (durations on the grid, names, what hardly changes) in a dictionary. Arrow's own schema is left out: it would be
    half of a small file.
    """
    encodings = {field.name: encoding for field in table.schema if (encoding := _encoding(field, table))}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=6,  # zstd: 9 takes twice the time for one percent
        use_dictionary=[name for name in table.column_names if name not in encodings],
        column_encoding=encodings,
        write_page_checksum=True,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.add_key_value_metadata({**(table.schema.metadata or {}), seal.KEY: seal.OPEN})
    return seal.closed(bytes(sink.getvalue().to_pybytes()))


def _encoding(field: pa.Field, table: pa.Table) -> str:
    if pa.types.is_float32(field.type):
        return "BYTE_STREAM_SPLIT"
    counter = pa.types.is_integer(field.type) and "process" not in table.column_names  # samples name no process
    return "DELTA_BINARY_PACKED" if counter or field.name in {"time", "index"} else ""


def decode(data: bytes, wanted: Wanted = None, bound: Bound | None = None) -> pa.Table:
    """Return the table of a Parquet file; a damaged page or footer raises, and what no recorder has ever written.

    `wanted` is given the names of its columns and says which to read; a column that is not read costs nothing.
    `bound` is that of the run, where more of its files are read.

    A word that stands in all rows is a word and a number in the file, and gigabytes as a column. So columns of words
    are read as dictionaries, whose size is known before they are made columns.
    """
    with lid(), _opened(data) as plain:
        about = plain.metadata
        _check(about)
        shape = plain.schema_arrow
        names = shape.names if wanted is None else wanted(shape.names)
        shape = shape if wanted is None else pa.schema([shape.field(name) for name in names])
        if bound is not None:
            bound.take(len(data), about.num_rows * len(names))
        spreads = any(map(_may_spread, shape.types))
        words = _words(plain) if spreads else []
        with _opened(data, words) if words else nullcontext(plain) as file:
            table = file.read(columns=None if wanted is None else names, use_threads=False).select(names)
        table.validate(full=True)
        whole = table.schema.empty_table() if not len(table) else table
        if spreads:
            spread = [_spread(whole[name]) for name in names]
            if sum(spread) > LARGEST:
                raise NotReadBack(f"it would take {sum(spread) >> 20} MiB")
            whole = whole.cast(shape)
        return whole.replace_schema_metadata(seal.without(about.metadata))


def _may_spread(kind: pa.DataType) -> bool:
    """Return whether its values may take more in memory than in the file says: numbers are counted by `_check`."""
    return not pa.types.is_primitive(kind)


def _words(file: pq.ParquetFile) -> list[str]:
    return [column.path for column in map(file.schema.column, range(len(file.schema))) if _is_text(column)]


def _opened(data: bytes, words: Sequence[str] = ()) -> pq.ParquetFile:
    if seal.is_broken(data):
        raise NotReadBack("what it says of itself is not as it was written")
    return pq.ParquetFile(
        pa.BufferReader(data),
        page_checksum_verification=True,
        read_dictionary=list(words) or None,
        thrift_string_size_limit=LARGEST_NAME,
        thrift_container_size_limit=LARGEST_NAME,
    )


def _is_text(column: pq.ColumnSchema) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY")


def _check(about: pq.FileMetaData) -> None:
    """Raise NotReadBack where the file says itself that it holds more than a segment can.

    Its columns are not asked: what they say may be nonsense, at which pyarrow ends the process.
    """
    groups = [about.row_group(n) for n in range(about.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    rows = max(about.num_rows, sum(group.num_rows for group in groups))
    # 1 << 25 values of a part: ticks of 2000 columns in such a segment come to 28 million
    if rows > ROWS or rows * about.num_columns > 1 << 25 or size > LARGEST:
        raise NotReadBack(f"it says that it holds {rows} rows of {about.num_columns} columns in {size} B")


def _spread(column: pa.ChunkedArray) -> int:
    """Return how many bytes a column of dictionaries takes as one of words, at the most; others take what they take."""
    if pa.types.is_list(column.type):
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    longest = (pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks)
    # The place of a word takes 4 B
    return sum(len(chunk) * (each + 4) for chunk, each in zip(column.chunks, longest, strict=True))


def metadata(data: bytes) -> dict[bytes, bytes]:
    """Return the key-value metadata of a Parquet file."""
    with lid(), _opened(data) as file:
        return dict(seal.without(file.metadata.metadata) or {})
