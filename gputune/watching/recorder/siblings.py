"""A job of several watches while it goes on: each leaves what it has learnt so far, and the lowest one reads it all.

So the verdict so far that a screen shows is one on the whole job, as the one at its end is (`job_end.py`). What the
others left may be older than one's own by as long as they write rarely, half a minute; rounds of ranks are compared by
number.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from gputune.core import opening
from gputune.features import Features
from gputune.features.joined_ranks import WatchShare, decode, encode, joined
from gputune.features.windowing import thin
from gputune.launch.job import seats
from gputune.launch.run import WatchedRun
from gputune.recording.folder import Folder

FILE = "so-far.json"
WHOLE = 8  # seats up to which each leaves its series as well: 0.2 MB, which take some ms to read
ROUNDS = 128  # of each rank in larger jobs: some kB


class Siblings:
    """The other watches of one job, as seen from one of them. Of a run of its own there are none."""

    def __init__(self, run: WatchedRun) -> None:
        self._run = run
        self._left = False

    def together(self, own: Features) -> Features:
        """Leave what we have learnt, and return what all have, where it is we who speak; else what we have."""
        if not self._run.job:
            return own
        taken = [Path(seat) for seat in seats(self._run.job)]
        mine = Path(self._run.folder)
        part = WatchShare(host=os.uname().nodename, features=own)
        if not taken or not taken[0].samefile(mine):
            self._leave(part if len(taken) <= WHOLE else replace(part, features=_short(own)))
            return own
        # 256 seats that are read; in a larger job the lowest ranks stand for all until its end
        others = [found for seat in taken[1:256] if (found := _read(seat)) is not None]
        return joined([part, *others]) if others else own

    def _leave(self, part: WatchShare) -> None:
        with Folder(Path(self._run.folder)) as folder:
            folder.write(FILE, encode(part))
        self._left = True

    def close(self) -> None:
        """Take it away: what is learnt in the end lies elsewhere."""
        if self._left:
            with suppress(OSError):
                (Path(self._run.folder) / FILE).unlink()


def _short(run: Features) -> Features:
    """Return what is needed of a rank to compare it with others."""
    meetings = {process.pid: process.meetings[-ROUNDS:] for process in run.processes}
    short = thin(run)
    return replace(short, processes=tuple(replace(p, meetings=meetings[p.pid]) for p in short.processes))


def _read(seat: Path) -> WatchShare | None:
    """Return what a watch has left, nothing where it has left nothing yet, or no more."""
    try:
        return decode(opening.read(seat / FILE))
    except (OSError, msgspec.DecodeError):
        return None
