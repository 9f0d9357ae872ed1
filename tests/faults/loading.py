"""Starts of a training as a sweep makes them, in a process of their own: `python -m tests.faults.loading FILE`.

FILE holds JSON: `do` (`fail` or `forecast`), which settings, and which control group. Prints what came of it as JSON.
"""

import json
import os
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputune.experiment.living import LiveStart
from gputune.experiment.script import Script
from gputune.sweep.limits import Limits
from gputune.sweep.profile import profile
from gputune.sweep.settings import LoaderSetting, setting
from gputune.sweep.starter import Starter

SHM = "/dev/shm"
FULL_S = 1.5  # s after its first batch until queues are full: a step takes ten times as long as a batch
LOOKS = 9  # at /dev/shm, a beat apart
LATE_S = 60.0  # s for its first batch


def starter(asked: dict[str, Any]) -> Starter:
    """Return who starts `train.py` of this folder under settings other than its own."""
    folder = Path("starts")
    folder.mkdir()
    made = Starter(
        script=Script(command=(sys.executable, "train.py"), cwd=str(Path.cwd())), folder=folder, within=1.0, seed=1
    )
    made.where, made.origin = asked["where"], setting(**asked["own"])
    made.within = asked["within"]
    return made


def fail(asked: dict[str, Any]) -> dict[str, object]:
    """Start it, and return its state, the reason, how long it took and the last words of its log."""
    if asked["cgroup"]:
        Path(asked["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
    began, who = time.monotonic(), starter(asked)
    found = who.start(who.plan(seconds=20.0), "fails", setting(**asked["setting"]))
    who.close()
    log = Path(found.log).read_text(errors="replace")[-1500:]
    took = time.monotonic() - began
    return {"state": found.state.value, "why": found.why, "seconds": took, "batches": found.batches, "log": log}


def forecast(asked: dict[str, Any]) -> dict[str, object]:
    """Profile it as it is, then start the largest setting that a budget allows, and return what both held (B)."""
    who = starter(asked)
    first = who.start(who.plan(seconds=30.0, batches=asked["batches"]), "profile")
    found = profile(first, "train.py")
    limits = replace(found.limits, workers=max(workers for workers, _ in asked["among"]))
    limits = replace(limits, memory=asked["budget"] * limits.worker)
    own = setting(**asked["own"])
    among = [replace(own, num_workers=workers, prefetch_factor=prefetch) for workers, prefetch in asked["among"]]
    wanted = max((each for each in among if not limits.refuses(each)), key=limits.needs, default=own)
    held, shm = seen(who, wanted)
    who.close()
    return {
        "wanted": wanted.words(),
        "shm": shm,
        "shm_predicted": limits.shm(wanted),
        "pss": held,
        "pss_predicted": predicted(first.memory or 0, limits, own, wanted),
        "own_pss": first.memory,
        "more": held + shm - (first.memory or 0) - limits.shm(own),
        "memory": limits.memory,
        "worker": limits.worker,
        "room": limits.batches * limits.batch,
    }


def predicted(held: int, limits: Limits, own: LoaderSetting, wanted: LoaderSetting) -> float:
    """Return the PSS that a setting is believed to have: all that is no queue."""
    return held + limits.needs(wanted) - limits.shm(wanted) - limits.needs(own) + limits.shm(own)


def seen(who: Starter, wanted: LoaderSetting) -> tuple[int, int]:
    """Return the PSS and the B of /dev/shm that a start holds with full queues, mostly."""
    live: LiveStart = who.live(who.plan(seconds=30.0), "wanted", wanted)
    try:
        first, looks = 0.0, []
        while live.beat():
            first = first or (live.seconds if live.timeline.came_to(who.where) else 0.0)
            if first and live.seconds - first > FULL_S:
                looks.append(shared(live))  # between two batches there is one more or less for a moment
            if len(looks) == LOOKS:
                return live.memory() or 0, int(statistics.median(looks))
            if live.seconds > LATE_S:
                break
        raise RuntimeError(live.log.read_text())
    finally:
        live.end()


def shared(live: LiveStart) -> int:
    """Return the B of batches in /dev/shm: without the rings, which have names, and locks, a page each."""
    found = os.statvfs(SHM)
    named = sum(file.lstat().st_blocks * 512 for file in Path(SHM).rglob("*"))
    maps = (Path(f"/proc/{pid}/maps").read_text().splitlines() for pid in live.timeline.pids.values())
    locks = {line.split()[4] for lines in maps for line in lines if f"{SHM}/sem." in line}
    return (found.f_blocks - found.f_bfree) * found.f_frsize - named - len(locks) * found.f_frsize


if __name__ == "__main__":
    what = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({"fail": fail, "forecast": forecast}[what["do"]](what)))
