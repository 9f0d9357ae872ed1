"""What a script has on stderr is what it would have had: at each end of the interpreter, and where it fails in us."""

import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gputune.launch.steering import OrderChannel
from tests.guest.conftest import GUEST
from tests.guest.exiting import FAILURES, IMPORTABLE, SERVER, TF, TF_FAILURES, TORCH, cases, matrix, of_tensorflow

DEADLINE = 280.0  # s
PATIENCE = 500.0  # s for all of the matrix
LEFT_OUT = {
    "python": {"warned", "without"},  # what torch warns of in C names the innermost line of Python, which is ours then
    "tune": {"sampler"},  # it was asked earlier than it would have been, and its error says from where
    "trial": {"torch", "unraisable"},  # what is saved lies elsewhere, and so does what is missing
}
OFTEN = {"del-workers", "del-infinite", "thread-workers", "atexit-infinite", "fork-workers"}
FAKE_TENSORFLOW = GUEST.parents[1] / "tests" / "guest" / "fake_tensorflow"
EVERY = {"GPUTUNE_GUEST_SYNC": "1"}  # as where torch is built for a device


def tuned(folder: Path) -> dict[str, str]:
    """Return the environment of a training that `watch --tune` has told to use other settings."""
    orders = OrderChannel(folder / "steer")
    orders.send({"do": "serve", "set": {"num_workers": 3, "prefetch_factor": 3}, "batches": None})
    orders.close()
    return {"GPUTUNE_STEER": str(folder / "steer")}


def trial(folder: Path) -> dict[str, str]:
    """Return the environment of a trial of `sweep-loader`."""
    asked = {"batches": 10**6, "writes": str(folder / "writes"), "files": str(folder / "files")}
    OrderChannel(folder / "steer").close()
    return {"GPUTUNE_TRIAL": json.dumps(asked), "GPUTUNE_STEER": str(folder / "steer")}


class Run:
    """All scripts in a folder of their own, under one kind of guest or none."""

    def __init__(
        self, folder: Path, scripts: dict[str, str], env: dict[str, str] | None = None, library: str = TORCH
    ) -> None:
        self.folder, self.scripts = folder, scripts
        for name, code in scripts.items():
            (folder / f"case-{name}.py").write_text(code)
        (folder / "importable.py").write_text(IMPORTABLE)
        (folder / "cases.json").write_text(json.dumps(list(scripts)))
        (folder / "train.py").write_text(SERVER.format(library=library))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        theirs = {"PYTHONPATH": str(FAKE_TENSORFLOW)} if library == TF else {}
        paths = os.pathsep.join([str(GUEST), *theirs.values()])
        own = theirs if env is None else {"GPUTUNE_RINGS": str(folder / "rings"), "PYTHONPATH": paths, **EVERY, **env}
        (folder / "rings").mkdir()
        with (folder / "out").open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "train.py"], cwd=folder, env=clean | own, stdout=out, stderr=out
            )

    def told(self, deadline: float) -> dict[str, tuple[int, str]]:
        """Return of each script how it ended and what was on stderr; pids and addresses are left out."""
        try:
            assert self.process.wait(deadline) == 0, (self.folder / "out").read_text()
        finally:
            self.process.kill()
            self.process.wait()
        statuses = json.loads((self.folder / "rings" / "statuses.json").read_text())
        texts = {name: (self.folder / "rings" / f"{name}.err").read_text() for name in self.scripts}
        return {name: (statuses[name], self._same(text)) for name, text in texts.items()}

    def _same(self, text: str) -> str:
        """Leave out what differs from process to process."""
        return re.sub(r"0x[0-9a-f]+|(?<=pid )\d+|(?<=pid\(s\) )[\d, ]+", "", text.replace(str(self.folder), ""))


def chosen(scripts: dict[str, str], kind: str) -> dict[str, str]:
    """Return the scripts for one kind of guest: what ends a trial or is without our C part does so at some loaders."""
    ends = {"python": ("late-workers",), "trial": ("-workers", "-infinite")}.get(kind, ("-",))
    failing = FAILURES.keys() - LEFT_OUT.get(kind, set())
    return {name: code for name, code in scripts.items() if name in failing or any(end in name for end in ends)}


def differences(bare: dict[str, tuple[int, str]], run: dict[str, tuple[int, str]]) -> str:
    """Return what is otherwise than without gputune, as a diff of each script."""
    lines = []
    for name, (status, text) in run.items():
        lines += [] if status == bare[name][0] else [f"{name}: status {status}, not {bare[name][0]}\n"]
        lines += difflib.unified_diff(bare[name][1].splitlines(True), text.splitlines(True), name, name, n=1)
    return "".join(lines)


def environment(kind: str, folder: Path) -> dict[str, str] | None:
    """Return the environment of one kind of guest, None for none."""
    kinds = {"watch": dict, "tune": lambda: tuned(folder), "trial": lambda: trial(folder)}
    kinds["python"] = lambda: {"GPUTUNE_GUEST_PURE": "1"}
    return None if kind == "bare" else kinds[kind]()


def told(
    tmp_path: Path, scripts: dict[str, dict[str, str]], library: str = TORCH, deadline: float = DEADLINE
) -> dict[str, dict[str, tuple[int, str]]]:
    """Return what each kind of guest has made of its scripts."""
    for kind in scripts:
        (tmp_path / kind).mkdir()
    folders = {kind: tmp_path / kind for kind in scripts}
    runs = {kind: Run(folders[kind], scripts[kind], environment(kind, folders[kind]), library) for kind in scripts}
    return {kind: run.told(deadline) for kind, run in runs.items()}


@pytest.mark.timeout(120)
def test_stderr_is_what_it_would_have_been_at_the_ends_that_differ_most(tmp_path: Path) -> None:
    """A small part of the matrix below, which is tried each time."""
    part = {name: code for name, code in matrix().items() if name.startswith("end-") or name in OFTEN}
    found = told(tmp_path, {"bare": part, "watch": part}, deadline=100)
    assert differences(found["bare"], found["watch"]) == ""


@pytest.mark.long  # five interpreters at a time, and each of their scripts has 60 s, which a slow machine does not keep
@pytest.mark.timeout(300)
def test_stderr_is_what_it_would_have_been(tmp_path: Path) -> None:
    kinds = ("bare", "watch", "tune", "trial", "python")
    found = told(tmp_path, {kind: chosen(cases(), kind) for kind in kinds})
    assert all("gputune" not in text for _status, text in found["bare"].values())
    assert all(found["bare"][name][1] for name in FAILURES), "a script that is to fail is silent"
    for kind in kinds[1:]:
        assert differences(found["bare"], found[kind]) == "", kind


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["watch", "tune", "trial", "python"])
def test_stderr_is_what_it_would_have_been_in_all_of_the_matrix(tmp_path: Path, kind: str) -> None:
    """Each kind of loader at each end of the interpreter, under each kind of guest: `make test-long`."""
    found = told(tmp_path, {"bare": matrix(), kind: matrix()}, deadline=PATIENCE)
    assert differences(found["bare"], found[kind]) == ""


@pytest.mark.parametrize("pure", ["", "1"])
def test_stderr_of_pipelines_is_what_it_would_have_been(tmp_path: Path, pure: str) -> None:
    kind = "python" if pure else "watch"
    found = told(tmp_path, dict.fromkeys(("bare", kind), of_tensorflow()), TF)
    assert all(found["bare"][name][1] for name in TF_FAILURES), "a script that is to fail is silent"
    assert differences(found["bare"], found[kind]) == ""
