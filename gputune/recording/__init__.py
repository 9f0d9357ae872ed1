"""The run folder: what was measured, kept raw, so that it can be judged again elsewhere and later.

`Recording` writes it while a run goes on, `readings` and `load` read it, finished, torn or still growing. The files,
tables and columns are in docs/recording.md. Only this package imports pyarrow, and it does so when it first needs it.

 writing    the recorder's side: takes readings, writes frames once a second, rolls them into Parquet
 reading    the other side
 encoding   readings to frames          frames    what a frame is: it needs no pyarrow
 rows       the samples among them, as bytes
 judged     the verdict that was kept: it needs msgspec, which a recorder does not
 overview   a run's history in points   drawing   which of its segments are read for that
 asked      which columns of it         picking   of a segment, those and no others
 curves     their values to lines       points    rows to points
 tables     frames to the tables that are kept, and back
 parquet    tables to bytes that were verified
 gap        when it could not be written, and when to try again
 folder     the files and their names
"""

from gputune.recording.about import Damaged, NewerRun, NotARun
from gputune.recording.lean import lean
from gputune.recording.overview import ColumnEnvelope, Series, columns, series
from gputune.recording.reading import RecordedRun, load, readings
from gputune.recording.writing import MAX_SIZE, Recording

__all__ = [
    "MAX_SIZE",
    "ColumnEnvelope",
    "Damaged",
    "NewerRun",
    "NotARun",
    "RecordedRun",
    "Recording",
    "Series",
    "columns",
    "lean",
    "load",
    "readings",
    "series",
]
