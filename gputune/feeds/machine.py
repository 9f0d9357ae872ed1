"""The machine that we are on as a row, read by the probes that also record a run.

What fails costs its own part of the row: NVML hangs in a process of its own, a probe that cannot work is named.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from gputune.core.sample import Reading, Target, now
from gputune.feeds.board import PROBES, Board
from gputune.feeds.past import by_role
from gputune.feeds.rows import DeviceRow, Node, TaskRow
from gputune.feeds.tasks import Kin, OnDevice, Tasks
from gputune.nvml.process import Person, Subscription, subscribe
from gputune.sampler.ticker import Ticker

HZ = 1.0

Take: TypeAlias = Callable[[list[Reading]], None]


class MachineReader:
    """Reads this machine when it is asked, about once a second. To be used, and closed, in one thread.

    `beside` is given the readings of every tick, as they come.
    """

    def __init__(self, name: str = "", beside: Take | None = None) -> None:
        self.name = name or os.uname().nodename
        self._board = Board()
        self._tasks = Tasks()
        target = Target(os.getpid(), dict, hz=HZ, everything=True)
        self._beside = beside
        self._ticker = Ticker(target, hz=HZ, sink=self._take, probes=PROBES)
        self._subscription: Subscription | None = None
        self._on: dict[int, OnDevice] = {}
        self._told: Sequence[TaskRow] = ()

    def look(self, kin: list[Kin]) -> Node:
        """Return the machine as it is now, `kin` being the processes of its runs."""
        self._ticker.tick()
        self._people()
        unavailable = {**self._ticker.unavailable, **self._ticker.failed}
        node = self._board.node(self.name, "local", unavailable)
        tasks = self._tasks.look(kin, self._on)
        if tasks is not self._told:  # they were looked at anew
            self._told = tasks
            self._take(by_role(tasks, now()))
        return replace(node, tasks=tasks, devices=tuple(_owned(device, tasks) for device in node.devices))

    def _take(self, readings: list[Reading]) -> None:
        self._board.take(readings)
        if self._beside is not None:
            self._beside(readings)

    def close(self) -> None:
        """End the probes, and the NVML process with them."""
        self._ticker.close()
        if self._subscription is not None:
            self._subscription.close()

    def _people(self) -> None:
        """Learn who is on which device."""
        if "nvml" in self._ticker.unavailable:
            self._on = {}
            return
        if self._subscription is None:  # the probe has started the process by now: this is a share in it
            self._subscription = subscribe()
        for answer in self._subscription.read():
            if answer.people:
                self._on = _held(answer.people)


def _held(people: Mapping[int, Sequence[Person]]) -> dict[int, OnDevice]:
    """Return by pid what each process holds: memory is added up over its devices, and of their time it is the mean."""
    found: dict[int, OnDevice] = {}
    for device, there in people.items():
        for pid, memory, share in there:
            devices, taken, part = found.get(pid, OnDevice((), None))
            count = len(devices)
            taken = taken if memory is None else (taken or 0.0) + memory
            part = part if share is None else ((part or 0.0) * count + share) / (count + 1)
            found[pid] = OnDevice((*devices, device), taken, part)
    return found


def _owned(device: DeviceRow, tasks: Sequence[TaskRow]) -> DeviceRow:
    """Return the device with the run that is on it, where one is."""
    run = next((task.run for task in tasks if task.run and device.index in task.device.split(",")), "")
    return replace(device, job=run) if run else device
