"""The tables of the recording as CSV files, with the unit of each column: a folder, or a .zip.

`RUN/csv/`, or `--out DIR` or `--out FILE.zip`: `samples.csv`, `batches.csv`, …, and `columns.csv`, which says what each
column is. docs/recording.md describes the tables.
"""

import csv
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

from gputune import opening
from gputune.errors import BadUsage, GputuneError
from gputune.exporters import Sent, Wish
from gputune.exporters._places import seats, stretch_of
from gputune.recording import spreadsheet
from gputune.recording.spreadsheet import Column
from gputune.sample import Metric

TAKES = frozenset({"out", "stretch"})
NEEDS: tuple[str, ...] = ()
NAME = "csv"
HEAD = ("table", "column", "unit", "kind", "meaning")
