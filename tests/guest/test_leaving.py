"""Why a script leaves by `sys.exit` is told, and nothing of how it leaves is another."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

Watched = Callable[..., Any]
HEAD = """
import argparse, pickle, sys, threading, traceback
import torch
"""
ARGUMENTS = "parser = argparse.ArgumentParser(prog='train.py')\nparser.add_argument('--lr', type=float)\n"
HANDLED = """
try:
    {}["lr"]
except KeyError as error:
    print("Error: no lr", file=sys.stderr)
    sys.exit(1)
"""


@pytest.mark.parametrize(
    ("code", "status", "what"),
    [
        ("sys.exit('config.yaml is missing `lr`\\nsee the docs')", 1, "sys.exit: config.yaml is missing `lr`"),
        ("sys.exit(ValueError('no lr'))", 1, "sys.exit: no lr"),
        (ARGUMENTS + "parser.parse_args(['--lr', 'x'])", 2, "ArgumentError: argument --lr: invalid float value: 'x'"),
        (ARGUMENTS + "parser.parse_args(['--rate', '1'])", 2, "train.py: error: unrecognized arguments: --rate 1"),
        (HANDLED, 1, "KeyError: 'lr'"),
        ("raise ValueError('no lr')", 1, "ValueError: no lr"),
        ("sys.exit(3)", 3, None),
        ("sys.exit()", 0, None),
        ("sys.exit(0)", 0, None),
        (ARGUMENTS + "parser.parse_args(['--help'])", 0, None),
        ("try:\n    sys.exit('no')\nexcept SystemExit:\n    pass\nsys.exit(4)", 4, None),
        ("t = threading.Thread(target=sys.exit, args=('no',)); t.start(); t.join(); sys.exit(5)", 5, None),
    ],
)
def test_why_a_script_left_is_told(lightly: Watched, code: str, status: int, what: str | None) -> None:
    run = lightly(HEAD + code)
    assert run.status == status
    told = [note["what"] for note in run.notes("raised")]
    assert told == ([] if what is None else [what])
    assert all(note["where"].startswith("train.py:") for note in run.notes("raised"))


def test_nothing_of_how_a_script_leaves_is_another(lightly: Watched) -> None:
    code = """
assert pickle.loads(pickle.dumps(sys.exit)) is sys.exit
assert sys.exit.__name__ == "exit" and sys.exit.__doc__
class Holder:
    leave = sys.exit
for leave in (sys.exit, Holder().leave):
    try:
        leave("no")
    except SystemExit as error:
        assert error.code == "no"
        assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == ["<module>"]
    else:
        raise AssertionError
try:
    sys.exit(1, 2)
except TypeError as error:
    print(error)
sys.exit("bye")
"""
    run = lightly(HEAD + code)
    try:
        sys.exit(1, 2)  # type: ignore[call-arg] # what Python says to that
    except TypeError as error:
        said = str(error)
    assert (run.status, run.out, run.err) == (1, f"{said}\n", "bye\n")
