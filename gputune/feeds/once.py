"""The machine that we are on and its live runs, read for whoever prints them and shows no screen."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gputune.feeds.local import LocalFeed
from gputune.feeds.rows import Node, RunRow, Update

LOOK_S = 1.0  # s between the first two readings, without which there are no rates
AGAIN_S = 0.1  # s to the next, while devices are there of which nothing was read yet
PATIENCE = 3.0  # s for that: a card that says nothing is shown so


def is_whole(nodes: Iterable[Node]) -> bool:
    """Return whether something was read of every device: NVML is asked by a process that has to start first."""
    return all(device.memory_total is not None for node in nodes for device in node.devices)


@contextmanager
def reading() -> Iterator[Callable[[], Update]]:
    """Give what reads it, each time it is called: of runs the documents alone, for a recording may be hours long."""
    feed = LocalFeed(follows=False)
    nodes: dict[str, Node] = {}
    runs: dict[str, RunRow] = {}

    def poll(since: int) -> int:
        update = feed.poll(since)
        nodes.update({node.name: node for node in update.nodes})
        runs.update({run.id: run for run in update.runs})
        for run in update.runs_gone:
            runs.pop(run, None)
        return update.until

    until = 0

    def look() -> Update:
        nonlocal until
        if not until:
            until = poll(0)
            time.sleep(LOOK_S)
        until = poll(until)
        end = time.monotonic() + PATIENCE
        while not is_whole(nodes.values()) and time.monotonic() < end:
            time.sleep(AGAIN_S)
            until = poll(until)
        return Update(until=until, nodes=tuple(nodes.values()), runs=tuple(runs.values()))

    try:
        yield look
    finally:
        feed.close()
