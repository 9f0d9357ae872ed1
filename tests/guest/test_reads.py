"""What sampled batches open and read, and that nothing of the looking stays behind."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import FetchCode, Kind, ReadsCode, Record

GUEST = Path(__file__).resolve().parents[2] / "probes" / "guest"
HEAD = """
import builtins, io, os, pathlib, threading, time, torch
from torch.utils.data import DataLoader

BEFORE = (builtins.open, io.open, os.open)
SIZE = 5000
for n in range(8):
    pathlib.Path("%d.bin" % n).write_bytes(bytes(SIZE))

def check():
    assert (builtins.open, io.open, os.open) == BEFORE

class Files:
    def __len__(self):
        return 96
    def __getitem__(self, i):
        name = "%d.bin" % (i % 8)
        time.sleep(0.001)  # a batch below a millisecond is not worth a look in the training process
        READ
        return i
"""
ONE = 'with open(name, "rb") as f: f.read()'
WAYS = (
    ONE,
    'with io.open(name, mode="rb") as f: f.read()',
    "pathlib.Path(name).read_bytes()",
    "fd = os.open(name, os.O_RDONLY); os.read(fd, SIZE); os.close(fd)",
)
LOOP = """
if __name__ == "__main__":
    for x in DataLoader(Files(), batch_size=4, num_workers=WORKERS):
        check()
    check()
"""


def loop(read: str, workers: int = 0) -> str:
    return HEAD.replace("READ", read) + LOOP.replace("WORKERS", str(workers))


def reads(run: Any) -> list[Record]:
    """What was told of sampled batches, by the training process or by its workers."""
    return [r for process in (run.main, *run.workers) for r in run.records(Kind.READS, process)]


def test_files_opened_any_way_are_counted_once_with_their_bytes(watched: Callable[..., Any]) -> None:
    run = watched(loop("\n        ".join(WAYS))).healthy()
    seen = reads(run)
    assert len(seen) == 5  # batches 1 to 4 and 16 of 24
    assert {(r.c, r.e, r.code) for r in seen} == {(16, 4, FetchCode.INLINE)}
    for record in seen:
        assert 0 < record.a < record.t1 - record.t0
        if record.b >= 0:  # this kernel counts
            assert 16 * 5000 <= record.b < 16 * 5000 + 4000
            assert record.d >= 0


def test_workers_tell_of_their_own_batches(watched: Callable[..., Any], tmp_path: Path) -> None:
    run = watched(loop(ONE, workers=2)).healthy()
    seen = reads(run)
    assert len(seen) == 2 * 4
    assert {(r.c, r.e, r.code) for r in seen} == {(4, 4, 0)}
    (note,) = {(n["device"], n["folder"]) for n in run.notes("reads")}
    about = tmp_path.stat()
    assert note == (f"{os.major(about.st_dev)}:{os.minor(about.st_dev)}", str(tmp_path))


def test_written_files_and_other_threads_do_not_count(lightly: Callable[..., Any]) -> None:
    code = """
        def elsewhere():
            with open(name, "rb") as f: f.read()
        other = threading.Thread(target=elsewhere); other.start(); other.join()
        with open("log.txt", "a") as f: f.write(name)
        os.close(os.dup(0))
        with open(os.open(name, os.O_RDWR), "rb") as f: f.read()
"""
    run = lightly(loop(code.strip())).healthy()
    assert {(r.c, r.a) for r in reads(run)} == {(0, 0)}


def test_a_file_held_open_tells_its_mount(lightly: Callable[..., Any], tmp_path: Path) -> None:
    code = loop("os.pread(BIG, 40000, 0)")
    big = 'pathlib.Path("big.bin").write_bytes(bytes(1 << 20))\nBIG = os.open("big.bin", os.O_RDONLY)\n'
    run = lightly(code.replace("class Files", big + "class Files")).healthy()
    seen = reads(run)
    if seen[0].b < 0:
        pytest.skip("this kernel does not count what a thread reads")
    assert {r.c for r in seen} == {0}
    assert str(tmp_path) in {n["folder"] for n in run.notes("reads")}


def test_reading_past_the_page_cache_is_told(lightly: Callable[..., Any], tmp_path: Path) -> None:
    if not hasattr(os, "O_DIRECT"):
        pytest.skip("no O_DIRECT on this system")
    try:
        (tmp_path / "try").write_bytes(bytes(4096))
        os.close(os.open(tmp_path / "try", os.O_RDONLY | os.O_DIRECT))
    except OSError as reason:
        pytest.skip(f"no O_DIRECT on the file system of {tmp_path}: {reason.strerror}")
    run = lightly(loop("os.close(os.open(name, os.O_RDONLY | os.O_DIRECT))")).healthy()
    assert {r.code for r in reads(run)} == {FetchCode.INLINE | ReadsCode.DIRECT}


def test_what_fails_in_a_sampled_batch_fails_as_ever_and_leaves_nothing_behind(lightly: Callable[..., Any]) -> None:
    code = (
        HEAD.replace("READ", 'open("none.bin")')
        + """
if __name__ == "__main__":
    batches, failures = iter(DataLoader(Files(), batch_size=4)), 0
    for _ in range(6):
        try:
            next(batches)
        except FileNotFoundError as error:
            assert error.filename == "none.bin"
            failures += 1
        check()
    assert failures == 6
"""
    )
    assert lightly(code).healthy().out == ""


def test_what_they_put_in_place_meanwhile_stays_and_what_they_kept_still_opens(lightly: Callable[..., Any]) -> None:
    code = """
        global KEPT
        if i > 4 and builtins.open is not mine:
            KEPT, builtins.open = open, mine
"""
    end = """
if __name__ == "__main__":
    list(DataLoader(Files(), batch_size=4))
    assert builtins.open is mine and KEPT is not BEFORE[0]
    assert KEPT("0.bin", "rb").read() == bytes(SIZE)
"""
    mine = "def mine(*args, **kwargs):\n    return BEFORE[0](*args, **kwargs)\n"
    script = HEAD.replace("READ", code.strip()).replace("class Files", mine + "class Files") + end
    assert lightly(script).healthy().out == ""


@pytest.mark.parametrize("way", ["pathlib.Path(name).read_bytes()", "open(name).read()"])
def test_what_a_small_file_costs_beside_its_opening_is_told_once(lightly: Callable[..., Any], way: str) -> None:
    run = lightly(loop(way, workers=2)).healthy()
    notes = run.notes("files")
    assert len(notes) == 2
    for note in notes:
        assert 0 <= note["naming"] < note["opening"] + note["ending"]
        assert note["opening"] > 0
        assert note["ending"] >= 0  # 0 on a machine so busy that one opening took long: then it is the only one


@pytest.mark.parametrize("way", ["open(name)", "pathlib.Path(name).open()"])
def test_a_file_of_bytes_that_was_opened_as_text_has_its_price_too(lightly: Callable[..., Any], way: str) -> None:
    run = lightly(loop(f"with {way} as f: f.buffer.read()").replace("bytes(SIZE)", "bytes([0xFF]) * SIZE")).healthy()
    assert len(run.notes("files")) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", [ONE, "pathlib.Path(name).read_bytes()", "open(name).read()"])
def test_none_of_theirs_is_opened_more_often_than_they_do(
    lightly: Callable[..., Any], tmp_path: Path, way: str, workers: int
) -> None:
    """What a file costs is told of a copy: theirs may lie far away, or count who opens them."""
    count = """
import sys
def seen(event, args):
    if event == "open" and str(args[0]).endswith(".bin") and ".price-" not in str(args[0]):
        os.write(LOG, b"%d " % os.getpid())
LOG = os.open("opened.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(seen)
class Files"""
    run = lightly(loop(way, workers).replace("class Files", count, 1)).healthy()
    assert len(run.notes("files")) == max(1, workers)
    assert len((tmp_path / "opened.txt").read_text().split()) == 96
    assert not [entry for entry in run.left if "price" in entry]
    for record in reads(run):
        assert record.b < 0 or record.b < 4 * 5000 + 4000  # the copy is none of what they asked for


NUMPY = """
import sys, types

def fromfile(name, kind=None, count=-1, sep=""):
    with io.open(name, "rb") as f:
        found = f.read()
    until = time.perf_counter_ns() + COSTS
    while time.perf_counter_ns() < until:
        pass
    return found

COSTS = 300_000
numpy = sys.modules["numpy"] = types.ModuleType("numpy")
numpy.fromfile = ORIGINAL = fromfile
numpy.load = lambda name, mmap_mode=None: fromfile(name)
"""


@pytest.mark.parametrize(
    ("read", "as_they_do"),
    [
        ("numpy.fromfile(name)", True),
        ("numpy.fromfile(name, sep=',')", False),  # it parses text
        ("numpy.load('array.npy')", True),
        ("numpy.load(name)", False),  # it may be a pickle
        ("numpy.load('array.npy', mmap_mode='r')", False),
    ],
)
def test_a_file_that_numpy_reads_whole_and_does_nothing_else_with_is_priced_as_numpy_reads_it(
    lightly: Callable[..., Any], read: str, as_they_do: bool
) -> None:
    array = "\npathlib.Path('array.npy').write_bytes(b'0')\n"
    script = loop(read, workers=1).replace("class Files", NUMPY + array + "\nclass Files")
    (note,) = lightly(script + "    assert numpy.fromfile is ORIGINAL\n").healthy().notes("files")
    assert (note["ending"] >= 300_000 - note["opening"]) is as_they_do


@pytest.mark.parametrize(
    ("way", "kept"), [("pathlib.Path(name).read_bytes()", False), ("PATHS[i % 8].read_bytes()", True)]
)
def test_a_path_that_was_made_for_a_batch_is_told_from_one_that_is_kept(
    watched: Callable[..., Any], way: str, kept: bool
) -> None:
    paths = 'PATHS = [pathlib.Path("%d.bin" % n) for n in range(8)]\n'
    run = watched(loop(way).replace("class Files", paths + "class Files")).healthy()
    assert [note["kept"] for note in run.notes("files")] == [kept]


@pytest.mark.parametrize(
    "way",
    [
        "io.FileIO(name).read()",  # not by a name that `open` was given
        "open(os.open(name, os.O_RDONLY)).close()",
        'open("large.bin", "rb").close()',
        'open("/dev/zero", "rb").close()',
        "open(name, opener=lambda path, flags: os.open(path, flags)).close()",
    ],
)
def test_no_other_file_is_opened_again(lightly: Callable[..., Any], way: str) -> None:
    large = 'pathlib.Path("large.bin").write_bytes(bytes(100_000))\n'
    run = lightly(loop(way).replace("class Files", large + "class Files")).healthy()
    assert run.notes("files") == []


def test_under_every_interpreter(watched: Callable[..., Any], python: str, fake_torch: Path) -> None:
    run = watched(loop(WAYS[2], workers=2), python=python, path=(fake_torch,)).healthy()
    assert {r.c for r in reads(run)} == {4}


ANY = 'open("%d.bin" % random.Random(i).randrange(8), "rb").close()'


def test_many_samples_out_of_few_files_are_told_by_how_many_are_different(lightly: Callable[..., Any]) -> None:
    """96 samples out of 8 files: what all of them read is no size of the data set."""
    (told,) = lightly(loop(ANY).replace("import builtins", "import random, builtins")).healthy().notes("distinct")
    assert told["looked"] == 8  # two of each sampled batch
    assert 1 < told["files"] < 8
    assert told["bytes"] == told["files"] * 5000


def test_the_same_pass_again_tells_nothing_of_how_many_there_are() -> None:
    """In order, and with as many batches that each pass has the same ones sampled: these are all that are ever seen."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from gputune_guest import reads, ring
told = []
ring.note = lambda **fields: told.append(fields)
class About:
    st_dev, st_size = 1, 10
    def __init__(self, number):
        self.st_ino = number
for _ in range(50):
    for number in range(20):
        reads._tell_apart(About(number))
assert [each["looked"] for each in told] == [8, 16] and told[-1]["files"] == 16, told
for number in (3, 3, 9, 2, 19, 4, 4, 4, 1, 8, 7, 6):
    reads._tell_apart(About(number))
assert told[-1]["looked"] == 32 and told[-1]["files"] == 20, told
"""
    command = [sys.executable, "-I", "-c", code, str(GUEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_held_open_is_told_with_its_bytes(lightly: Callable[..., Any]) -> None:
    held = 'pathlib.Path("large.bin").write_bytes(bytes(1 << 20))\nLARGE = open("large.bin", "rb", 0)\n'
    held += "ALSO = os.dup(LARGE.fileno())  # one file, however often it is open\n"
    run = lightly(loop("LARGE.seek(0); LARGE.read()").replace("class Files", held + "class Files")).healthy()
    (told,) = run.notes("held")
    assert told["bytes"] >= 1 << 20
    assert told["bytes"] < 2 << 20
    assert run.notes("distinct") == []
