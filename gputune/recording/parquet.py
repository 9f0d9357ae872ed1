"""A table to the bytes of a Parquet file that has been read back and found equal, and those bytes to a table."""

import pyarrow as pa
import pyarrow.parquet as pq

LEVEL = 6  # zstd: 9 takes twice the time for one percent


class Damaged(Exception):  # noqa: N818 - named for what happened
    """A Parquet file did not read back as it was written."""


def encode(table: pa.Table) -> bytes:
    """Return the table as Parquet with page checksums.

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
        compression_level=LEVEL,
        use_dictionary=[name for name in table.column_names if name not in encodings],
        column_encoding=encodings,
        write_page_checksum=True,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.add_key_value_metadata(table.schema.metadata or {})
    return bytes(sink.getvalue().to_pybytes())


def _encoding(field: pa.Field, table: pa.Table) -> str:
    if pa.types.is_float32(field.type):
        return "BYTE_STREAM_SPLIT"
    counter = pa.types.is_integer(field.type) and "process" not in table.column_names  # samples name no process
    return "DELTA_BINARY_PACKED" if counter or field.name in {"time", "index"} else ""


def decode(data: bytes) -> pa.Table:
    """Return the table of a Parquet file; a page that was damaged raises."""
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return file.read(use_threads=False).replace_schema_metadata(file.metadata.metadata)


def metadata(data: bytes) -> dict[bytes, bytes]:
    """Return the key-value metadata of a Parquet file."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        return dict(file.metadata.metadata or {})
