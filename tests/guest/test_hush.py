"""What a trial writes lies apart, and whoever asks for it by its name finds it; the user's files stay as they are."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Watched = Callable[..., Any]
HEAD = """
import glob, io, json, logging, os, pathlib, shutil, sys
log = logging.FileHandler("before.log")  # before torch is there
import torch
from torch.utils.data import DataLoader

def raises(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        return True
    raise AssertionError(f"{function} returned")

def text(path):
    with open(path) as file:
        return file.read()

def write(path, what, mode="w"):
    with open(path, mode) as file:
        file.write(what)

for batch in DataLoader([1, 2, 3]):
    pass
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The user's files, in the folder in which the script is started."""
    files = {"notes.txt": "mine\n", "results/a.txt": "a", "results/old/b.txt": "b", "keep.txt": "keep"}
    files["program.pt2"] = "old"
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def seen(folder: Path) -> dict[str, str]:
    """Return every file of the user's with what it holds."""
    ours = {"trial", "rings", "train.py", "out", "err"}
    files = [path for path in folder.rglob("*") if path.relative_to(folder).parts[0] not in ours]
    return {str(path): path.read_text() if path.is_file() else "" for path in files}


def hushed(folder: Path) -> dict[str, str]:
    return {"GPUTUNE_TRIAL": json.dumps({"writes": str(folder / "trial")})}


CASES = {
    "a link that another process has made": """
import subprocess

def elsewhere(code):
    write = "def write(p, w):\\n with open(p, 'w') as f: f.write(w)\\n"
    subprocess.run([sys.executable, "-c", write + "import os; " + code], check=True)

elsewhere("os.symlink('results', 'latest'); os.symlink('results/a.txt', 'best.txt')")
write("latest/a.txt", "mine")
assert text("latest/a.txt") == "mine" and text("results/a.txt") == "mine"
write("best.txt", "best")
assert text("results/a.txt") == "mine" or text("best.txt") == "best"
elsewhere("write('latest/old/b.txt', 'other'); write('latest/new.txt', 'new')")
assert text("results/new.txt") == "new" and text("latest/new.txt") == "new"
os.remove("latest/old/b.txt")
elsewhere("os.rename('latest/new.txt', 'latest/a.txt')")
os.makedirs("latest/made/here")
torch.save({"step": 1}, "latest/program.pt2")
torch.save({"step": 1}, "latest/old/b.txt")
""",
    "links from and to temporary folders": """
import errno, tempfile
with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.abspath("results"), folder + "/link")
    os.symlink(os.path.abspath("keep.txt"), folder + "/keep")
    write(folder + "/link/a.txt", "mine")
    write(folder + "/keep", "mine")
    assert text("results/a.txt") == "mine" and text("keep.txt") == "mine"
    try:
        os.link("notes.txt", folder + "/notes")
    except OSError as error:
        assert error.errno == errno.EXDEV
    else:
        raise AssertionError("a second name for a file of theirs")
    shutil.copy("notes.txt", folder + "/notes")
    write(folder + "/notes", "mine")
""",
    "names that the system has for their folders and files": """
import tempfile
from multiprocessing import shared_memory
here = os.getcwd()
number = 0
folder = os.open(here, os.O_RDONLY)
open_file = open("keep.txt")
ways = ["/proc/self/cwd", "/proc/%d/cwd" % os.getpid(), "/proc/thread-self/cwd", "/proc/self/task/%d/cwd" % os.getpid()]
ways += ["/proc/self/root" + here, "/proc/self/cwd/results/..", "/proc/self/fd/%d" % folder, "/dev/fd/%d" % folder]
ways += ["/proc/../proc/self/cwd", "//proc/self/cwd", "/proc/self/root/proc/self/cwd"]
for way in ways:
    number += 1
    write(way + "/notes.txt", str(number))
    assert text(way + "/notes.txt") == text("notes.txt") == str(number), way
    write(way + "/results/new%d.txt" % number, "new")
    os.rename(way + "/results/new%d.txt" % number, way + "/results/a.txt")
    os.makedirs(way + "/made%d/here" % number)
    torch.save({"step": 1}, way + "/program.pt2")
    assert "made%d" % number in os.listdir(way) and os.path.isdir("made%d/here" % number), way
    os.symlink("results", way + "/link%d" % number)
    write("link%d/old/b.txt" % number, "B")
os.remove("/proc/self/cwd/results/a.txt")
shutil.rmtree("/proc/self/cwd/results/old")
assert not os.path.exists("results/a.txt")
os.chdir("/proc/self")
write("root" + here + "/notes.txt", "in it")
os.chdir(here)
write("/proc/self/fd/%d" % open_file.fileno(), "k")
with open("/dev/stdout", "w") as file, open("/dev/fd/2", "a"):
    pass
with tempfile.TemporaryFile() as gone:
    write("/proc/self/fd/%d" % gone.fileno(), "x")
    assert gone.read() == b"x"
os.symlink(here, "/dev/shm/gputune-test-%d" % os.getpid())
try:
    write("/dev/shm/gputune-test-%d/keep.txt" % os.getpid(), "mine")
finally:
    os.remove("/dev/shm/gputune-test-%d" % os.getpid())
block = shared_memory.SharedMemory(create=True, size=8)
write("/dev/shm/" + block.name.lstrip("/"), "12345678")
assert bytes(block.buf[:8]) == b"12345678"
block.close()
block.unlink()
""",
    "a folder has one name": """
assert raises(PermissionError, os.link, "results", "hard")
assert not os.path.exists("hard/a.txt")
write("hard", "a file")
""",
    "a new file": """
write("new.txt", "one")
write("new.txt", " two", "a")
assert text("new.txt") == "one two" and pathlib.Path("new.txt").read_text() == "one two"
assert os.path.isfile("new.txt") and "new.txt" in os.listdir() and "new.txt" in glob.glob("*.txt")
assert raises(FileExistsError, open, "new.txt", "x") and raises(FileExistsError, open, "notes.txt", "x")
os.remove("new.txt")
assert not os.path.exists("new.txt") and "new.txt" not in os.listdir(".")
assert raises(FileNotFoundError, open, "new.txt") and raises(FileNotFoundError, os.remove, "new.txt")
assert raises(FileNotFoundError, open, "no/such/folder.txt", "w") and raises(FileNotFoundError, open, "none", "r+")
assert raises(IsADirectoryError, open, "results", "w") and raises(NotADirectoryError, open, "keep.txt/x", "w")
""",
    "a file of theirs": """
write("notes.txt", "yours", "a")
assert text("notes.txt") == "mine\\nyours"
with open("notes.txt", "r+") as file:
    file.write("MINE")
assert text("notes.txt") == "MINE\\nyours"
write("results/a.txt", "")
os.truncate("keep.txt", 2)
assert text("keep.txt") == "ke" and os.stat("results/a.txt").st_size == 0
os.chmod("results/old/b.txt", 0o400)
fd = os.open("results/old/b.txt", os.O_RDWR)
os.write(fd, b"B")
os.close(fd)
assert text("results/old/b.txt") == "B"
write("results/a.txt", "more")
for path in ("notes.txt", "results/a.txt"):
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"anew")
    os.close(fd)
    assert text(path) == "anew"
assert raises(FileNotFoundError, os.open, "none.txt", os.O_WRONLY | os.O_TRUNC)
""",
    "what is removed and renamed": """
os.rename("keep.txt", "kept.txt")
assert text("kept.txt") == "keep" and not os.path.exists("keep.txt")
write("kept.txt", "!", "a")
assert text("kept.txt") == "keep!"
write("notes.tmp", "whole")
os.replace("notes.tmp", "notes.txt")
assert text("notes.txt") == "whole" and not os.path.exists("notes.tmp")
assert raises(FileNotFoundError, os.rename, "keep.txt", "again.txt")
os.rename("results", "results.old")
assert text("results.old/old/b.txt") == "b" and not os.path.isdir("results")
os.makedirs("results")
assert os.listdir("results") == [] and not os.path.exists("results/a.txt")
write("results/a.txt", "new")
assert text("results/a.txt") == "new" and text("results.old/a.txt") == "a"
assert raises(OSError, os.rmdir, "results")
shutil.rmtree("results.old")
assert not os.path.exists("results.old/a.txt") and raises(FileNotFoundError, shutil.rmtree, "results.old")
shutil.rmtree("results.old", ignore_errors=True)
shutil.move("results/a.txt", "moved.txt")
assert os.listdir("results") == [] and text("moved.txt") == "new"
os.rmdir("results")
assert not os.path.exists("results")
""",
    "folders": """
os.makedirs("results/old/deep/er", exist_ok=True)
assert raises(FileExistsError, os.mkdir, "results/old") and raises(FileExistsError, os.makedirs, "results/old")
pathlib.Path("results/old/deep/er/c.txt").write_text("c")
assert sorted(os.listdir("results/old")) == ["b.txt", "deep"]
found = sorted(os.path.join(at, name) for at, folders, files in os.walk("results") for name in files)
assert [text(path) for path in found] == ["a", "b", "c"], found
assert sorted(entry.name for entry in os.scandir("results/old")) == ["b.txt", "deep"]
os.remove("results/old/b.txt")
assert os.listdir("results/old") == ["deep"]
shutil.copytree("results", "copy")
assert text("copy/old/deep/er/c.txt") == "c"
shutil.copy2("notes.txt", "copy/notes.txt")
assert text("copy/notes.txt") == "mine\\n"
os.symlink("notes.txt", "link.txt")
assert text("link.txt") == "mine\\n" and os.readlink("link.txt") == "notes.txt"
os.makedirs("steps/1")
write("steps/1/weights", "w1")
os.symlink("steps/1", "latest.draft")
os.replace("latest.draft", "latest")
assert os.readlink("latest") == "steps/1" and os.readlink(b"latest") == b"steps/1"
assert text("latest/weights") == "w1" and os.path.getsize("latest/weights") == 2 and os.listdir("latest") == ["weights"]
write("latest/more", "more")
assert text("steps/1/more") == "more" and os.path.realpath("latest/more").endswith("/steps/1/more")
os.unlink("latest")
os.makedirs("latest")
assert os.listdir("latest") == []
os.chdir("copy")
write("here.txt", "here")
os.chdir("..")
assert text("copy/here.txt") == "here"
os.makedirs("runs/one")
os.chdir("runs/one")
assert text("../../keep.txt") == text(os.path.join(os.getcwd(), "../../keep.txt")) == "keep"
assert "keep.txt" in os.listdir("../..") and os.listdir(".") == [entry.name for entry in os.scandir(".")] == []
found = {entry.name: entry for entry in os.scandir("../..")}
assert text(found["keep.txt"].path) == "keep" and found["results"].is_dir() and found["runs"].is_dir()
assert {b"keep.txt", b"runs"} <= {entry.name for entry in os.scandir(b"../..")}
assert "../../keep.txt" in glob.glob("../../*")
assert pathlib.Path("../../keep.txt").resolve().read_text() == "keep" and os.path.samefile("../..", "../../copy/..")
write("../two.txt", "2")
write("../../results/a.txt", "A")
folder = os.open("..", os.O_RDONLY)
fd = os.open("../keep.txt", os.O_RDONLY, dir_fd=folder)
assert os.read(fd, 9) == b"keep" and os.stat("two.txt", dir_fd=folder).st_size == 1
os.close(fd)
os.close(folder)
os.chdir("../..")
assert text("keep.txt") == "keep" and text("runs/two.txt") == "2" and text("results/a.txt") == "A"
""",
    "checkpoints": """
torch.save({"x": torch.arange(3)}, "model.pt")
assert torch.load("model.pt")["x"].tolist() == [0, 1, 2]
assert torch.load(pathlib.Path("model.pt"), mmap=True)["x"].tolist() == [0, 1, 2]
assert os.path.getsize("model.pt") > 100
with open("other.pt", "wb") as file:
    torch.save([1], file)
assert torch.load("other.pt") == [1]
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), "script.pt")
assert torch.jit.load("script.pt").weight.shape == (1, 2)
os.replace("model.pt", "notes.txt")
assert torch.load("notes.txt")["x"].tolist() == [0, 1, 2]
""",
    "files that torch opens by itself": """
CPU = torch.profiler.ProfilerActivity.CPU
def double(x: torch.Tensor):
    return x * 2
os.makedirs("ck")
torch.jit.script(torch.nn.Linear(2, 1)).save("ck/m.pt")
torch.jit.script(torch.nn.Linear(2, 1)).save("keep.txt")
assert torch.jit.load("ck/m.pt").weight.shape == torch.jit.load("keep.txt").weight.shape == (1, 2)
torch.jit.script(double).save("results/a.txt")
assert torch.jit.load("results/a.txt")(torch.ones(1)).item() == 2
with torch.profiler.profile(activities=[CPU]) as profile:
    torch.ones(3).sum()
profile.export_chrome_trace("notes.txt")
assert "traceEvents" in json.loads(text("notes.txt"))
with torch.profiler.profile(activities=[CPU], on_trace_ready=torch.profiler.tensorboard_trace_handler("results")):
    torch.ones(3).sum()
assert any(name.endswith(".pt.trace.json") for name in os.listdir("results"))
shared = torch.from_file("results/old/b.txt", shared=True, size=1, dtype=torch.uint8)
assert shared.item() == ord("b")
shared.fill_(ord("B"))
assert text("results/old/b.txt") == "B"
assert torch.from_file("results/old/b.txt", size=1, dtype=torch.uint8).item() == ord("B")
torch.UntypedStorage.from_file("ck/new.bin", True, 4)
assert os.path.getsize("ck/new.bin") == 4
""",
    "an exported program": """
class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2
torch.export.save(torch.export.export(Twice(), (torch.ones(2),)), "program.pt2")
assert torch.export.load("program.pt2").module()(torch.ones(2)).tolist() == [2, 2]
""",
    "what is known of a file": """
import subprocess
os.makedirs("ck")
write("ck/last.pt", "x")
shutil.copy2("ck/last.pt", "ck/best.pt")
shutil.copystat("ck/last.pt", "keep.txt")
assert text("ck/best.pt") == "x" and os.listxattr("ck/best.pt") == os.listxattr("ck/last.pt")
assert shutil.disk_usage("ck").total and os.statvfs("ck/last.pt").f_bsize and os.pathconf("ck", "PC_NAME_MAX")
os.mkfifo("pipe")
assert raises(FileExistsError, os.mkfifo, "pipe") and "pipe" in os.listdir()
assert subprocess.run(["cat", "last.pt"], cwd="ck", capture_output=True, check=True).stdout == b"x"
read = "import os; print(os.listdir(), open('last.pt').read(), open('new.pt', 'w').write('n'))"
subprocess.run([sys.executable, "-c", read], cwd=pathlib.Path("ck"), check=True, capture_output=True)
assert text("ck/new.pt") == "n"
""",
    "a file without a buffer": """
with io.FileIO("keep.txt", "w") as file:
    file.write(b"KEEP")
assert text("keep.txt") == "KEEP" and io.FileIO("keep.txt").read() == b"KEEP"
with io.FileIO("keep.txt", mode="ab") as file:
    file.write(b"!")
assert io.FileIO("keep.txt").readall() == b"KEEP!"
with open("keep.txt", "rb") as file:
    assert isinstance(file.raw, io.FileIO) and not isinstance(file, io.FileIO)
class Mine(io.FileIO):
    pass
with Mine("new.txt", "x") as file:
    assert isinstance(file, Mine) and issubclass(Mine, io.FileIO) and not isinstance(io.FileIO("keep.txt"), Mine)
assert raises(FileExistsError, io.FileIO, "new.txt", "x") and raises(FileNotFoundError, io.FileIO, "none")
""",
    "logs": """
logging.getLogger().addHandler(log)
logging.getLogger().addHandler(logging.FileHandler("notes.txt"))
logging.warning("said")
assert text("before.log") == "said\\n" and text("notes.txt") == "mine\\nsaid\\n"
""",
    "another process": """
import subprocess
write("new.txt", "new")
read = "print(open('new.txt').read(), open('results/a.txt', 'a').write('more'))"
assert subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True).stdout == "new 4\\n"
assert os.path.exists("new.txt")
class Writes(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        write(f"cache{i}.txt", str(i))
        return i
for batch in DataLoader(Writes(), num_workers=2):
    assert text(f"cache{batch.item()}.txt") == str(batch.item())
""",
    "what is nobody's": """
import tempfile
with tempfile.NamedTemporaryFile(dir="/tmp") as file:
    file.write(b"x")
    assert os.path.exists(file.name)
    name = file.name
assert not os.path.exists(name)
with open(os.devnull, "w") as file:
    file.write("x")
with tempfile.TemporaryDirectory() as folder:
    write(folder + "/a", "x")
    os.rename(folder + "/a", "from.txt")
    shutil.copy("from.txt", folder)
assert text("from.txt") == "x"
assert raises(TypeError, open, None) and raises(TypeError, os.stat, 1.5) and raises(ValueError, open, "a", "wr")
class Holder:
    open = open
    stat = os.stat
import pickle
assert pickle.loads(pickle.dumps([open, os.stat])) == [open, os.stat]
assert Holder().open("notes.txt").read() == "mine\\n" and Holder().stat("notes.txt").st_size == 5
""",
}


@pytest.fixture
def bare_lines(
    mine: Path, tmp_path_factory: pytest.TempPathFactory, fake_torch: Path
) -> Callable[[str, bool], list[str]]:
    """Return what runs a script without the guest, on a copy of the user's files, to its lines on stderr."""
    apart = tmp_path_factory.mktemp("bare") / "mine"
    shutil.copytree(mine, apart)

    def run(code: str, light: bool) -> list[str]:
        (apart / "train.py").write_text(code)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("GPUTUNE_", "PYTHON"))}
        if light:
            env["PYTHONPATH"] = str(fake_torch)
        command = [sys.executable, "train.py"]
        return subprocess.run(
            command, cwd=apart, env=env, capture_output=True, text=True, timeout=110, check=False
        ).stderr.splitlines()

    return run


def _shape(line: str) -> str:
    """Return a line without its numbers: torch's own begin with the time and the process."""
    return re.sub(r"\d+", "0", line)


SLOW = {"an exported program"}  # its import takes seconds
REAL = {
    "checkpoints",
    "another process",
    "files that torch opens by itself",
    "an exported program",
}  # need a torch that computes


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.slow if case in SLOW else ()) for case in CASES])
def test_a_script_meets_what_it_wrote_and_leaves_the_user_s_files(
    watched: Watched, lightly: Watched, mine: Path, bare_lines: Callable[[str, bool], list[str]], case: str
) -> None:
    before = seen(mine)
    start = watched if case in REAL else lightly
    run = start(HEAD + CASES[case], env=hushed(mine)).healthy()
    said = [line for line in run.err.splitlines() if line != "said"]
    if said:  # torch has things to say of itself: its profiler, its CUDA build where no driver is
        assert Counter(map(_shape, said)) <= Counter(map(_shape, bare_lines(HEAD + CASES[case], start is lightly)))
    assert run.err.count("said\n") <= 1
    assert seen(mine) == before
    assert run.notes("hush") == [{"n": "hush", "on": True}]
    assert str(mine / "before.log") in {note["path"] for note in run.notes("hushed")}
    assert (mine / "trial" / "rings" / str(mine / "before.log").lstrip("/")).exists()


def test_what_is_told_is_each_file_once_and_not_without_end(lightly: Watched, mine: Path) -> None:
    code = """
for _ in range(3):
    for n in range(60):
        write(f"{n}.txt", "")
"""
    notes = lightly(HEAD + code, env=hushed(mine)).healthy().notes("hushed")
    assert len(notes) == len({note["path"] for note in notes}) == 40
    assert {note["what"] for note in notes} == {"open"}


def test_a_trial_that_does_not_ask_for_it_writes_as_ever(watched: Watched, mine: Path) -> None:
    code = """
write("new.txt", "new")
print("gputune_guest.overlay" in sys.modules, type(open).__name__)
"""
    run = watched(HEAD + code, env={"GPUTUNE_TRIAL": json.dumps({"batches": 5})}).healthy()
    assert (mine / "new.txt").read_text() == "new"
    assert run.out.endswith("builtin_function_or_method\n")
    assert run.notes("hush") == []


def test_what_goes_astray_is_left_word_of(lightly: Watched, mine: Path) -> None:
    code = """
import _io, sqlite3, subprocess
subprocess.run(["cat", "/dev/null", "--", "keep.txt"], capture_output=True)
subprocess.run([sys.executable, "-c", ""], check=True)
subprocess.run([sys.executable, "-I", "-c", ""], check=True)
os.system("true")
sqlite3.connect("base.db").close()
sqlite3.connect(":memory:").close()
_io.FileIO("around.txt", "w").close()
os.makedirs("runs/one")
os.chdir("runs/one")
os.chdir("../..")
os.chdir("results")
os.chdir("..")
write("new.txt", "kept apart")
with open("large.bin", "r+b") as file:
    file.write(b"x")
"""
    with (mine / "large.bin").open("wb") as file:
        file.truncate(257 << 20)
    lightly(HEAD + code, env=hushed(mine)).healthy()
    told = [json.loads(line) for line in (mine / "trial" / "rings.astray").read_text().splitlines()]
    found = {(each["kind"], Path(each["name"]).name) for each in told}
    assert found == {
        ("program", "cat"),
        ("program", Path(sys.executable).name),
        ("program", "sh"),
        ("database", "base.db"),
        ("opened", "around.txt"),
        ("large", "large.bin"),
        ("inside", "one"),
    }
    assert (mine / "around.txt").exists()
    assert not (mine / "new.txt").exists()


def test_services_are_told_to_be_off(lightly: Watched, mine: Path) -> None:
    code = """
print(os.environ["WANDB_MODE"], os.environ["MLFLOW_TRACKING_URI"])
"""
    run = lightly(HEAD + code, env=hushed(mine)).healthy()
    assert run.out == f"disabled file://{mine}/trial/rings/mlruns\n"


def test_every_interpreter_keeps_to_it(watched: Watched, mine: Path, fake_torch: Path, python: str) -> None:
    code = CASES["a new file"].partition("assert raises(IsADirectoryError")[0] + CASES["folders"]
    head = HEAD.replace("torch.utils.data import", "torch.utils.data.dataloader import")
    head = head.replace("DataLoader([1, 2, 3])", "DataLoader([1, 2, 3], collate_fn=list)")
    before = seen(mine)
    run = watched(head + code, python=python, path=(fake_torch,), env=hushed(mine)).healthy()
    assert run.err == "", sys.version
    assert seen(mine) == before


AT_THE_END = """
import builtins
class Late:
    def __del__(self, open=open, file=io.FileIO, torch_file=torch.UntypedStorage.from_file, os=os, sys=sys):
        assert sys.is_finalizing()
        with open("notes.txt", "a") as notes:
            notes.write("late")
        with file("results/a.txt", "w") as results:
            results.write(b"late")
        torch_file("results/old/b.txt", True, 1)[0] = 7
        os.close(os.open("new.txt", os.O_WRONLY | os.O_CREAT))
        os.replace("program.pt2", "results/moved")
        os.remove("keep.txt")
        os.truncate("notes.txt", 0)
        os.write(1, b"done")

builtins.last = Late()  # goes when the names of all modules were set to None
"""


def test_what_is_written_as_the_interpreter_ends_lies_apart_too(watched: Watched, mine: Path) -> None:
    before = seen(mine)
    run = watched(HEAD + AT_THE_END, env=hushed(mine)).healthy()
    assert run.out == "done", run.err
    assert seen(mine) == before
    assert (mine / "trial" / "rings" / str(mine / "results" / "a.txt").lstrip("/")).read_text() == "late"
