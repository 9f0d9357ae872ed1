"""What run.json tells of the training processes, gathered from what was said while recording."""

import json
from collections.abc import Iterable

from gputune.core.sample import Json
from gputune.recording.encoding import Said

TRAINS = ("torch", "tensorflow")
VERSIONS = ("python", *TRAINS, "cuda")


class Story:
    """The training processes and what they said, in the shape of run.json. Workers are only counted."""

    def __init__(self) -> None:
        self.changed = False
        self._processes: dict[int, dict[str, Json]] = {}
        self._notes: dict[int, list[Json]] = {}
        self._workers: set[int] = set()

    def take(self, said: Iterable[Said]) -> None:
        """Take rows of the notes table."""
        for row in said:
            fields = json.loads(row.fields)
            if row.what == "guest" and fields["role"] == "worker":
                self._workers.add(row.process)
                self._processes.pop(row.process, None)
            # 256 training processes that are named; all of them are in the notes table
            elif row.what == "guest" and (row.process in self._processes or len(self._processes) < 256):
                self._processes[row.process] = fields
            elif row.what == "note":
                notes = self._notes.setdefault(row.process, [])
                # 256 notes kept of one process: loaders and sites are few, an endless stream of them is a bug of ours
                if len(notes) < 256:
                    notes.append(fields)
            self.changed = self.changed or row.what != "open"

    def tell(self) -> dict[str, Json]:
        """Return the fields of run.json that it fills."""
        self.changed = False
        processes: list[Json] = [
            {**guest, "notes": list(self._notes.get(process, []))} for process, guest in self._processes.items()
        ]
        training = self._training()
        return {
            **({"training": training} if training else {}),
            "processes": processes,
            "workers": len(self._workers),
            "machine": list(self._notes.get(-1, [])),
        }

    def _training(self) -> dict[str, Json]:
        """Return the versions that the first process trained with which said so."""
        said = (note for process in self._processes for note in self._notes.get(process, []))
        found = next(
            (n for n in said if isinstance(n, dict) and n.get("n") == "process" and any(map(n.get, TRAINS))), {}
        )
        return {name: value for name in VERSIONS if (value := found.get(name))}
