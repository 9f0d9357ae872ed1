"""`gputune sweep-loader`: a script that is really swept, and everything that it refuses in one sentence."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from gputune.commands import sweep_loader
from gputune.core.isolation import own_python
from gputune.sweep.patch import Patch

PATIENCE = 280.0  # s; only a hang ends here
pytestmark = pytest.mark.timeout(300)  # starts import torch, one after the other, also on a busy machine
GPUTUNE = own_python("from gputune.__main__ import main; main()")

SCRIPT = """
import atexit, sys, time, torch
from pathlib import Path
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 8 * 2000
    def __getitem__(self, i):
        time.sleep(0.003)
        return torch.tensor(float(i % 7))

def main():
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loader = DataLoader(Slow(), batch_size=8, shuffle=True)
    try:
        for batch in loader:
            loss = ((weight - batch) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.01)  # two or three workers are enough, on a machine of any size
    finally:
        with open("ended", "a") as file:
            file.write(" ".join(sys.argv[1:]) + "\\n")

if __name__ == "__main__":
    main()
"""
NAMES = {"num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size"}


def environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    return {**plain, "PYTHONIOENCODING": "utf-8"}


def gputune(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*GPUTUNE, *arguments], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def sweep(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return gputune(folder, "sweep-loader", "--python", sys.executable, *arguments)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, subprocess.CompletedProcess[str]]":
    """A folder with a script that has too few workers, and what a sweep of it said."""
    folder = tmp_path_factory.mktemp("sweeping")
    (folder / "train.py").write_text(SCRIPT)
    return folder, sweep(folder, "--json", "train.py", "--lr", "1", "--json")


@pytest.mark.slow
def test_a_script_with_too_few_workers_gets_more_and_is_faster(swept) -> None:
    folder, done = swept
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert NAMES | {"samples_per_s"} == found["best"].keys() == found["baseline"].keys()
    assert found["baseline"]["num_workers"] == 0 < found["best"]["num_workers"]
    assert found["best"]["batch_size"] == 8
    assert found["best"]["samples_per_s"] > 1.4 * found["baseline"]["samples_per_s"]
    assert found["starts"] <= 6
    assert found["where"] == "train.py:17"
    assert all(NAMES | {"predicted", "measured", "state"} <= trial.keys() for trial in found["trials"])
    assert {trial["state"] for trial in found["trials"]} == {"ok"}
    assert found["ceiling"] > found["baseline"]["samples_per_s"]
    assert "best so far" in done.stderr
    assert (folder / "train.py").read_text() == SCRIPT


@pytest.mark.slow
def test_the_script_s_own_finally_ran_in_every_start_with_its_own_arguments(swept) -> None:
    folder, done = swept
    ended = [file for file in (folder / "ended", *folder.rglob("writes/**/ended")) if file.is_file()]
    lines = [line for file in ended for line in file.read_text().splitlines()]
    assert lines == ["--lr 1 --json"] * json.loads(done.stdout)["starts"]


@pytest.mark.slow
def test_what_was_found_is_applied_by_run(swept) -> None:
    folder, done = swept
    best = json.loads(done.stdout)["best"]
    code = (
        "import runpy, torch.utils.data as d; d.DataLoader.__iter__ = lambda self: print(self.num_workers) or iter(())"
    )
    again = gputune(
        folder, "run", "--", sys.executable, "-c", f"{code}; runpy.run_path('train.py', run_name='__main__')"
    )
    assert (again.returncode, again.stdout) == (0, f"{best['num_workers']}\n"), again.stderr


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was_killed(swept) -> None:
    folder, done = swept
    again = sweep(folder, "--json", "--resume", "train.py", "--lr", "1", "--json")
    assert again.returncode == 0, again.stderr
    before, after = json.loads(done.stdout), json.loads(again.stdout)
    assert {name: after[name] for name in ("best", "baseline", "trials")} == {
        name: before[name] for name in ("best", "baseline", "trials")
    }


@pytest.mark.slow
def test_a_ctrl_c_prints_the_best_so_far(tmp_path: Path, eventually: Callable[..., None]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    status, output, errors = interrupted(tmp_path)
    assert status in {130, -signal.SIGINT}, errors
    found = json.loads(output)
    assert (found["stopped"], found["written"]) == (True, "")
    assert found["best"] == found["baseline"]
    assert not (tmp_path / "gputune.toml").exists()
    eventually(lambda: not _is_left(tmp_path))


def _is_left(folder: Path) -> bool:
    """Return whether a process still runs whose command names this folder."""
    return any(str(folder) in _command(each) for each in Path("/proc").iterdir() if each.name.isdigit())


def interrupted(folder: Path) -> "tuple[int, str, str]":
    """Return status, stdout and stderr of a sweep with a Ctrl-C as soon as it has seen the script as it is."""
    command = [*GPUTUNE, "sweep-loader", "--python", sys.executable, "--json", "train.py"]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if "again and again" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, output, errors


def _command(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_what_was_typed_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "folder.py").mkdir()
    for arguments, says in (
        ([], "no script"),
        (["none.py"], "`none.py` does not exist"),
        (["folder.py"], "is a folder"),
        (["--", "no-such-program"], "was not found"),
        (["-m", ""], "no module"),
        (["--batch-sizes", "0", "train.py"], "`--batch-sizes 0` is no list of batch sizes"),
        (["--batch-sizes", "8,x", "train.py"], "no list of batch sizes"),
        (["--budget", "soon", "train.py"], "is not a time"),
        (["--resume", "train.py"], "no sweep of `train.py`"),
        (["--write", "no/where.toml", "train.py"], "does not exist"),
        (["--patch", "--json", "train.py"], "stdout"),
    ):
        done = sweep(tmp_path, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert says in done.stderr, (arguments, done.stderr)
        assert "hint: " in done.stderr
        assert "it ran" not in done.stderr + done.stdout
    assert not (tmp_path / "gputune-runs").exists()


def test_what_follows_the_modules_name_is_the_modules_own(tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text("import sys; print(sys.argv[1:]); raise SystemExit(3)")
    for before, after in (
        (["-m", "tells"], ["--budget", "soon", "x"]),
        (["--budget", "60s", "-mtells"], ["--json"]),
        (["--restarts", "--module=tells"], ["-m", "other"]),
        (["-m", "tells", "--"], ["--seed", "2"]),
    ):
        done = sweep(tmp_path, *before, *after)
        assert done.returncode == 1, done.stderr
        (log,) = (tmp_path / "gputune-runs").rglob("1-*.log")
        assert str(after) in log.read_text()
        shutil.rmtree(tmp_path / "gputune-runs")


INFERENCE = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 800
    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.randn(8)
model = torch.nn.Linear(8, 1)
loader = DataLoader(Data(), 8)
with torch.no_grad():
    for batch in loader: model(batch)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "options", "says"),
    [
        ("print('no torch')", [], "no DataLoader was iterated before the end of `train.py`"),
        ("import time; time.sleep(600)", ["--within", "2s"], "no DataLoader was iterated in the first 2 s of"),
        ("raise SystemExit(3)", [], "status 3"),
        (SCRIPT.replace("8 * 2000", "8 * 9"), [], "`train.py` ended after 9 batches"),
        (INFERENCE, [], "for training before the end of `train.py`: that at `train.py:10` gave"),
        (INFERENCE, ["--restarts"], "for training before the end of `train.py`: that at `train.py:10` gave"),
        (SCRIPT, ["--where", "train.py:1", "--within", "15s"], "it builds them at `train.py:17`"),
    ],
)
def test_a_script_that_cannot_be_swept_is_one_sentence(
    tmp_path: Path, code: str, options: list[str], says: str
) -> None:
    (tmp_path / "train.py").write_text(code)
    done = sweep(tmp_path, *options, "train.py")
    assert done.returncode == 1, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "gputune.toml").exists()


STUCK = """
import os, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from time import sleep

class Data(Dataset):
    def __init__(self):
        self.held = HELD
    def __len__(self):
        return 8 * 400
    def __getitem__(self, i):
        if DYING and get_worker_info() is not None:
            os._exit(1)
        sleep(0.002)
        return torch.tensor(float(i))

def main():
    weight = torch.zeros(1, requires_grad=True)
    loader = LOADER
    for epoch in range(EPOCHS):
        for batch in loader:
            (weight - batch).square().mean().backward()
            sleep(0.004)

if __name__ == "__main__":
    torch.multiprocessing.set_start_method("CONTEXT")
    main()
"""


def stuck(**changes: object) -> str:
    """Return a script that waits for its loader, and has something that a sweep stumbles over."""
    plain = {"HELD": None, "DYING": False, "LOADER": "DataLoader(Data(), 8)", "EPOCHS": 40, "CONTEXT": "fork"}
    code = STUCK
    for name, value in {**plain, **changes}.items():
        code = code.replace(name, str(value))
    return code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [({"HELD": "lambda: 0", "CONTEXT": "spawn"}, "pickle"), ({"DYING": True}, "worker")],
    ids=["not to be pickled", "workers that die"],
)
def test_settings_that_fail_are_rows_and_the_script_s_own_stay(tmp_path: Path, changes: dict, says: str) -> None:
    (tmp_path / "train.py").write_text(stuck(**changes))
    done = sweep(tmp_path, "--json", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    failed = [trial for trial in found["trials"] if trial["state"] == "failed"]
    assert failed
    assert all(says in trial["why"] for trial in failed), failed
    assert found["best"] == found["baseline"]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_batch_size_that_the_script_makes_itself_is_said(tmp_path: Path) -> None:
    own = "DataLoader(Data(), batch_sampler=[list(range(n, n + 8)) for n in range(0, 3200, 8)])"
    (tmp_path / "train.py").write_text(stuck(LOADER=own))
    done = sweep(tmp_path, "--batch-sizes", "8,16", "train.py")
    assert done.returncode == 1, done.stderr
    assert "the batch size of the loader at `train.py:" in done.stderr
    assert "hint: change it in the script" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_budget_that_is_over_before_a_batch_came_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(600)")
    done = sweep(tmp_path, "--budget", "1s", "train.py")
    assert done.returncode == 1, done.stderr
    assert "nothing was measured of `train.py`: the budget of 1.0 s was over" in done.stderr
    assert "hint: give it longer, or no limit: leave out `--budget`" in done.stderr
    assert not (tmp_path / "gputune.toml").exists()


@pytest.mark.slow
def test_a_budget_that_the_first_start_spends_is_no_result(tmp_path: Path) -> None:
    """A sweep that was killed after its first start, and has no time for another one."""
    (tmp_path / "train.py").write_text(SCRIPT)
    interrupted(tmp_path)
    [journal] = tmp_path.glob("gputune-runs/*/sweep.jsonl")
    until = journal.read_text().index("\n", journal.read_text().index('{"kind": "profile"')) + 1
    journal.write_text(journal.read_text()[:until])
    done = sweep(tmp_path, "--budget", "1s", "--resume", "train.py")
    assert done.returncode == 1, done.stderr
    assert "nothing but the script's own settings was measured" in done.stdout
    assert "the budget was spent before: give it more, like `--budget 2m`; nothing was written" in done.stdout
    assert "surely faster" not in done.stdout
    assert not (tmp_path / "gputune.toml").exists()


@pytest.mark.long
def test_a_script_that_ends_before_a_setting_is_measured_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(stuck(EPOCHS=1))
    done = sweep(tmp_path, "--json", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["starts"] > 1
    assert found["best"]["num_workers"] > 0


@pytest.mark.slow
def test_a_sweep_that_is_killed_leaves_nothing_behind_and_goes_on(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [*GPUTUNE, "sweep-loader", "--python", sys.executable, "--json", str(tmp_path / "train.py")]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        trials = 0
        for line in process.stderr:
            trials += "trial " in line
            if trials == 2:  # the first one is in the journal
                break
        process.kill()
    eventually(lambda: not _is_left(tmp_path))
    again = sweep(tmp_path, "--json", "--resume", str(tmp_path / "train.py"))
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["best"]["num_workers"] > 0
    assert (tmp_path / "gputune.toml").exists()


def test_a_folder_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')")
    script = str(tmp_path / "train.py")
    for arguments in ([script], ["--write", "-", script], ["--out", "/proc/none", "--write", "-", script]):
        done = sweep(Path("/proc"), *arguments)  # even root makes no folder there
        assert done.returncode == 2, done.stderr
        assert "cannot be written" in done.stderr
        assert "hint: " in done.stderr
        assert "it ran" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("after", "says"),
    [("x = 2\n", "changed "), ("x = 2\n", "stays as it is"), ("x = 1\n", "nothing to change in ")],
    ids=["a result", "a Ctrl-C", "nothing better"],
)
def test_only_a_sweep_that_came_to_its_end_changes_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], after: str, says: str
) -> None:
    stopped = says == "stays as it is"
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    before = script.stat()
    done = SimpleNamespace(outcomes=object(), failed=False)
    swept = SimpleNamespace(run=lambda: [done], stopped=stopped)
    monkeypatch.setattr(sweep_loader, "Several", lambda **_: swept)
    monkeypatch.setattr(sweep_loader, "_show", lambda *_, **__: None)
    monkeypatch.setattr(sweep_loader, "end_with_us", lambda: None)
    monkeypatch.setattr(sweep_loader.patch, "check", lambda: None)
    change = Patch(file=script, before="x = 1\n", after=after)
    monkeypatch.setattr(sweep_loader.patch, "of_outcomes", lambda _: change)
    with pytest.raises(click.Abort) if stopped else contextlib.nullcontext():
        arguments = ["--python", sys.executable, "--patch", "--apply", str(script)]
        sweep_loader.command.main(arguments, standalone_mode=False)
    changed = after != "x = 1\n" and not stopped
    assert script.read_text() == ("x = 2\n" if changed else "x = 1\n")
    assert (script.stat().st_ino == before.st_ino) is not changed  # it is written anew, or not at all
    shown = capsys.readouterr()
    assert ("+x = 2" in shown.out) is (after == "x = 2\n")
    assert says in shown.err


def test_a_place_that_is_not_there_cannot_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = sweep(tmp_path, "--may-write", "none/runs.db", "train.py")
    assert done.returncode == 2
    assert "`--may-write none/runs.db` does not exist" in done.stderr
    assert "name the folder" in done.stderr
