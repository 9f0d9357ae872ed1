"""Several different jobs: each is measured alone, and then those run at once that fit beside each other."""

from collections.abc import Sequence

from gputune.core.figures import size
from gputune.sharing.fitting import CROWDED, Need, Room
from gputune.sharing.spec import TaskSpec
from gputune.sharing.tasks import Task

WHOLE = 1.0  # of the device's time


class Each:
    """What one process of each job takes, and who may run beside whom. `room` is what there is while nobody runs."""

    def __init__(self, jobs: Sequence[TaskSpec]) -> None:
        self._jobs = list(jobs)
        self._needs: dict[str, Need] = {}
        self.room = Room()

    @property
    def following(self) -> TaskSpec | None:
        """Return the next job to be measured, None once all were."""
        return next((job for job in self._jobs if job.name not in self._needs), None)

    def keep(self, need: Need) -> str:
        """Keep what the job has shown that was to be measured; return it in words."""
        job = self.following
        if job is None:
            return ""
        self._needs[job.name] = need
        parts = [f"{need.cores:.1f} of {self.room.cores:g} CPUs"] if need.cores is not None else []
        parts += [f"{need.busy:.0%} of the device's time"] if need.busy is not None else []
        parts += [f"{size(need.device)} of its memory"] if need.device else []
        parts += [f"{size(need.host)} of the host's"] if need.host else []
        return f"{job.name} alone takes {', '.join(parts) or 'nothing that was seen'}"

    def ordered(self, found: Sequence[Task]) -> list[Task]:
        """Return tasks with those first that take most of any one thing: the others fill what these leave."""
        return sorted(found, key=lambda task: -max(self._shares(task.job).values(), default=0.0))

    def admits(self, job: TaskSpec, running: Sequence[TaskSpec]) -> bool:
        """Return whether a job fits beside those that run: nothing is asked for of which there is not enough."""
        mine, taken = self._shares(job), [self._shares(other) for other in running]
        over = {"CPUs": WHOLE + CROWDED / self.room.cores}
        fits = (
            share + sum(other.get(what, 0.0) for other in taken) <= over.get(what, WHOLE)
            for what, share in mine.items()
        )
        return not running or all(fits)

    def _shares(self, job: TaskSpec) -> dict[str, float]:
        """Return which part of each thing one process of a job takes, as far as that is known."""
        need, room = self._needs.get(job.name, Need()), self.room
        pairs = {
            "CPUs": (need.cores, room.cores),
            "device time": (need.busy, WHOLE),
            "device memory": (need.device, room.device_free),
            "host memory": (need.host, room.host_free),
        }
        return {what: part / whole for what, (part, whole) in pairs.items() if part is not None and whole}
