"""Fixtures that all rooms share: simulated GPUs, and a guard that no test leaves a process behind."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent / "simgpu"))
import simgpu as simulation

PATIENCE = 30.0  # s for a child that is about to end, on a machine that does other things as well
LONGEST_TMPDIR = 60  # bytes; Python appends some 32, torch up to 10 more
PYTHONS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")  # they end with the test process
T = TypeVar("T")
Run = Callable[..., "subprocess.CompletedProcess[str]"]
LISTED = Path("/proc/thread-self/children").exists()  # psutil would look at all that run, twice a test


def _plain_signals() -> None:
    """Set right what nohup, a job without a terminal or a careless parent hands down: ignored and blocked signals.

    The tests start commands that are to die of them, and wait for children. SIGPIPE stays as Python has it.
    """
    for name in ("SIGHUP", "SIGQUIT", "SIGTERM", "SIGCHLD", "SIGUSR1", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _short_temporary_folder() -> None:
    """Give children a short TMPDIR: workers hand tensors over through sockets there, whose names hold 107 bytes."""
    if len(tempfile.gettempdir()) > LONGEST_TMPDIR and os.access("/tmp", os.W_OK | os.X_OK):
        os.environ["TMPDIR"] = "/tmp"


_plain_signals()
_short_temporary_folder()


class Started(subprocess.Popen[str]):
    """A command in a `with`, which would wait for its end: where the test fails inside of it, it is ended first."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and self.poll() is None:
            below = psutil.Process(self.pid).children(recursive=True)
            self.kill()  # first: it would start some of them again
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        super().__exit__(kind, error, trace)


@pytest.fixture
def popen() -> Callable[..., "subprocess.Popen[str]"]:
    """Return what starts a command as `subprocess.Popen` does, and ends it where the test fails meanwhile."""
    return Started


@pytest.fixture
def simgpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., simulation.Cards]:
    """Return a maker of simulated cards: after `simgpu(devices=2)`, NVML of every child process is theirs."""

    def make(devices: int = 1) -> simulation.Cards:
        folders = [str(simulation.build()), os.environ.get("LD_LIBRARY_PATH", "")]
        monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders)))
        monkeypatch.setenv("SIMGPU_STATE", "")  # so that it is taken back
        return simulation.Cards(simulation.create(tmp_path / "simgpu-state", devices))

    return make


@pytest.fixture
def ray_cluster() -> Iterator[Callable[..., str]]:
    """Return a maker of a Ray cluster on loopback: its nodes to its address. For tests that need a real one.

    Ray is the user's own, and no part of `dev`: without it the test is skipped.
    """
    pytest.importorskip("ray", reason="Ray is not installed: `pip install 'gputune[ray]'`")
    import ray
    from ray.cluster_utils import Cluster

    made: list[Any] = []

    def make(*nodes: dict[str, Any]) -> str:
        head, *others = nodes
        started = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **head})
        made.append(started)
        for node in others:
            started.add_node(**node)
        started.wait_for_nodes()
        return str(started.address)

    yield make
    ray.shutdown()
    for started in made:
        started.shutdown()


def wait_until(condition: Callable[[], T], patience: float = 150.0) -> T:
    """Wait until a condition is true, and return what it came to; after `patience` s the test has failed."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
    return found


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Return what waits until a condition is true."""
    return wait_until


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail a test that leaves a child process running, and end it."""
    before = _children()
    yield
    deadline = time.monotonic() + PATIENCE
    while left := [child for child in _children() - before if not _harmless(child)]:
        if time.monotonic() > deadline:
            said = [_command(child) for child in left]
            for child in left:
                child.kill()
            pytest.fail(f"left running: {said}")
        time.sleep(0.02)


def _children() -> set[psutil.Process]:
    """Return all processes below this one."""
    if not LISTED:
        return set(psutil.Process().children(recursive=True))
    found: set[psutil.Process] = set()
    parents = [os.getpid()]
    while parents:
        for pid in _listed(parents.pop()):
            parents.append(pid)
            with contextlib.suppress(psutil.Error):  # it has just ended
                found.add(psutil.Process(pid))
    return found


def _listed(pid: int) -> list[int]:
    """Return the children of a process, as the kernel lists them."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def _harmless(child: psutil.Process) -> bool:
    command = _command(child)
    return any(name in command for name in PYTHONS_OWN)


def _command(child: psutil.Process) -> str:
    try:
        return " ".join(child.cmdline()) or child.name()
    except psutil.Error:
        return PYTHONS_OWN[0]  # it has just ended


@pytest.fixture
def gputune(tmp_path: Path) -> Run:
    """Run `gputune ARGUMENTS` in an empty folder, with no setting of this machine's user in force."""

    def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        return subprocess.run(
            [sys.executable, "-m", "gputune", *arguments],
            cwd=tmp_path,
            env={**plain, "PYTHONIOENCODING": "utf-8", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,  # s; only a hang ends here
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def docs_script() -> Callable[[str], ModuleType]:
    """Load a script of docs/ by its name: it is no part of a package."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "docs" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
