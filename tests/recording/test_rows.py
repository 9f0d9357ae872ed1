"""A second of samples becomes one Arrow message, put together from bytes."""

import pyarrow as pa
import pytest

from gputune.recording import rows as room
from gputune.recording.rows import ROWS, Heads, Rows


def ticks(heights: list[int], *, start: int) -> Rows:
    """Return rows with so many values each; the values go up from `start`."""
    rows = Rows()
    for number, height in enumerate(heights):
        ids = b"".join(n.to_bytes(2, "little") for n in range(height))
        rows.add(start + number, ids, [float(start + n) for n in range(height)])
    return rows


def read(message: bytes) -> list[dict[str, object]]:
    return list(pa.ipc.read_record_batch(pa.py_buffer(message), ROWS).to_pylist())


@pytest.mark.parametrize("heights", [[1], [3, 0, 5], [40] * 10, [7, 7, 7]])
def test_a_message_says_what_pyarrow_reads(heights: list[int], monkeypatch) -> None:
    heads = Heads()
    heads.message(ticks(heights, start=100))
    monkeypatch.setattr(room, "_by_pyarrow", None)  # the second of a kind does without it
    found = read(heads.message(ticks(heights, start=900)))
    assert [row["t"] for row in found] == [900 + n for n in range(len(heights))]
    assert [row["column"] for row in found] == [list(range(height)) for height in heights]
    assert [row["value"] for row in found] == [[900.0 + n for n in range(height)] for height in heights]


def test_a_pyarrow_that_lays_buffers_out_in_another_way_is_asked_each_time(monkeypatch) -> None:
    monkeypatch.setattr(room, "ALIGNED", 64)
    heads = Heads()
    for start in (100, 900):
        assert [row["t"] for row in read(heads.message(ticks([3], start=start)))] == [start]
