"""The first line in their interpreter: it steps aside, costs nothing, and is not there when it is not wanted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GUEST = Path(__file__).resolve().parents[2] / "probes" / "guest"


def run(
    code: str, path: str, rings: str, *flags: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path, "GPUTUNE_RINGS": rings, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [python, *flags, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


def test_their_own_sitecustomize_runs_as_it_would_have(theirs: Path, rings: Path, python: str) -> None:
    (theirs / "sitecustomize.py").write_text("import sys\nvalue = 7\nprint('theirs', __file__, sys.path[1])\n")
    code = "import sitecustomize, sys; print(sitecustomize.value, sitecustomize.__spec__.origin, sys.path)"
    with_us = run(code, f"{GUEST}:{theirs}", str(rings), python=python)
    without = run(code, str(theirs), str(rings), python=python)
    assert with_us.stdout == without.stdout
    assert (with_us.stderr, with_us.returncode) == ("", 0)
    assert [entry.suffix for entry in rings.iterdir()] == [".hello"]


@pytest.mark.parametrize("error", ["raise RuntimeError('broken')", "import not_there", "import sys; sys.exit(3)"])
def test_an_error_of_their_sitecustomize_is_reported_as_ever(theirs: Path, rings: Path, error: str) -> None:
    (theirs / "sitecustomize.py").write_text(error)
    with_us = run("print('on')", f"{GUEST}:{theirs}", str(rings))
    without = run("print('on')", str(theirs), str(rings))
    assert (with_us.stdout, with_us.returncode) == (without.stdout, without.returncode)
    assert _told(with_us.stderr) == _told(without.stderr)


def _told(stderr: str) -> str:
    return stderr.strip().rpartition("\n")[2]


def test_no_trace_is_left_on_the_path(rings: Path, python: str) -> None:
    done = run("import sys; print([p for p in sys.path if 'guest' in p])", str(GUEST), str(rings), python=python)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("flag", ["-I", "-S", "-E"])
def test_nothing_of_ours_runs_when_python_is_told_so(rings: Path, flag: str) -> None:
    done = run("import sys; print('gputune_guest' in sys.modules, len(sys.meta_path))", str(GUEST), str(rings), flag)
    assert done.stdout.startswith("False")
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("rings", ["", "/nonexistent/rings"])
def test_without_a_folder_for_rings_nothing_is_installed(rings: str) -> None:
    code = "import sys; print([type(f).__name__ for f in sys.meta_path if type(f).__name__ == '_Finder'])"
    assert run(code, str(GUEST), rings).stdout == "[]\n"


def test_nothing_is_imported_that_python_had_not_loaded(rings: Path, tmp_path: Path, python: str) -> None:
    code = "import sys; print(sorted(sys.modules))"
    bare = set(eval(run(code, str(tmp_path), str(rings), python=python).stdout))
    ours = set(eval(run(code, str(GUEST), str(rings), python=python).stdout))
    assert "sitecustomize" in ours  # of which a system may have one of its own, as Debian does
    assert ours - bare <= {"sitecustomize", "atexit"}  # which is a part of the interpreter


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("import json; json.loads('{')", ["JSONDecodeError: Expecting property name", "train.py:1"]),
        ("def f():\n    raise ValueError('no such\\nshard')\nf()", ["ValueError: no such", "train.py:2"]),
        ("import os\nif not os.fork(): raise KeyError(3)\nos.wait()", []),  # it is not the child that was started
        ("raise KeyboardInterrupt", []),
        ("import sys, torch; raise ValueError('later')", []),  # the guest's ring tells it
        ("pass", []),
    ],
)
def test_the_error_that_ends_a_script_without_torch_is_left_in_the_folder(  # noqa: PLR0917 - fixtures
    rings: Path, tmp_path: Path, fake_torch: Path, python: str, ends: str, told: list[str]
) -> None:
    (tmp_path / "train.py").write_text(ends)
    left = _left(rings, tmp_path, fake_torch, python, "train.py")
    assert [(each["n"], each["where"]) for each in left] == ([("raised", told[1])] if told else [])
    assert all(each["what"].startswith(told[0]) for each in left)


def _left(rings: Path, place: Path, fake_torch: Path, *command: str) -> list[dict[str, str]]:
    """Return what a script left in the folder; its status and its words are those that it has without us."""
    seen, bare = (
        subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": lies, "GPUTUNE_RINGS": str(rings)},
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        for lies in (os.pathsep.join(map(str, (GUEST, fake_torch))), str(fake_torch))
    )
    assert (seen.returncode, seen.stdout, seen.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    return [json.loads(file.read_text()) for file in rings.glob("*.raised")]


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("sys.exit('enough\\nof it')", ("sys.exit: enough", "train.py:2")),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args()",
            ("train.py: error: the following arguments are required: --lr", "train.py:5"),
        ),
        ("try:\n    {}['lr']\nexcept KeyError:\n    sys.exit(1)", ("KeyError: 'lr'", "train.py:5")),
        ("from sys import exit\nexit('no')", ("sys.exit: no", "train.py:3")),
        ("try:\n    sys.exit('no')\nexcept SystemExit:\n    pass\nsys.exit(4)", None),
        ("import threading\nt = threading.Thread(target=sys.exit, args=('no',))\nt.start()\nt.join()", None),
        ("import os\nif not os.fork(): sys.exit('child')\nos.wait()\nsys.exit(5)", None),
        ("sys.exit()", None),
        ("sys.exit(7)", None),
        ("import torch\nsys.exit('later')", None),  # the guest's ring tells it
    ],
)
def test_what_a_script_gives_to_sys_exit_before_torch_is_left_too(
    rings: Path, tmp_path: Path, fake_torch: Path, ends: str, told: tuple[str, str] | None
) -> None:
    (tmp_path / "train.py").write_text(f"import sys\n{ends}")
    left = _left(rings, tmp_path, fake_torch, sys.executable, "train.py")
    can = sys.version_info >= (3, 11)  # before, its exception would have had a frame of ours
    assert [(each["what"], each["where"]) for each in left] == ([told] if told and can else [])


def test_nothing_of_sys_exit_is_another(rings: Path, tmp_path: Path, fake_torch: Path, python: str) -> None:
    lines = """
import copy, pickle, sys, traceback
print(sys.exit, sys.exit.__name__, sys.exit.__qualname__, sys.exit.__doc__, sys.exit.__module__)
assert pickle.loads(pickle.dumps(sys.exit)) is copy.deepcopy(sys.exit) is sys.exit
class Holder:
    leave = sys.exit
for leave in (sys.exit, Holder().leave):
    try:
        leave("no")
    except SystemExit as error:
        print(error.code, [frame.name for frame in traceback.extract_tb(error.__traceback__)])
for wrong in ((1, 2), ()):
    try:
        sys.exit(*wrong)
    except BaseException as error:
        print(type(error), error)
"""
    (tmp_path / "train.py").write_text(lines)
    assert _left(rings, tmp_path, fake_torch, python, "train.py") == []


@pytest.mark.parametrize(
    ("word", "told"), [("nowhere/train.py", "can't open file 'nowhere/train.py'"), (".", "can't find '__main__'")]
)
def test_a_script_that_is_not_there_is_told(
    rings: Path, tmp_path: Path, fake_torch: Path, word: str, told: str
) -> None:
    (left,) = _left(rings, tmp_path, fake_torch, sys.executable, word)
    assert told in left["what"]


def test_an_importer_that_asks_all_finders_again_does_not_recurse(rings: Path, fake_torch: Path) -> None:
    code = """
import sys, importlib.util
class Nosy:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.busy: return None
        self.busy = True
        try: return importlib.util.find_spec(name)
        finally: self.busy = False
sys.meta_path.insert(0, Nosy())
assert importlib.util.find_spec("torch").name == "torch"
import torch
from importlib.machinery import SourceFileLoader
assert type(torch.__loader__) is SourceFileLoader and torch.__spec__.loader is torch.__loader__
assert "exec_module" not in vars(torch.__loader__)
print("gputune_guest.loader" in sys.modules)
"""
    done = run(code, f"{GUEST}:{fake_torch}", str(rings))
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_torch_that_fails_to_import_fails_as_it_would_have(rings: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('no libcuda')")
    code = "import sys\ntry:\n    import torch\nexcept OSError as error:\n    print(error, 'torch' in sys.modules)"
    done = run(code, f"{GUEST}:{tmp_path}", str(rings))
    assert (done.stdout, done.stderr) == ("no libcuda False\n", "")


def test_another_program_in_the_same_process_is_another_process(
    watched: Callable[..., Any], fake_torch: Path, tmp_path: Path
) -> None:
    (tmp_path / "second.py").write_text("import torch; torch.autograd.backward()")
    code = "import os, sys, torch; torch.autograd.backward(); os.execv(sys.executable, [sys.executable, 'second.py'])"
    run = watched(code, path=(fake_torch,))
    first, second = sorted(run.guests.values())
    assert first.pid == second.pid
    assert first.ended <= second.started < second.ended


def test_children_are_guests_of_their_own(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import os, subprocess, sys, torch
torch.autograd.backward()
pid = os.fork()
if not pid:
    torch.save({}, "child.pt")
    os._exit(0)
os.waitpid(pid, 0)
subprocess.run([sys.executable, "-c", "import torch; torch.autograd.backward()"], check=True)
"""
    run = watched(code, path=(fake_torch,)).healthy()
    assert len(run.guests) == 3
    assert all(guest.ended for guest in run.guests.values())
    assert run.left == ["next"]


def test_an_interpreter_too_old_for_us_stays_silent(rings: Path, python_2: str) -> None:
    """A tool in Python 2.7 below a watch: it is not seen from inside, and says what it would have said."""
    code = "import sys, json; sys.stdout.write(json.dumps([1]))"
    done = run(code, str(GUEST), str(rings), python=python_2)
    assert (done.stdout, done.stderr, done.returncode) == ("[1]", "", 0)
