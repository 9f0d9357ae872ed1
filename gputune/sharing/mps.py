"""NVIDIA's Multi-Process Service: whether tasks can go through it, what they are told for it, and whether they do.

A process that does not really go through the daemon gains nothing and nobody notices: so its clients are asked for. A
daemon that runs is used and left alone; one of our own is started only where that was asked for, because one client's
fault ends all clients on that card. Source: NVIDIA, "Multi-Process Service",
<https://docs.nvidia.com/deploy/mps/index.html>.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.sharing.spec import Mps as Wish

CONTROL = "nvidia-cuda-mps-control"
PIPE, LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
VISIBLE = "CUDA_VISIBLE_DEVICES"
PERCENTAGE, PINNED = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
DEADLINE = 5.0  # s for an answer of the daemon's control
VOLTA = 7.0  # compute capability
CLIENTS = 48  # of one card, Volta and later
OLD_CLIENTS = 16  # before
FOLDER_B = 80  # bytes of the folder of its sockets: their names hold 107 with what it appends
SLICED = "processes take turns on the card (time slicing)"


class NoDaemon(GputuneError):  # noqa: N818 - named for what happened
    """`--mps on`, and there is no daemon to be had."""

    def __init__(self, why: str) -> None:
        super().__init__(f"no MPS daemon: {why}", hint="`--mps auto` goes on without one, by time slicing")


def unfit(procs: int, capability: float | None) -> str:
    """Return why this many processes on a card cannot go through a daemon here, nothing where they can."""
    if shutil.which(CONTROL) is None:
        return f"`{CONTROL}` was not found in PATH"
    most = OLD_CLIENTS if capability is not None and capability < VOLTA else CLIENTS
    return f"MPS takes {most} clients on this card, and {procs} are to run" if procs > most else ""


class Mps:
    """The daemon of one run. `says` is what people are told of it."""

    def __init__(
        self, wish: Wish, procs: int, capability: float | None, folder: str, cards: Sequence[str] = ()
    ) -> None:
        """Find a daemon for `procs` on each card, or start one where that was asked for, on `cards` or on all.

        Raises NoDaemon where it was asked for, and cannot be had.
        """
        self.active = self.ours = False
        self.says = ""
        self._env: dict[str, str] = {}
        self._own: list[Path] = []  # folders to be removed with the daemon
        if wish == "off":
            self.says = f"MPS was not asked for: {SLICED}"
            return
        why = unfit(procs, capability)
        if not why and self._ask("get_server_list") is not None:
            self.active, self.says = True, "an MPS daemon runs, and is used"
        elif wish == "on" and not why:
            self._start(folder, cards)
        elif wish == "on":
            raise NoDaemon(why)
        else:
            self.says = f"{why or 'no MPS daemon runs; `--mps on` starts one'}: {SLICED}"

    def _start(self, folder: str, cards: Sequence[str]) -> None:
        """Start a daemon of our own, with pipes that nobody else meets."""
        try:
            pipes, logs = self._folders(folder)
        except OSError as error:
            raise NoDaemon(f"`{error.filename}`: {error.strerror}") from None
        self._env = {PIPE: str(pipes), LOG: str(logs)}
        only = {VISIBLE: ",".join(cards)} if cards else {}  # a MIG instance is reached by a daemon of its own only
        try:
            done = subprocess.run(
                [CONTROL, "-d"],
                env={**os.environ, **self._env, **only},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=10.0,  # s for its start
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._remove()
            raise NoDaemon(f"`{CONTROL} -d` did not start it: {clean(str(error))}") from None
        if done.returncode or self._ask("get_server_list") is None:
            self._remove()
            raise NoDaemon(
                f"`{CONTROL} -d` did not start it: {clean((done.stderr or done.stdout).strip() or 'no answer')}"
            )
        self.active = self.ours = True
        self.says = "an MPS daemon was started for this run"

    def _folders(self, folder: str) -> tuple[Path, Path]:
        """Make the folders of its pipes and its logs. Raises OSError."""
        logs = Path(folder, "mps-log")
        logs.mkdir(mode=0o700)
        pipes = Path(folder, "mps")
        if len(os.fsencode(pipes)) > FOLDER_B:
            import tempfile  # noqa: PLC0415 - rare, and the tasks start sooner without it

            pipes = Path(tempfile.mkdtemp(prefix="gputune-mps-"))
            self._own.append(pipes)
        else:
            pipes.mkdir(mode=0o700)
        return pipes, logs

    def environment(self, weight: float, weights: Sequence[float], memory: int | None) -> dict[str, str]:
        """Return what a task is told: the way to our daemon, and its limits where weights or a need were given.

        Equal weights limit nobody: then the card's own scheduling does better than a fixed part.
        """
        if not self.active:
            return {}
        told = dict(self._env)
        if len(set(weights)) > 1:
            told[PERCENTAGE] = str(max(1, min(100, round(100 * weight / sum(weights)))))
        if memory is not None:
            told[PINNED] = f"0={-(-memory // (1 << 20))}M"
        return told

    def clients(self) -> set[int] | None:
        """Return the pids that go through the daemon, None where it does not say."""
        servers = self._ask("get_server_list")
        if servers is None:
            return None
        found: set[int] = set()
        for server in _numbers(servers):
            listed = self._ask(f"get_client_list {server}")
            if listed is None:
                return None
            found |= _numbers(listed)
        return found

    def stop(self) -> None:
        """End the daemon if it is ours."""
        if self.ours:
            self.ours = self.active = False
            self._ask("quit -t 5")
            self._remove()

    def _remove(self) -> None:
        for folder in self._own:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, command: str) -> str | None:
        """Return what the daemon's control answers, None where nobody does."""
        try:
            done = subprocess.run(
                [CONTROL],
                env={**os.environ, **self._env},
                input=f"{command}\n",
                capture_output=True,
                text=True,
                timeout=DEADLINE if "quit" not in command else 2 * DEADLINE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


def _numbers(text: str) -> set[int]:
    return {int(word) for word in text.split() if word.isdigit()}


def seen(tasks: Mapping[str, set[int]], clients: set[int] | None) -> tuple[bool, str]:
    """Return whether all tasks (name to pids) go through the daemon, and that in a sentence."""
    if clients is None:
        return False, "the MPS daemon does not say who its clients are"
    lacking = [name for name, pids in tasks.items() if not pids & clients]
    if not lacking:
        return True, "all of them go through the MPS daemon"
    if len(lacking) == len(tasks) == len(clients):
        return True, "the MPS daemon has as many clients as run here, by other pids (a container): taken for these"
    who = ", ".join(lacking)
    return False, f"{who} {'does' if len(lacking) == 1 else 'do'} not go through the MPS daemon, and gain nothing by it"
