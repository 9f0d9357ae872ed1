"""What a trial cannot keep apart is refused and named; what it may write is written as ever; what is open is said."""

import errno
import os
import sys
from pathlib import Path

import pytest

from gputune.experiment import writable
from gputune.experiment.script import Script
from gputune.experiment.starting import Start, State
from gputune.launch import landlock
from gputune.probes.guest.gputune_guest import overlay
from gputune.sweep.starter import Starter

DEADLINE = 60.0  # s; only a hang ends here
needs_landlock = pytest.mark.skipif(bool(landlock.missing()), reason=landlock.missing() or "it is there")
ARROW = """
import pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), "results/mine.txt")
"""
SQLITE = """
import sqlite3
base = sqlite3.connect("results/mine.db")
base.execute("create table run (x)")
"""
REMOVED = """
import subprocess, sys
sys.exit(subprocess.run(["rm", "-f", "results/mine.txt"]).returncode)
"""
SHELL = """
import subprocess, sys
sys.exit(subprocess.run("echo other > results/mine.txt", shell=True).returncode)
"""
LIBRARIES = {
    "arrow": "import pyarrow.parquet as p; p.write_table(p.pa.table({'x': [1]}), name)",
    "feather": "import pyarrow.feather as f, pyarrow; f.write_feather(pyarrow.table({'x': [1]}), name)",
    "sqlite": "import sqlite3; sqlite3.connect(name).execute('create table run (x)')",
    "duckdb": "import duckdb; duckdb.connect(name).execute('create table run (x int)')",
    "polars": "import polars; polars.DataFrame({'x': [1]}).write_parquet(name)",
    "pandas": "import pandas; pandas.DataFrame({'x': [1]}).to_csv(name)",
    "numpy": "import numpy; numpy.memmap(name, mode='w+', shape=3)[:] = 1",
    "pillow": "from PIL import Image; Image.new('L', (4, 4)).save(name, 'png')",
    "torch": "import torch; torch.save({'x': 1}, name)",
    "torch, mapped": "import torch; torch.from_file(name, shared=True, size=4)[:] = 1",
    "dbm": "import dbm; dbm.open(name, 'n').close()",
    "libc": "import ctypes; ctypes.CDLL(None).creat(name.encode(), 0o644)",
    "a shell": "import os; os.system(f'echo other > {name}')",
}
TRIES = """
for number, code in enumerate({codes!r}):
    for name in (f"results/{{number}}.bin", f"results/new-{{number}}.bin"):
        try:
            exec(code)
        except Exception as error:
            print(number, type(error).__name__)
    print("tried", number, flush=True)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that lies among no temporary files, of a user with a home and a temporary folder."""
    for name in ("home", "tmp", "project/results"):
        (tmp_path / name).mkdir(parents=True)
    for name in writable.VARIABLES:
        monkeypatch.setenv(name, str(tmp_path / "tmp"))
    for name in writable.CACHED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(writable, "TEMPORARY", ())
    (tmp_path / "project" / "results" / "mine.txt").write_text("mine")
    return tmp_path / "project"


def starter(mine: Path, code: str = "", *may_write: str) -> Starter:
    """What starts a script in that project, and keeps what it writes beside it."""
    (mine / "train.py").write_text(code)
    script = Script(command=(sys.executable, "train.py"), cwd=str(mine))
    (folder := mine.parent / "sweep").mkdir()
    return Starter(script=script, folder=folder, within=DEADLINE, seed=1, may_write=may_write)


def started(starts: Starter) -> Start:
    try:
        return starts.start(starts.plan(seconds=DEADLINE), "start")
    finally:
        starts.close()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@needs_landlock
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ARROW, "results/mine.txt"),
        (SQLITE, "results/mine.db"),
        (REMOVED, "results/mine.txt"),
        (SHELL, "results/mine.txt"),
    ],
    ids=["arrow", "sqlite", "rm", "shell"],
)
def test_what_cannot_be_kept_apart_is_refused_and_named(mine: Path, code: str, name: str) -> None:
    starts = starter(mine, code)
    assert starts.before() == ""
    before = files(mine)
    found = started(starts)
    assert (found.state, files(mine)) == (State.FAILED, before)
    allowed = "`--may-write results` allows it"
    what = f"C code or another program was refused to change `{name}`"
    assert starts.missed(found.log) == f"{what}, for a trial leaves your files as they are: {allowed}"
    assert f"it was refused `{name}` ({allowed})" in starts.apart()


@needs_landlock
@pytest.mark.slow
def test_no_library_changes_a_file_of_the_user_s(mine: Path) -> None:
    for number in range(len(LIBRARIES)):
        (mine / "results" / f"{number}.bin").write_bytes(b"mine" * 100)
    starts = starter(mine, TRIES.format(codes=list(LIBRARIES.values())))
    before = files(mine)
    log = Path(started(starts).log).read_text()
    assert files(mine) == before
    assert f"tried {len(LIBRARIES) - 1}\n" in log, log


@needs_landlock
@pytest.mark.parametrize("place", ["results", "/"])
def test_what_is_allowed_is_written(mine: Path, place: str) -> None:
    starts = starter(mine, SQLITE, str(mine / place))
    found = started(starts)
    assert found.exit_code == 0, Path(found.log).read_text()
    assert (mine / "results" / "mine.db").exists()
    assert starts.missed(found.log) == ""
    assert ("trials may write everywhere" in starts.before()) is (place == "/")


AS_EVER = """
import os, subprocess, sys, tempfile
import there.module
def by_c(path, what="x"):
    subprocess.run(["sh", "-c", 'echo "$1" > "$0"', path, what], check=True)
def by_python(path):
    with open(path, "w") as file:
        file.write("x")
for path in ("/dev/null", "/dev/stderr", "/proc/self/comm", ".cache/a", "~/.triton/a", "~/.cache/a", "~/.old/a"):
    by_c(os.path.expanduser(path))
for path in ("/dev/null", ".cache/b", "~/.nv/b", "~/.cache/b", "~/.old/b"):
    by_python(os.path.expanduser(path))
with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(dir="/dev/shm") as other:
    by_c(one + "/a")
    by_python(one + "/b")
    os.rename(one + "/a", one + "/c")
    by_c(other + "/a")
os.makedirs("new/.cache")  # a cache that comes too late to be allowed lies apart
by_python("new/.cache/a")
os.makedirs(os.path.expanduser("~/.late"))
by_python(os.path.expanduser("~/.late/a"))
by_python("results/mine.txt")
assert open(os.path.expanduser("~/.late/a")).read() == open("results/mine.txt").read() == "x"
"""


@needs_landlock
def test_what_is_nobody_s_result_is_written_as_ever(mine: Path) -> None:
    for name in (".cache", "there/__pycache__", "../home/.old"):
        (mine / name).mkdir(parents=True)
    (mine / "there" / "module.py").write_text("x = 1\n")
    before = files(mine)
    found = started(starter(mine, AS_EVER))
    assert found.exit_code == 0, Path(found.log).read_text()
    after = files(mine)
    assert {name for name in after if before.get(name) != after[name]} == {
        ".cache/a",
        ".cache/b",
        "train.py",
        f"there/__pycache__/module.{sys.implementation.cache_tag}.pyc",
    }
    assert set(files(mine.parent / "home")) == {
        ".triton/a", ".cache/a", ".cache/b", ".old/a", ".old/b", ".nv/b",
    }  # fmt: skip
    assert not (mine.parent / "home" / ".config").exists()  # made for nobody


def test_without_landlock_that_is_said_and_the_script_writes_as_ever(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "missing", lambda: "this kernel has no Landlock")
    starts = starter(mine, SHELL)
    assert starts.before().startswith("this kernel has no Landlock: what other C code")
    assert started(starts).exit_code == 0
    assert (mine / "results" / "mine.txt").read_text() == "other\n"
    assert "is not kept apart" in starts.apart()


@needs_landlock
def test_a_project_among_temporary_files_is_said_to_lie_open(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writable, "TEMPORARY", (str(mine.parent),))
    starts = starter(mine)
    assert "lies where trials may write" in starts.before()
    assert "is not kept apart" in starts.apart() or "was kept apart" in starts.apart()


@needs_landlock
def test_what_landlock_would_break_or_does_not_reach_is_left_to_itself(mine: Path) -> None:
    script = Script(command=("/usr/bin/apptainer", "exec", "image", "python", "train.py"), cwd=str(mine))
    found = writable.writable(script, mine / "writes")
    assert "what `apptainer` starts" in found.before()
    assert not found.refuses(str(mine / "results" / "mine.txt"))


def test_a_driver_that_is_yet_to_be_loaded_by_a_set_uid_program_is_not_kept_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not writable._driver_waits(tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert writable._driver_waits(tmp_path)
    (tmp_path / "nvidia-uvm").touch()
    assert not writable._driver_waits(tmp_path)


@needs_landlock
def test_only_what_the_host_itself_could_write_was_refused_by_landlock(mine: Path) -> None:
    found = writable.writable(Script(command=("python",), cwd=str(mine)), mine.parent / "writes")
    assert found.refuses(str(mine / "results" / "new.txt"))
    assert not found.refuses(str(mine / "nowhere" / "new.txt"))
    assert not found.refuses("/dev/shm/new.txt")


def test_caches_are_looked_for_in_so_many_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/__pycache__", "a/b/.cache", ".venv/__pycache__", "site-packages/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
    found = {str(Path(path).relative_to(tmp_path)) for path in writable._caches([str(tmp_path)])}
    assert found == {"a/__pycache__", "a/b/.cache"}
    monkeypatch.setattr(writable, "MOST_ENTRIES", 1)
    assert not list(writable._caches([str(tmp_path)]))


def test_host_and_guest_leave_the_same_as_it_is() -> None:
    assert (overlay.NOT_THEIRS, overlay.TEMPORARY) == (writable.DEVICES, ("/tmp", "/var/tmp"))
    assert (overlay.CACHES, overlay.CACHED) == (writable.CACHES, writable.CACHED)


@needs_landlock
def test_only_the_thread_that_starts_is_restricted(tmp_path: Path) -> None:
    def write() -> None:
        (tmp_path / "a").write_text("x")

    with pytest.raises(PermissionError):
        landlock.within([str(tmp_path / "none"), "/dev"], write)
    write()
    landlock.within([str(tmp_path)], write)
    landlock.within([str(tmp_path / "a")], write)


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSYS, "has no Landlock"), (errno.EPERM, "forbidden"), (errno.E2BIG, "fails here")]
)
def test_why_it_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, number: int, says: str) -> None:
    def refused(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(landlock, "_call", refused)
    assert says in landlock.missing()
    monkeypatch.setattr(landlock, "_call", lambda *_: 1)  # the first version
    assert "has no Landlock" in landlock.missing()
