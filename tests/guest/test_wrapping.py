"""All that stands in the place of theirs, or is called by theirs, is made in one place, which keeps its word."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guest.conftest import GUEST

FOLDER = GUEST / "gputune_guest"
# what nobody but wrapping.py calls: by whose way ours would stand in theirs, or be called by theirs, unguarded
ALONE = {
    "functools.wraps",
    "functools.update_wrapper",
    "os.register_at_fork",
    "atexit.register",
    "sys.addaudithook",
    "weakref.finalize",
}
SETS = {"patching", "reads", "iterators", "natives", "write_sandbox", "wrapping"}  # setattr with what wrapping.py made


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(FOLDER.glob("*.py")):
        yield path.stem, ast.parse(path.read_text())


def test_there_is_one_place_where_theirs_is_wrapped() -> None:
    odd = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or name == "wrapping":
                continue
            called = ast.unparse(node.func)
            reference = called == "weakref.ref" and len(node.args) > 1  # with a function that is called when it goes
            if called in ALONE or reference or (called == "setattr" and name not in SETS):
                odd.append(f"{name}.py:{node.lineno}: {ast.unparse(node)}")
    assert odd == []


def test_nothing_of_theirs_is_replaced_by_assignment() -> None:
    odd = [
        f"{name}.py:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and target.attr.startswith("__")
        and target.attr not in {"__traceback__", "__code__", "__defaults__"}
        and not ast.unparse(node.value).startswith("wrapping.")
    ]
    assert odd == []


def test_what_stands_in_a_real_torch_was_made_there(watched: Callable[..., Any]) -> None:
    code = """
import logging, pickle, numpy, torch, torch.distributed, torch.nn.parallel.distributed, http.client
from gputune_guest import here, patching, wrapping
made = {getattr(here.fast, kind) for kind in ("Around", "Loose", "Making", "Next", "Passing")} if here.fast else set()
for owner, name, _own, ours in patching._done:
    code = getattr(ours, "__code__", None)
    there = code is not None and (code.co_filename == wrapping.__file__ or name == "_optimizer_step_code")
    assert type(ours) in made or type(ours) is wrapping.Stand or there, (owner, name, ours)
assert len(patching._done) > 50, len(patching._done)
"""
    for pure in ("", "1"):
        watched(code, env={"GPUTUNE_GUEST_SYNC": "1", "GPUTUNE_GUEST_PURE": pure}).healthy()


ERRORS = """
import sys, threading, traceback
from torch.utils.data import DataLoader
import torch
class Bad(list):
    def __getitem__(self, i): raise KeyError(i)
def told(*args, **kwargs):
    try: list(DataLoader(*args, **kwargs))
    except KeyError: traceback.print_exc()
def collate(samples): raise KeyError("no batch")
told(Bad([1, 2]))
told([1, 2], collate_fn=collate)
try: raise OSError("before")
except OSError:
    told(Bad([1]))
    print(sys.exc_info()[0], file=sys.stderr)
try: torch.save({}, "no/such/folder")
except OSError: traceback.print_exc()
class Late:
    def __del__(self): torch.save({}, "no/such/folder")
Late()
thread = threading.Thread(target=torch.save, args=({}, "no/such/folder"), name="theirs")
thread.start()
thread.join()
sys.kept, late = sys.modules["__main__"], iter(DataLoader([1, 2, 3], num_workers=2))
next(iter(late))
list(DataLoader(Bad([1])))
"""


@pytest.mark.parametrize("pure", ["", "1"])
def test_no_frame_of_ours_is_in_a_traceback_of_any_python(
    watched: Callable[..., Any], python: str, fake_torch: Path, tmp_path: Path, pure: str
) -> None:
    run = watched(ERRORS, python=python, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": pure})
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    bare = subprocess.run(
        [python, "train.py"],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(fake_torch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "KeyError" in bare.stderr
    assert _plain(run.err) == _plain(bare.stderr)
    assert run.status == bare.returncode == 1
    assert run.notes("error") == []


def _plain(text: str) -> str:
    """Leave out addresses, which differ from process to process."""
    return "\n".join(line.partition(" at 0x")[0] for line in text.splitlines())


AROUND = """
import os, sys
sys.path.insert(0, {guest!r})
from gputune_guest import here, wrapping
assert (here.fast is None) is {pure}
told = []
wrapping.fail_with(told.append)
def theirs(a, b=2):
    "What it does."
    if a is None: raise LookupError(b)
    return a, b
def fails(*_any): raise RuntimeError("ours")
seen = []
begun = lambda args, kwargs: (args, kwargs)
ways = (fails, fails), (begun, fails), (wrapping.always, lambda *told: seen.append(told)), (fails, seen.append)
for before, after in ways:
    ours = wrapping.around(theirs, before, after)
    assert ours(1) == (1, 2) and ours(1, b=3) == (1, 3) and ours.__doc__ == theirs.__doc__
    try: ours(None)
    except LookupError as error: assert error.args == (2,) and error.__context__ is None
    else: raise AssertionError
assert len(told) == 3 + 3 + 3, told
ends = [(result, type(error)) for _, result, error in seen]
assert ends == [((1, 2), type(None)), ((1, 3), type(None)), (None, LookupError)]
class Log: write = wrapping.around(print, wrapping.always)
Log().write("no instance")
def interrupts(*_any): raise KeyboardInterrupt
for before, after in ((interrupts, fails), (wrapping.always, interrupts)):
    try: wrapping.around(theirs, before, after)(1)
    except KeyboardInterrupt as error:
        assert error.__traceback__.tb_frame.f_code.co_filename == __file__
assert wrapping.quiet(fails)() is None
"""


@pytest.mark.parametrize("pure", ["", "1"])
def test_what_becomes_of_ours_changes_nothing_of_theirs(tmp_path: Path, pure: str) -> None:
    script = tmp_path / "around.py"
    script.write_text(AROUND.format(guest=str(GUEST), pure=bool(pure)))
    env = {**os.environ, "GPUTUNE_GUEST_PURE": pure}
    run = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "no instance\n", "")


def test_a_collate_function_that_is_bound_keeps_nothing_alive(watched: Callable[..., Any]) -> None:
    code = """
import gc, weakref
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self):
        self.batches = iter(DataLoader(range(8), batch_size=2, collate_fn=self.collate))
        assert next(self.batches) == [0, 1]
    def collate(self, samples):
        return samples
seen = weakref.ref(Trainer())
gc.collect()
assert seen() is None
"""
    watched(code).healthy()
