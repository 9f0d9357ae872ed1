"""A second of samples becomes one Arrow message, put together from bytes."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Metric, Note, Reading, Sample, Stack
from gputune.recording import rows as room
from gputune.recording.rows import ROWS, Heads, Rows, packed

IN_PYTHON = SimpleNamespace(laid=room._laid)
CORES = Metric("cpu.busy", "cores", "CPUs in use.")
READ = Metric("disk.read", "B", "Bytes read.", "counter", "disk")
METRICS, INSTANCES = (CORES, READ, READ), ("", "sda", "nvme0n1")


@pytest.fixture(params=["C", "Python"])
def way(request: pytest.FixtureRequest) -> SimpleNamespace:
    """Return one of the two that lay ticks out."""
    if request.param == "Python":
        return IN_PYTHON
    return pytest.importorskip("gputune._rows", reason="gputune was installed without a compiler")


def tick(*values: float, at: int = 5) -> list[Reading]:
    """Return the samples of one tick, each read 1 ns after the one before; their instances are made anew."""
    metrics = zip(METRICS, INSTANCES, values, strict=False)
    return [Sample(m, at + n, v, "".join(list(i))) for n, (m, i, v) in enumerate(metrics)]


def ticks(heights: list[int], *, start: int) -> Rows:
    """Return rows with so many values each; the values go up from `start`."""
    rows = Rows()
    for number, height in enumerate(heights):
        ids = b"".join(n.to_bytes(2, "little") for n in range(height))
        rows.add(start + number, ids, packed([float(start + n) for n in range(height)]))
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


def test_a_tick_is_laid_out(way: SimpleNamespace) -> None:
    assert way.laid(tick(1.5, 7, 1 << 60), METRICS, INSTANCES) == (7, packed([1.5, 7.0, float(1 << 60)]))


def test_its_time_is_that_of_its_first_sample_where_the_last_one_is_older(way: SimpleNamespace) -> None:
    late = [*tick(1.0, 2.0), Sample(READ, 3, 4.0, "nvme0n1")]
    assert way.laid(late, METRICS, INSTANCES) == (5, packed([1.0, 2.0, 4.0]))


@pytest.mark.parametrize(
    "readings",
    [
        [],
        tick(1.0, 2.0),
        [*tick(1.0, 2.0), Sample(READ, 5, 1.0, "sdb")],
        [*tick(1.0, 2.0), Sample(CORES, 5, 1.0, "nvme0n1")],
        [*tick(1.0, 2.0), Note(0, {})],
        [*tick(1.0, 2.0), Stack(5, 7, (), 3)],
        [*tick(1.0, 2.0), Event(0, Record(Kind.STEP, 0, 0, 0, 0, 0, 0, 0, 0))],
        [*tick(1.0, 2.0), Sample(READ, 5, "three", "nvme0n1")],  # type: ignore[arg-type] # as a broken probe would
        [*tick(1.0, 2.0), Sample(READ, 5, 1 << 2000, "nvme0n1")],
    ],
)
def test_whatever_else_is_not(way: SimpleNamespace, readings: list[Reading]) -> None:
    assert way.laid(readings, METRICS, INSTANCES) is None
