"""A relay of made-up nodes for `agents.py`: what a rack of machines would say through it, anew every second, until EOF.

Its rows are as large as those of real agents: 8 devices, 64 CPUs, ten processes, and on each node a live run with its
findings and half an hour of history, a point of which comes every 4 s, and a verdict that is made anew twice a minute.
Arguments: number of the rack, nodes, folder, folder of the credentials.
"""

import select
import sys
import threading
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace
from screen_feed import Simulated

from gputune.feeds.rows import DiskRow, History, NetRow, Node, RunRow, TaskRow, Update
from gputune.recording import lean
from gputune.verdict.document import Verdict
from gputune.wire import credentials

POINTS, POINT = 450, 4  # of a history: half an hour, a point 4 s
JUDGED = 30  # s between two verdicts of a run
TASKS = tuple(
    TaskRow(pid=4711 + k, name="python", role="worker", cpu=0.9, memory=1e9 + k, started=100 + k) for k in range(10)
)


SPANS = {"loader.wait": 0.57, "step": 0.33, "startup": 0.04, "checkpoint": 0.02, "logging": 0.02, "sync": 0.02}
FINDING = {
    "id": "few-workers", "severity": "high", "share_lost": 0.57, "speedup": {"low": 1.9, "likely": 2.2, "high": 2.3},
    "says": "the loop waits 57% of its time for batches: one takes 75.3 ms to make, a step 3.33 ms, num_workers is 1",
    "do": "set num_workers=6", "where": "train.py:34", "change": {"num_workers": 6}, "effect": "same-order",
    "basis": "DataLoader replayed over the measured times of its batches and steps, within the CPUs of this job",
    "falsified_by": "samples/s with num_workers=6 below x1.90 of this run's",
    "evidence": {"waiting": 0.95, "batch_s": 0.0753, "batch_cpu_s": 0.011, "step_s": 0.0033, "num_workers": 1.0},
}  # fmt: skip
LOADER = {
    "where": "train.py:34", "num_workers": 1, "prefetch_factor": 2, "pin_memory": False, "persistent_workers": False,
    "batch_size": 16, "batches": 3100, "wait_s": 35.1, "processes": 8,
}  # fmt: skip
RANK = {
    "pid": 4711, "seen": True, "why": "", "wall_s": 61.2, "startup_s": 2.5, "loop_s": 58.0, "batches": 3100,
    "optimizer_steps": 3100, "samples_per_s": 214.0, "world_size": 8, "host": "m8", "own_s": 0.01, "apart_s": 0.02,
}  # fmt: skip


def judged() -> Verdict:
    """Return what is known of a run of eight ranks."""
    found = {
        "command": ["python", "train.py"], "exit_code": None, "wall_s": 61.2, "samples_per_s": 855.0, "batches": 3100,
        "device": {"name": "NVIDIA H200", "busy": 0.41, "count": 8}, "loaders": [LOADER], "overhead": {},
        "ledger": [{"span": span, "seconds": 61.2 * share, "share": share} for span, share in SPANS.items()],
        "findings": [FINDING, {**FINDING, "id": "low-prefetch"}], "unavailable": [],
        "processes": [{**RANK, "rank": rank} for rank in range(8)],
    }  # fmt: skip
    return msgspec.convert(found, Verdict)


class Rack:
    """The nodes of one rack, each with a live run."""

    def __init__(self, number: int, nodes: int) -> None:
        self._number = number
        self._feed = Simulated(nodes)
        self._verdict = judged()
        self._beats = 0

    def rows(self) -> Update:
        """Return all rows, with other numbers than a second ago."""
        self._beats += 1
        nodes = tuple(map(self._node, self._feed.poll(0).nodes))
        return Update(until=0, nodes=nodes, runs=tuple(map(self._run, nodes)))

    def _node(self, node: Node) -> Node:
        name = f"r{self._number:03}-{node.name}"
        return replace(
            node,
            name=name,
            rack=f"r{self._number:03}",
            seen=time.time(),
            cores=tuple((k + self._beats) % 100 / 100 for k in range(64)),
            disks=(DiskRow(name="nvme0n1", read=1e9, written=1e6, busy=0.5),),
            nets=(NetRow(name="eth0", received=1e6, sent=1e6),),
            tasks=TASKS,
            runs=(f"{name}/run",),
        )

    def _run(self, node: Node) -> RunRow:
        at = self._beats + sum(map(ord, node.name))  # not all of them at the same moment
        series = tuple(round((k + at // POINT) % 97 / 97, 3) for k in range(POINTS))
        verdict = replace(self._verdict, batches=3100 + at // JUDGED)
        return RunRow(
            id=node.runs[0],
            node=node.name,
            name="train.py",
            length=float(self._beats),
            at=float(self._beats),
            command=("python", "train.py"),
            verdict=verdict,
            recent=verdict,
            history=History(step=float(POINT), busy=series, wait=series, rate=series, queue=(None,) * POINTS),
        )


def main() -> None:
    """Serve it as `gputune agent --relay` does, and say at which port."""
    number, nodes, folder, known = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    lean()
    from gputune.nodes.desk import Desk  # noqa: PLC0415 - pyarrow comes lean, or not at all
    from gputune.wire.door import Door  # noqa: PLC0415 - as above
    from gputune.wire.server import Service  # noqa: PLC0415 - as above

    own = credentials.read(known, credentials.SERVER)
    desk, rack = Desk(f"rack-{number}", None), Rack(number, nodes)
    desk.put(rack.rows())
    inside = folder / f"{number}.sock"
    door = Door("127.0.0.1", 0, credentials.context(own.folder, mutual=False), inside, own.token)
    service = Service(inside, desk, token=own.token, turns=threading.Semaphore(16))
    door.open()
    print(door.port, flush=True)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        desk.put(rack.rows())
    door.close()
    service.shutdown()


if __name__ == "__main__":
    main()
