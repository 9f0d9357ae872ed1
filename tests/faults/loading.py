"""Starts of a training as a sweep makes them, in a process of their own: `python -m tests.faults.loading FILE`.

FILE holds JSON: `do` (`fail` or `forecast`), which settings, and which control group. Prints what came of it as JSON.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputune.experiment.living import LiveStart
from gputune.experiment.script import Script
from gputune.experiment.starting import Start, outcome
from gputune.sweep.profile import profile
from gputune.sweep.settings import LoaderSetting, setting
from gputune.sweep.starter import Starter

SHM = "/dev/shm"
HOLD = Path("hold")  # while it is there, the training stands in a step: its queues fill
LOOKS = 5  # at /dev/shm, a beat apart, that show the same: they are full
LATE_S = 60.0  # s for a start to come to that


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
    first, own_files = profiled(who, asked["batches"])
    limits = profile(first, "train.py").limits
    limits = replace(limits, workers=max(workers for workers, _ in asked["among"]))
    limits = replace(limits, memory=asked["budget"] * limits.worker)
    own = setting(**asked["own"])
    among = [replace(own, num_workers=workers, prefetch_factor=prefetch) for workers, prefetch in asked["among"]]
    wanted = max((each for each in among if not limits.refuses(each)), key=limits.more, default=own)
    each = asked["batches"] // own.num_workers  # of each worker: it touches more and more of what it shares
    held, shm, worker = seen(who, wanted, each * wanted.num_workers)
    who.close()
    own_held = (first.memory or 0) - own_files
    return {
        "wanted": wanted.words(),
        "shm": shm,
        "shm_predicted": limits.shm(wanted),
        "pss": held,
        "pss_predicted": own_held + limits.at_first(wanted),
        "pss_in_the_end": own_held + limits.of_workers(wanted),
        "own_pss": own_held,
        "more": held + shm - own_held - (limits.shm(own) or 0),
        "memory": limits.memory,
        "worker": first.worker,
        "wanted_worker": worker,
        "room": limits.batches * (limits.batch or 0),
    }


def profiled(who: Starter, batches: int) -> tuple[Start, int]:
    """Return what so many batches under its own settings show, as a sweep looks at them, and the PSS of its files."""
    live: LiveStart = who.live(who.plan(seconds=LATE_S), "profile")
    try:
        while live.beat() and live.seconds < LATE_S:
            if live.timeline.batches(who.where) >= batches and (held := live.memory()):
                found = outcome(live, who.where)
                return replace(found, memory=held, worker=live.worker, over=True), files(live)
        raise RuntimeError(live.log.read_text())
    finally:
        live.end()


def seen(who: Starter, wanted: LoaderSetting, batches: int) -> tuple[int, int, object]:
    """Return the PSS and the B of /dev/shm that a start holds with full queues, while its training stands in a step.

    After so many batches. PSS without files: whoever else on the machine has torch takes a part of those.
    """
    live: LiveStart = who.live(who.plan(seconds=LATE_S), "wanted", wanted)
    try:
        looks: list[int] = []
        while live.beat() and live.seconds < LATE_S:
            if live.timeline.batches(who.where) >= batches:
                HOLD.touch()
                looks.append(shared(live))
            steady = len(looks) >= LOOKS and len(set(looks[-LOOKS:])) == 1
            if steady and (held := live.memory(wanted.num_workers)):
                return held - files(live), looks[-1], live.worker
        raise RuntimeError(f"{looks}: {live.log.read_text()}")
    finally:
        HOLD.unlink(missing_ok=True)
        live.end()


def files(live: LiveStart) -> int:
    """Return the B of its PSS that are pages of files."""
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in live.timeline.pids.values())
    return sum(int(row.split()[1]) * 1024 for text in rollups for row in text.splitlines() if "Pss_File:" in row)


def shared(live: LiveStart) -> int:
    """Return the B of batches in /dev/shm: without the rings, which have names, and locks, a page each."""
    found = os.statvfs(SHM)
    named = sum(map(blocks, Path(SHM).rglob("*")))
    maps = (Path(f"/proc/{pid}/maps").read_text().splitlines() for pid in live.timeline.pids.values())
    locks = {line.split()[4] for lines in maps for line in lines if f"{SHM}/sem." in line}
    return (found.f_blocks - found.f_bfree) * found.f_frsize - named - len(locks) * found.f_frsize


def blocks(file: Path) -> int:
    """Return the B that a file takes; nothing of one that is gone by now, as torch's are once both sides have them."""
    try:
        return file.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    what = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({"fail": fail, "forecast": forecast}[what["do"]](what)))
