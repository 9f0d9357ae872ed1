"""The end of a job that several watches have recorded: each leaves what it learnt, the lowest rank speaks for all."""

import os
import time
from pathlib import Path

from gputune import __version__
from gputune.core import opening
from gputune.core.hygiene import mask
from gputune.core.sample import Json, now
from gputune.features import Features
from gputune.features.joined_ranks import WatchShare, decode, encode, joined
from gputune.launch.job import seats
from gputune.launch.run import WatchedRun
from gputune.recording.about import sealed
from gputune.recording.folder import RUN, Folder
from gputune.watching.recorder.end import End

LEARNT = "features.json"


class JobWatches:
    """All watches of one job, as seen from one of them."""

    def __init__(self, run: WatchedRun) -> None:
        self._run = run
        self.troubles: list[str] = []
        self._absent: list[str] = []  # seats without which the job was judged

    def leave(self, features: Features) -> None:
        """Put what this watch has learnt where the others find it."""
        part = WatchShare(host=os.uname().nodename, features=features)
        try:
            with Folder(Path(self._run.folder)) as folder:
                folder.write(LEARNT, encode(part))
        except OSError as error:
            self.troubles.append(f"this rank is missing in the verdict on the job ({error.strerror or error})")

    @property
    def speaks(self) -> bool:
        """Return whether this watch has the lowest rank of those that sat down."""
        taken = seats(self._run.job)
        return bool(taken) and Path(taken[0]).samefile(self._run.folder)

    def gathered(self, end: End) -> Features:
        """Wait a while for the other watches of the job, and return what all of them have learnt."""
        # 15.0 s for ranks that end later: a launcher ends them together, and the supervisor waits 20 s at most
        until = time.monotonic() + 15.0
        while self._missing() and time.monotonic() < until and not end.alone:
            time.sleep(0.05)  # s between looks at a folder
            end()
        missing = self._missing()
        self._absent = [Path(seat).name for seat in missing]
        if missing:
            names = ", ".join(self._absent)
            self.troubles.append(f"the verdict is without {names}: not ended, or their watch was killed")
        return joined([_part(seat) for seat in seats(self._run.job) if seat not in missing])

    def _missing(self) -> list[str]:
        return [seat for seat in seats(self._run.job) if not Path(seat, LEARNT).exists()]

    def close(self) -> None:
        """Write the run.json of the whole job."""
        about: dict[str, Json] = {
            "schema_version": 1,
            "gputune": __version__,
            "command": list(mask(self._run.command)),
            "unix_minus_monotonic_ns": time.time_ns() - now(),
            "ranks": [Path(seat).name for seat in seats(self._run.job)],
            "absent": list(self._absent),
            "finished": True,
        }
        try:
            with Folder(Path(self._run.job)) as folder:
                folder.write(RUN, sealed(about))
        except OSError as error:
            self.troubles.append(f"the job's run.json was not written ({error.strerror or error})")


def _part(seat: str) -> WatchShare:
    return decode(opening.read(Path(seat, LEARNT)))
