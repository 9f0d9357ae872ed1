"""What a machine or somebody else may put in the way: a sentence, the command's own status, nothing changed."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.core import opening
from gputune.core.sample import Sample
from gputune.core.units import NS
from gputune.launch import folders
from gputune.recording import readings
from gputune.wire.client import AgentClient
from gputune.wire.messages import MACHINE, CursorFields
from tests.faults import runs
from tests.faults.compiled import shared
from tests.faults.runs import GPUTUNE, environment, eventually
from tests.nodes.conftest import Agent

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    struct stat there;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, at);
    if (clock == CLOCK_REALTIME && stat(getenv("FAULTS_JUMP"), &there) == 0) at->tv_sec += there.st_size - 100000;
    return status;
}
"""

TRAIN = """
import pathlib, sys, time, torch
from torch.utils.data import DataLoader
for n, batch in enumerate(DataLoader(list(range(100_000)))):
    pathlib.Path("step").write_text(str(n))
    if n > 20 and pathlib.Path("enough").exists(): break
    time.sleep(0.005)
sys.exit(3)
"""
NOBODY = 65534
OURS = {"step", "gputune-runs"}  # what the training and the watch write
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run, to its end."""
    return runs.recorded(tmp_path_factory.mktemp("run"))[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a training in it that leaves 3."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "enough").touch()
    return folder


def watched(home: Path, *before: str, **more: str) -> Done:
    """Run the training under `gputune watch`; `before` starts it."""
    return done(home, *before, *GPUTUNE, "watch", "--", sys.executable, "train.py", **environment(**more))


def done(home: Path, *command: str, **environ: str) -> Done:
    """Run a command there, and fail where it changes a file that was there before."""
    before = seen(home)
    found = subprocess.run(
        command,
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    print(found.stderr)  # for whoever sees a test fail
    left = {name: what for name, what in seen(home).items() if name.partition("/")[0] not in OURS}
    assert left == {name: what for name, what in before.items() if name.partition("/")[0] not in OURS}
    return found


def seen(folder: Path) -> dict[str, object]:
    """Return what lies there: kind, owner, mode and content (of what is no file, and of a large one: its size)."""
    found: dict[str, object] = {}
    for file in folder.rglob("*"):
        about = file.lstat()
        small = stat.S_ISREG(about.st_mode) and about.st_size < 1 << 20
        inside = file.read_bytes() if small else about.st_size * stat.S_ISREG(about.st_mode)
        found[str(file.relative_to(folder))] = (about.st_mode, about.st_uid, inside)
    return found


def reported(run: Path, cwd: Path, *before: str) -> Done:
    """Judge a run folder again, which leaves it as it is; `before` starts that."""
    as_it_was = seen(run)
    found = done(cwd, *before, *GPUTUNE, "report", str(run), "--again", **os.environ)
    assert seen(run) == as_it_was
    return found


def sentence(done: Done) -> None:
    """Fail unless a failure was said in one sentence."""
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("error: ") == 1
    assert done.stderr.count("hint: ") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("left", ["run.json", "run.json findings.json", "findings.json", "samples", "batches"])
def test_a_run_folder_that_was_copied_half(run: Path, tmp_path: Path, left: str) -> None:
    half = tmp_path / "half"
    half.mkdir()
    for name in left.split():
        (shutil.copytree if (run / name).is_dir() else shutil.copy)(run / name, half / name)
    found = reported(half, tmp_path)
    assert found.returncode in {1, 2}, found.stdout
    assert found.stderr.count("error: ") == 1
    assert "Traceback" not in found.stderr


def test_a_copy_that_broke_off_in_the_middle_of_a_file(run: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(run, half)
    for file in half.glob("*/*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    sentence(reported(half, tmp_path))


def told_of(done: Done, name: str) -> list[str]:
    """Return what was said of a file; fail unless the command has left as ever."""
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if name in line]


def test_a_settings_file_that_is_none(home: Path) -> None:
    os.mkfifo(home / "gputune.toml")
    (said,) = told_of(watched(home), "gputune.toml")
    assert said.endswith("is ignored: it is no file")


def test_a_settings_file_of_a_gigabyte(home: Path) -> None:
    with (home / "gputune.toml").open("wb") as file:
        file.truncate(1 << 30)
    (said,) = told_of(watched(home), "gputune.toml")
    assert said.endswith("is ignored: it has more than 1 MiB")


def test_a_settings_file_in_a_folder_in_which_anybody_may_write(home: Path, tmp_path: Path) -> None:
    (tmp_path / "gputune.toml").write_text('[watch]\njson = "/nowhere/x"\n')
    tmp_path.chmod(0o1777)
    (said,) = told_of(watched(home), "gputune.toml")
    assert said.endswith("sets `json`, which counts only in the project's own folder")
    assert not Path("/nowhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make what is another user's")
def test_a_settings_file_of_another_user(home: Path, tmp_path: Path) -> None:
    (tmp_path / "gputune.toml").write_text("[watch]\nprice = 2\n")
    os.chown(tmp_path / "gputune.toml", NOBODY, NOBODY)
    (said,) = told_of(watched(home), "gputune.toml")
    assert "is ignored: it is " in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make what is another user's")
def test_a_run_folder_of_another_user(run: Path, tmp_path: Path) -> None:
    theirs = Path(shutil.copytree(run, tmp_path / "theirs"))
    for each in (theirs, *theirs.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    found = reported(theirs, tmp_path)
    assert found.returncode == 0, found.stderr
    assert [line for line in found.stderr.splitlines() if line.endswith("'s")] == [
        f"gputune: `{theirs}` is {opening.name_of(NOBODY)}'s"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make what is another user's")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not there")
def test_a_run_folder_that_another_user_hides(run: Path, tmp_path: Path) -> None:
    hidden = Path(shutil.copytree(run, tmp_path / "hidden"))
    hidden.chmod(0o700)
    for each in (hidden, *hidden.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    found = reported(hidden, tmp_path, "setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--")
    sentence(found)
    assert f"it is {opening.name_of(NOBODY)}'s" in found.stderr


def test_a_machine_without_shared_memory(home: Path) -> None:
    covered = 'mount -t tmpfs -o size=4k,mode=0 none /dev/shm && exec "$@"'
    before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", covered, "sh")
    if subprocess.run((*before, "true"), check=False, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    found = watched(home, *before)
    assert found.returncode == 3, found.stderr
    assert "Traceback" not in found.stderr
    assert list(home.glob("gputune-runs/*/run.json"))


def test_a_kernel_without_pidfds(home: Path) -> None:
    code = (
        "import os, runpy, sys\n"
        "def none(*_): raise OSError(38, 'Function not implemented')\n"
        "os.pidfd_open = none\n"
        f"sys.argv = ['gputune', 'watch', '--', {sys.executable!r}, 'train.py']\n"
        "runpy.run_module('gputune', run_name='__main__')\n"
    )
    found = done(home, sys.executable, "-c", code, **environment())
    assert found.returncode == 3, found.stderr
    assert "Traceback" not in found.stderr


def test_a_home_that_may_not_be_written(home: Path) -> None:
    found = watched(home, HOME="/sys", XDG_CACHE_HOME="/sys/cache", XDG_CONFIG_HOME="/sys/config")
    assert found.returncode == 3, found.stderr
    assert "Traceback" not in found.stderr


def test_rings_that_somebody_removes_in_mid_run(home: Path, popen: Callable[..., "subprocess.Popen[str]"]) -> None:
    (home / "enough").unlink()
    command = (*GPUTUNE, "watch", "--", sys.executable, "train.py")
    with popen(command, cwd=home, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        eventually((home / "step").exists, "the first step")
        eventually(lambda: list(home.glob("gputune-runs/*/frames-00001")), "a recorder that has read")
        name = f"{folders.PREFIX}{os.getuid()}-{running.pid}-*"
        (rings,) = (
            each for place in ("/dev/shm", "/tmp", os.environ.get("TMPDIR", "/tmp")) for each in Path(place).glob(name)
        )
        shutil.rmtree(rings)
        (home / "enough").touch()
        said = running.communicate(timeout=200)[1]
    print(said)
    assert running.returncode == 3, said
    assert "their folder was removed while it ran" in " ".join(said.split())
    assert "could reach" not in said  # it was there, and nobody knows what it did
    assert "Traceback" not in said


@pytest.mark.parametrize("by", [3600, -7200])
def test_an_agents_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    (tmp_path / "clock.c").write_text(CLOCK)
    jump = tmp_path / "jump"
    monkeypatch.setenv("LD_PRELOAD", str(shared(tmp_path / "clock.c")))
    monkeypatch.setenv("FAULTS_JUMP", str(jump))
    (tmp_path / "agent").mkdir(mode=0o700)
    agent = Agent(tmp_path / "agent", "m8").start()
    far = AgentClient(agent.address)
    try:
        before = far.hello()
        with jump.open("wb") as file:
            file.truncate(100_000 + by)
        eventually(lambda: abs(far.hello().unix - before.unix - by) < 60, "the clock that has jumped")
        assert far.offset == pytest.approx(by, abs=60)  # times of that node are shown by ours
        place = CursorFields()
        for _ in range(3):  # its samples go on
            eventually(lambda at=place: far.pull(MACHINE, at).rows, "samples after the jump")
            place = far.pull(MACHINE, place).said.next
    finally:
        far.close()
        assert agent.end() == 0
    times = [reading.t for tick in readings(agent.recording) for reading in tick if isinstance(reading, Sample)]
    assert times == sorted(times)
    assert 0 < times[-1] - times[0] < 3600 * NS
