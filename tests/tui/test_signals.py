"""A signal from the screen to a process of a run that is really watched."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

from textual.pilot import Pilot

from gputune.feeds import signalling
from gputune.feeds.local import LocalFeed
from gputune.tui.app import Gputune, PageView
from gputune.tui.sheet import Sheet

PATIENCE = 60.0  # s
SCRIPT = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"


def shown(app: Gputune) -> str:
    """Return what the terminal would show."""
    sheet = app.query_one(Sheet)
    return "\n".join(sheet.render_line(y).text for y in range(sheet.size.height))


async def written(pilot: Pilot[None], file: Path) -> str:
    """Wait for a file, and return what is in it."""
    end = time.monotonic() + PATIENCE
    while not file.exists() or not file.read_text():
        assert time.monotonic() < end
        await pilot.pause(0.02)
    return file.read_text()


async def until(pilot: Pilot[None], app: Gputune, text: str) -> None:
    """Wait for a text."""
    end = time.monotonic() + PATIENCE
    while text not in shown(app):
        assert time.monotonic() < end, shown(app)
        await pilot.pause(0.02)


def test_a_process_of_a_watched_run_is_ended_from_the_screen(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    watch = [sys.executable, "-m", "gputune", "watch", "--quiet", "--out", "run", "--", sys.executable, "train.py"]
    app = Gputune(lambda: LocalFeed("here", find=lambda: [tmp_path / "run"]), send=signalling.send)

    async def act() -> None:
        async with app.run_test(size=(100, 40)) as pilot:
            await until(pilot, app, "helper")
            pid = await written(pilot, tmp_path / "pid")
            for _ in range(100):
                if app.query_one(Sheet).key.startswith(f"task:{pid}."):
                    break
                await pilot.press("down")
            await pilot.press("enter")
            assert app.view.kind == "signals"
            await pilot.press("down", "enter")
            await until(pilot, app, f"send SIGKILL to {pid} (")
            await pilot.press("y")
            await until(pilot, app, f"SIGKILL was sent to {pid}")
            await pilot.press("escape")
            assert app.view == PageView("node", "here")

    with subprocess.Popen(watch, cwd=tmp_path, stdin=subprocess.DEVNULL) as watched:
        try:
            asyncio.run(act())
            assert watched.wait(PATIENCE) == -signal.SIGKILL
        finally:
            watched.terminate()  # where it still runs: to the command as well
