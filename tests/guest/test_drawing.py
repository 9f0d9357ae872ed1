"""What pauses do to the random generators that the training draws from: told only as it was seen."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import SpanCode
from gputune.core.sample import Json, Note

# Each loop runs in a child of one process, which imports torch for all; what it says is there before it ends.
CHILD = """
child = os.fork()
if not child:
{loop}
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
HEAD = """
import os, random, logging, torch
from torch.utils.data import DataLoader
from gputune_guest import drawing
torch.set_num_threads(1)
drawing.APART_NS = 0  # every pause is looked at, however short the loop is
class Numbers:
    draws = False
    def __len__(self): return 8
    def __getitem__(self, i): return torch.rand(1) if self.draws else torch.tensor([float(i)])
model = torch.nn.Linear(1, 1)
data, held_out, own = Numbers(), Numbers(), torch.Generator()
def step(x):
    model(x).sum().backward()  # no optimizer: its first call imports much of torch, in each child
def loop(evaluate, loader=None):
    for _ in range(3):
        for batch in loader or DataLoader(data, batch_size=4):
            step(batch)
        evaluate()
"""
LOADER = "DataLoader(held_out, batch_size=4{})"
TRAIN_MODE = """
def evaluate():
    model.eval()
    with torch.no_grad():
        for batch in {over}: model(batch)
    model.train()
"""
MID_EPOCH = """
for _ in range(2):
    for batch in DataLoader(data, batch_size=2, generator=own):
        step(batch)
        with torch.no_grad():
            for other in DataLoader(held_out, batch_size=4, generator=torch.Generator()): model(other)
"""


def over(loader: str, **own: str) -> str:
    train = own.get("train", "None")
    return TRAIN_MODE.format(over=loader) + f"loop(evaluate, {train})"


CASES = {  # what a script does, and what its evaluations do: generators moved, those that the training moves, unsure
    "batches that are there": (over("[torch.ones(4, 1)] * 3"), [], [], False),
    "nanoGPT draws its batches, those of the evaluation as well": (
        "def evaluate():\n    model.eval()\n    with torch.no_grad(): model(torch.randint(9, (4, 1)).float())\n"
        "    model.train()\n"
        "for _ in range(3):\n    step(torch.randint(9, (4, 1)).float())\n    step(torch.ones(1, 1))\n    evaluate()",
        ["torch"],
        ["torch"],
        False,
    ),
    "a loader draws a seed for each pass": (over(LOADER.format("")), ["torch"], ["torch"], False),
    "a loader has a generator of its own": (over(LOADER.format(", generator=torch.Generator()")), [], [], False),
    "two loaders have one generator": (
        over(LOADER.format(", generator=own"), train="DataLoader(data, batch_size=4, shuffle=True, generator=own)"),
        ["own"],
        ["own"],
        False,
    ),
    "others draw": (
        "import numpy\n"
        + TRAIN_MODE.format(over="[torch.full((1, 1), random.random() + numpy.random.rand())]")
        + "loop(evaluate)",
        ["numpy", "random"],
        [],
        False,
    ),
    "nobody says train()": (MID_EPOCH, [], [], False),
    "nobody says train(), and the next batch draws": ("data.draws = True" + MID_EPOCH, [], [], True),
    "the pass begins without gradients": (
        "def evaluate():\n    with torch.no_grad():\n"
        f"        for batch in {LOADER.format('')}: model(batch)\n    model.train()\nloop(evaluate)",
        ["torch"],
        ["torch"],
        False,
    ),
}


def told(watched: Callable[..., Any], *loops: str) -> list[list[dict[str, Json]]]:
    """Return what each loop, in a child of its own, said of its pauses."""
    pytest.importorskip("torch")
    indented = ("".join(f"    {line}\n" for line in loop.splitlines()) for loop in loops)
    run = watched(HEAD + "".join(CHILD.format(loop=loop) for loop in indented)).healthy()
    notes: dict[int, list[dict[str, Json]]] = {}
    for reading in run.readings:
        if isinstance(reading, Note) and reading.fields.get("n") in {"drew", "process"}:
            notes.setdefault(reading.process, []).append(reading.fields)
    children = [said for pid, said in notes.items() if pid != min(notes)]
    return [[note for note in said if note["n"] == "drew"] for said in children]


SAVED = "torch.save(model.state_dict(), 'x.pt')\nprint('x')"
HANDLER = """
class Handler(logging.Handler):
    def emit(self, record): random.random()
logging.getLogger().addHandler(Handler())
logging.error('x')
"""
MODES = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)
class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)
with Mode(), Dispatch(): torch.save({}, 'x.pt')
"""
SELDOM = """
drawing.APART_NS = 10**15
calls = []
states = drawing.states
drawing.states = lambda: calls.append(1) or states()
for _ in range(50): torch.save({}, 'x.pt')
assert len(calls) == 2, len(calls)
"""
CHECKPOINT, LOGGING, EVALUATION = int(SpanCode.CHECKPOINT), int(SpanCode.LOGGING), int(SpanCode.EVALUATION)
OTHERS = {  # what a script does, and of each kind of pause the generators that it moves
    "what is saved and logged draws nothing": (SAVED, {CHECKPOINT: [], LOGGING: []}),
    "but what the script has it draw": (HANDLER, {LOGGING: ["random"]}),
    "no mode of theirs is told": (MODES, {CHECKPOINT: []}),
    "the next look is due only after a while": (SELDOM, {CHECKPOINT: []}),
}


def test_pauses_tell_what_they_draw_from(watched: Callable[..., Any]) -> None:
    """One process imports torch for all."""
    cases = {**CASES, **OTHERS}
    notes = dict(zip(cases, told(watched, *(case[0] for case in cases.values())), strict=True))
    found = {}
    for name in CASES:
        last = [note for note in notes[name] if note["span"] == EVALUATION][-1]
        found[name] = (last["of"], last["shared"], last["unsure"])
    assert found == {name: case[1:] for name, case in CASES.items()}
    seen = {name: {note["span"]: note["of"] for note in notes[name]} for name in OTHERS}
    assert seen == {name: case[1] for name, case in OTHERS.items()}
