"""What was tried in a run is a table of its own, made of records that lie in `events`."""

import pytest

import gputune
from gputune.core.events import DelayCode, Event, Kind, Record, SegmentCode
from gputune.recording import load
from tests.recording.conftest import START

MS = 1_000_000
KEPT = (
    (3, Record(Kind.DELAY, 0, 1000 * MS, 1004 * MS, 999 * MS, 0, 0, 0, 0)),
    (0, Record(Kind.DELAY, DelayCode.STANDS, 1010 * MS, 1100 * MS, 7, 1, 3, 0, 0)),
    (0, Record(Kind.DELAY, DelayCode.SLOWS, 1200 * MS, 1202 * MS, 7, 64, 0, 0, 0)),
    (0, Record(Kind.DELAY, DelayCode.LONE, 1250 * MS, 1252 * MS, 7, 9, 0, 0, 0)),
    (0, Record(Kind.SEGMENT, SegmentCode.HELD, 1300 * MS, 1310 * MS, 1, 0, 0, 2 * MS, 0)),
    (0, Record(Kind.SEGMENT, 0, 1400 * MS, 1410 * MS, 1, 0, 0, 0, 0)),
    (0, Record(Kind.FORWARD, 0, 1500 * MS, 1501 * MS, 0, 0, 0, 0, 0)),
)


def test_each_is_a_row_with_what_it_was_and_for_how_long(unfinished) -> None:
    one, folder = unfinished(1)
    one.take([Event(process, record._replace(t0=record.t0 + START, t1=record.t1 + START)) for process, record in KEPT])
    one.close()
    rows = gputune.load(folder).table("experiments").arrow().to_pylist()
    told = [[row[name] for name in ("process", "what", "seconds", "block", "iterator", "ready")] for row in rows]
    near = pytest.approx
    assert told == [
        [3, "delay", near(0.004, abs=1e-3), 999 * MS, None, None],
        [0, "fill", near(0.09, abs=1e-3), None, 7, 3],
        [0, "slope", near(0.002, abs=1e-3), 64, 7, None],
        [0, "lone", near(0.002, abs=1e-3), None, 7, None],
        [0, "hold", 0.002, None, None, None],
    ]


def test_it_is_empty_where_nothing_was_tried(finished) -> None:
    assert len(load(finished(1)).tables["experiments"]) == 0
