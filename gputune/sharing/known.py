"""What cannot fit by what was said of it: the run refuses it before anything starts, and so does its rehearsal."""

from collections.abc import Callable, Sequence

from gputune.core.errors import BadUsage
from gputune.core.figures import size
from gputune.sharing import fitting
from gputune.sharing.fitting import Need, Room
from gputune.sharing.refusals import DoesNotFit
from gputune.sharing.spec import Spec
from gputune.sharing.tasks import Task


def check(spec: Spec, everything: Sequence[Task], room_of: Callable[[Task], Room]) -> None:
    """Refuse tasks that cannot be at once on the cards they are to use, or not even alone in turn. Raises BadUsage."""
    if not any(job.memory or job.host_memory for job in spec.jobs):
        return
    if spec.queue:
        for task in (max(everything, key=_on_device), max(everything, key=_on_host)):
            _fit(spec, [task], room_of(task))
        return
    for card in dict.fromkeys(task.card for task in everything):
        here = [task for task in everything if task.card == card]
        _fit(spec, here, room_of(here[0]))


def _fit(spec: Spec, here: Sequence[Task], room: Room) -> None:
    """Refuse these tasks where their card cannot hold them at once. Raises BadUsage."""
    if len(spec.jobs) == 1 or len(here) == 1:
        job = here[0].job
        need = Need(device=job.memory, host=job.host_memory, given=True)
        if says := fitting.refusal(len(here), need, room):
            raise DoesNotFit(says, fitting.fits(need, room))
        return
    _on_host_together(here, room)
    whole = float(sum(task.job.memory or 0 for task in here))
    if room.device_free is not None and whole > room.device_free:
        says = f"the jobs do not fit on {room.name}: together they take {size(whole)}, as given, and"
        raise BadUsage(f"{says} {size(room.device_free)} are free", hint="with `--queue` some wait their turn")


def _on_host_together(here: Sequence[Task], room: Room) -> None:
    whole = float(sum(task.job.host_memory or 0 for task in here))
    if room.host_free is not None and whole > room.host_free:
        says = f"the jobs do not fit into this machine's memory: together they take {size(whole)}, as given, and"
        raise BadUsage(f"{says} {size(room.host_free)} are free", hint="with `--queue` some wait their turn")


def _on_device(task: Task) -> int:
    return task.job.memory or 0


def _on_host(task: Task) -> int:
    return task.job.host_memory or 0
