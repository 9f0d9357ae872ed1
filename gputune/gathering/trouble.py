"""The part of the gatherer that hears what the guest says of CUDA in one process: that it failed, or was not used."""

from collections.abc import Mapping

from gputune.core.sample import Json
from gputune.features import Failure, Unused

TROUBLES = frozenset({"card", "device", "failed", "unused"})  # notes


class Trouble:
    """What became of CUDA in one process."""

    def __init__(self) -> None:
        self._used = False
        self._failed: Mapping[str, Json] | None = None
        self._unused: Mapping[str, Json] | None = None

    def take(self, fields: Mapping[str, Json]) -> None:
        """Take a note; of several errors the last one counts: it is the one that ended the script, if any did."""
        kind = fields.get("n")
        if kind == "failed":
            self._failed = fields
        elif kind == "unused":
            self._unused = fields
        else:
            self._used = True

    def failure(self, pid: int, rank: int | None, gpu: str) -> Failure | None:
        """Return the last error, None where there was none. `gpu`: NVML's number, empty unknown."""
        if self._failed is None:
            return None
        what, where = (str(self._failed.get(name) or "") for name in ("what", "where"))
        return Failure(gpu=gpu, pid=pid, rank=rank, what=what, where=where, ended=self._failed.get("ended") is True)

    def unused(self, pid: int, rank: int | None, driver: int) -> Unused | None:
        """Return why it used no device, as far as that is known, None where it did or could not."""
        told = self._unused
        if told is None or self._used or self._failed is not None:
            return None
        visible = told.get("visible")
        return Unused(
            pid=pid,
            rank=rank,
            built=str(told.get("cuda") or ""),
            driver=driver,
            visible=None if visible is None else str(visible),
            forked=told.get("forked") is True,
        )
