"""The user's files survive a trial byte for byte, and the trial meets what it has written as if it had written it.

Random programs of file operations over two processes, in a folder with files of the user's: once bare, once hushed as
in a trial. The user's files are the same afterwards, and where a bare operation succeeds the hushed one has the same
outcome. The second process works on what the trial has made: of what the first one does to the user's files it need not
know (docs/trials.md).
"""

import contextlib
import functools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import HERE, Broken, Case, chance, must
from tests.faults.runs import FAKE_TORCH

TESTS = "guest/test_hush.py, test_trial.py; experiment/test_writable.py (13 libraries under Landlock)"
QUICK, FULL, SHARE = 500, 20_000, 50
SECONDS = 300.0
GUEST = HERE.parents[1] / "probes" / "guest"
TOGETHER = 25  # programs that one pair of processes runs
LONGEST = 25  # operations of a program
NAMES = (
    "a.txt",
    "b.txt",
    "d",
    "d/a.txt",
    "d/e",
    "d/e/c.txt",
    "new.txt",
    "d/new.txt",
    "n",
    "n/m",
    "n/x.txt",
    "l",
    "l/a.txt",
)
MADE = ("n", "n/m", "n/x.txt", "n/p", "q", "q/a.txt")  # none of the user's
THEIRS = {"a.txt": "mine", "b.txt": "b", "d/a.txt": "da", "d/e/c.txt": "dec"}
MODES = ("w", "a", "x", "r+", "w+", "a+")
FLAGS = (
    ("O_WRONLY",),
    ("O_WRONLY", "O_CREAT"),
    ("O_RDWR", "O_CREAT", "O_EXCL"),
    ("O_WRONLY", "O_TRUNC"),
    ("O_WRONLY", "O_APPEND", "O_CREAT"),
)
Program = list[tuple[int, list[object]]]
ONE = (
    "read",
    "read",
    "walk",
    "scan",
    "kind",
    "size",
    "remove",
    "mkdir",
    "makedirs",
    "rmdir",
    "rmtree",
    "list",
    "readlink",
    "opened",
)
ONE += ("access", "utime")
TWO = ("rename", "replace", "symlink", "copy", "copytree", "move")


def operation(dice: random.Random, names: tuple[str, ...]) -> list[object]:
    name = dice.choice(names)
    if dice.random() < 0.05 and names is not MADE:
        name = "./" + name if dice.random() < 0.5 else f"d/../{name}"
    what = dice.choice(("write", "write", "patch", "low", "truncate", "chmod", *ONE, *TWO))
    if what == "symlink":
        return [what, dice.choice(names if names is MADE else ("a.txt", "d", "nowhere")), dice.choice(names[-3:])]
    return [what, name, *_more(what, dice, names)]


def _more(what: str, dice: random.Random, names: tuple[str, ...]) -> list[object]:
    """Return what an operation takes beside a name."""
    if what in TWO:
        return [dice.choice(names)]
    more: dict[str, list[object]] = {
        "write": [dice.choice(MODES), dice.choice(("", "x", "more text\n"))],
        "patch": [dice.randrange(6), "P"],
        "low": [list(dice.choice(FLAGS)), "low"],
        "truncate": [dice.randrange(5)],
        "chmod": [dice.choice((0o600, 0o644, 0o700))],
    }
    return more.get(what, [])


def program(number: int) -> Program:
    dice = chance("files", number)
    who = [int(dice.random() < 0.35) for _ in range(dice.randrange(3, LONGEST))]
    return [(each, operation(dice, MADE if each else NAMES)) for each in who]


def made(folder: Path) -> None:
    for name, text in THEIRS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def seen(folder: Path) -> dict[str, object]:
    return {
        str(file.relative_to(folder)): file.read_text() if file.is_file() else "" for file in sorted(folder.rglob("*"))
    }


def outcomes(home: Path, programs: dict[int, Program], *, hushed: bool) -> list[list[object]]:
    """Run programs in folders of `home`, and return what each operation came to."""
    shutil.rmtree(home, ignore_errors=True)
    for number in programs:
        made(home / "work" / str(number) / "mine")
    asked = [{"at": str(home / "work" / str(n) / "mine"), "operations": program} for n, program in programs.items()]
    (home / "programs.json").write_text(json.dumps(asked))
    (home / "rings").mkdir(mode=0o700)
    path = [str(FAKE_TORCH)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PYTHONDONTWRITEBYTECODE": "1"}
    if hushed:
        path.insert(0, str(GUEST))
        env |= {"GPUTUNE_RINGS": str(home / "rings"), "GPUTUNE_HOST_PID": str(os.getpid())}
        env["GPUTUNE_TRIAL"] = json.dumps({"writes": str(home / "trial")})
    command = (sys.executable, str(HERE / "operating.py"), str(home / "programs.json"))
    done = subprocess.run(
        command,
        cwd=home / "work",
        env={**env, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=SECONDS - 50,
        check=False,
    )
    must(done.returncode == 0, f"{'hushed' if hushed else 'bare'}: status {done.returncode}: {done.stderr}")
    return [list(each) for each in json.loads(done.stdout)]


def compare(program: Program, bare: list[object], hushed: list[object], left: dict[str, object]) -> str:
    """Return what is not as it should be, in words."""
    if left != {**dict.fromkeys(("d", "d/e"), ""), **THEIRS}:
        return f"the user's files were changed: {left}, by {program}"
    for at, (plain, apart) in enumerate(zip(bare, hushed, strict=True)):
        if plain[0] == "ok" and apart != plain:  # type: ignore[index] # a list
            steps = "; ".join(json.dumps(each) for each in program[: at + 1])
            return f"operation {at}: {apart} instead of {plain}, after {steps}"
        if plain[0] != "ok" and apart[0] == "ok":  # type: ignore[index] # what fails for the user may succeed apart
            return ""
    return ""


def told(folder: Path, programs: dict[int, Program]) -> dict[int, str]:
    """Run programs bare and hushed, and return what is not as it should be of each."""
    bare = outcomes(folder / "bare", programs, hushed=False)
    hushed = outcomes(folder / "hushed", programs, hushed=True)
    left = [seen(folder / "hushed" / "work" / str(number) / "mine") for number in programs]
    rows = zip(programs.items(), bare, hushed, left, strict=True)
    return {number: compare(program, b, h, files) for (number, program), b, h, files in rows}


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    @functools.lru_cache(2)
    def lot(first: int) -> dict[int, str]:
        numbers = list(range(first, first + TOGETHER))
        return told(folder, {number: program(number) for number in numbers})

    def case(number: int) -> None:
        why = lot(number // TOGETHER * TOGETHER)[number]
        if why:
            raise Broken(why)

    yield case
