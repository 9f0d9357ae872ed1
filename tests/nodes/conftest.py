"""Real agents, as processes of their own, each with its own folder and socket."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputune.wire.address import Address
from tests.conftest import wait_until

PATIENCE = 60.0  # s


class Agent:
    """An agent that can be killed and started again."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self.folder = folder
        self.name = name
        self.options = options
        self.told: dict[str, str] = {}
        self.process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> Address:
        return Address(self.name, path=str(self.folder / "s" / "a.sock"))

    @property
    def recording(self) -> Path:
        return self.folder / "state" / "machine"

    def start(self) -> "Agent":
        announced = self.folder / "announced"
        announced.unlink(missing_ok=True)
        words = ["--name", self.name, "--state", self.folder / "state", "--socket", self.address.path]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gputune", "agent", *map(str, words), "--announce", str(announced), *self.options],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: announced.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
        self.told = json.loads(announced.read_text())
        return self

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        for stream in (process.stdin, process.stderr):
            if stream is not None:
                stream.close()
        return process.wait(PATIENCE)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Return a maker of running agents."""
    found: list[Agent] = []

    def make(name: str = "m8", *options: str) -> Agent:
        folder = tmp_path / f"agent-{len(found)}"
        folder.mkdir(mode=0o700)
        found.append(Agent(folder, name, *options))
        return found[-1].start()

    yield make
    for agent in found:
        agent.end()
