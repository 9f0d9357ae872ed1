"""A start that goes on: its memory is that of all its processes, also of those that have said nothing yet."""

import sys
import time
from pathlib import Path

from gputune.sweep.living import Live, Plan

DEADLINE = 60.0  # s; only a hang ends here
HELD = 64 << 20
FORKING = f"""
import os, signal
data = b"x" * {HELD}  # shared by all from here on
for _ in range(8):
    if not os.fork():
        signal.pause()
print("forked", flush=True)
signal.pause()
"""


def test_what_a_forked_process_shares_is_not_lost(tmp_path: Path) -> None:
    plan = Plan(command=(sys.executable, "-c", FORKING), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE)
    live = Live(plan, "start")
    try:
        while not live.log.read_bytes().startswith(b"forked") and live.seconds < DEADLINE:
            assert live.beat(), live.log.read_text()
            time.sleep(0.01)
        held = live.memory()
        assert live.memory(workers=1) is None  # they are no workers of a loader
    finally:
        live.end()
    assert held is not None
    assert HELD <= held < 4 * HELD
