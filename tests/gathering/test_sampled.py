"""Stacks become the words of a ledger, with how far each share may be off."""

import pytest

from gputune.core.sample import ATTACHED, Stack
from gputune.gathering import sampled, stacks
from gputune.gathering.sampled import Sampled, word
from gputune.gathering.stacks import Stacks

SITE = "/venv/lib/python3.11/site-packages"
MAIN = ("main", "/home/me/train.py", "30")
NEXT = ("_BaseDataLoaderIter.__next__", f"{SITE}/torch/utils/data/dataloader.py", "741")
ITER = ("DataLoader.__iter__", f"{SITE}/torch/utils/data/dataloader.py", "500")
SAVE = ("save", f"{SITE}/torch/serialization.py", "970")
LOAD = ("load", f"{SITE}/torch/serialization.py", "1500")
LOG = ("Logger._log", "/usr/lib/python3.11/logging/__init__.py", "1600")
READ = ("open", f"{SITE}/PIL/Image.py", "3000")
MODEL = ("Linear.forward", f"{SITE}/torch/nn/modules/linear.py", "114")
POST = ("Session.request", f"{SITE}/requests/sessions.py", "500")
IMPORT = ("_find_and_load", "<frozen importlib._bootstrap>", "1178")
CHECK = ("evaluate", "/home/me/train.py", "50")


@pytest.mark.parametrize(
    ("frames", "span"),
    [
        ((MAIN,), "step"),
        ((MAIN, MODEL), "step"),
        ((MAIN, NEXT), "loader.wait"),
        ((MAIN, NEXT, READ), "loader.wait"),
        ((MAIN, NEXT, LOG), "loader.wait"),  # inside next() all is waiting
        ((MAIN, ITER), "loader.start"),
        ((MAIN, NEXT, ITER), "loader.start"),
        ((MAIN, SAVE), "checkpoint"),
        ((MAIN, LOAD), "step"),
        ((MAIN, ("savez", f"{SITE}/numpy/lib/_npyio_impl.py", "750")), "checkpoint"),
        ((MAIN, LOG), "logging"),
        ((MAIN, LOG, POST), "reporting"),  # the innermost counts
        ((CHECK, MODEL), "evaluation"),
        ((CHECK, NEXT), "loader.wait"),
        ((MAIN, IMPORT), "startup"),
        ((MAIN, IMPORT, MODEL), "startup"),  # what libraries do as they are imported
        ((MAIN, IMPORT, CHECK), "evaluation"),
        ((MAIN, IMPORT, MAIN, MODEL), "step"),  # `import train` trains
        ((MAIN, NEXT, IMPORT), "loader.wait"),
        ((), "step"),
    ],
)
def test_the_innermost_known_frame_says_what_a_stack_is(frames, span) -> None:
    assert word(list(frames)) == span


def looked(*looks: dict[str, int]) -> Sampled:
    told = Sampled()
    for t, look in enumerate(looks, start=1):
        for span, count in look.items():
            told.add(t, span, count)
    return told


def test_shares_add_up() -> None:
    told = looked({"step": 30, "loader.wait": 30}, {"step": 60}, {"loader.wait": 60})
    assert told.shares() == {"step": 0.5, "loader.wait": 0.5}
    assert (told.stacks, told.looks) == (180, 3)


def test_with_few_looks_nothing_is_said_of_how_sure_it_is() -> None:
    assert looked({"step": 60}, {"step": 60}).margins() == {}


def test_looks_that_differ_make_it_less_sure_than_their_stacks_do() -> None:
    alike = looked(*[{"step": 30, "loader.wait": 30}] * 20)
    apart = looked(*[{"step": 60}, {"loader.wait": 60}] * 10)
    assert alike.margins()["step"] == pytest.approx(0.028, abs=0.002)  # 1.96 standard errors of 1200 stacks
    assert apart.margins()["step"] == pytest.approx(0.24, abs=0.02)  # of 20 looks at 0 or 1


def test_what_was_always_seen_is_not_sure_for_that() -> None:
    assert 0 < looked(*[{"step": 60}] * 20).margins()["step"] < 0.01


def test_waits_for_the_network_that_no_frame_shows_are_taken_from_the_step() -> None:
    told = looked(*[{"step": 50, "reporting": 5, "loader.wait": 5}] * 12)
    assert told.shares(0.1) == told.shares()  # they may all be under the other words
    shares = told.shares(0.5)
    assert shares == pytest.approx({"step": 0.5, "reporting": 5 / 12, "loader.wait": 1 / 12})
    assert told.margins(0.5)["reporting"] == told.margins()["step"] > told.margins()["reporting"]
    plain = looked(*[{"step": 60}] * 12)
    assert plain.shares(0.4) == pytest.approx({"step": 0.6, "reporting": 0.4})
    assert "reporting" in plain.margins(0.4)


def test_no_stack_is_no_share() -> None:
    assert Sampled().shares() == {}
    assert Stacks().sampled(1).margins() == {}


def test_of_a_process_that_is_only_looked_at_the_stacks_are_the_ledger(empty) -> None:
    empty.process(state="none", why=ATTACHED)
    for t in range(1, 21):
        empty.at = t * 1000
        empty.stack("main (/home/me/train.py:30)", count=20)
        empty.stack("main (/home/me/train.py:30)", f"__next__ ({NEXT[1]}:741)", count=40)
    process = empty.features().processes[0]
    assert process.ledger == pytest.approx({"step": 20 / 3, "loader.wait": 40 / 3})
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert process.margins["loader.wait"] < 0.03
    assert (process.looks, process.stack_samples) == (20, 1200)


def test_its_time_before_we_came_is_not_ours_to_tell(empty) -> None:
    empty.process(state="none", why=ATTACHED, started=1)
    empty.at = 5000
    assert empty.features().processes[0].wall == 5


def test_of_one_that_could_not_be_heard_the_ledger_stays_as_it_was(empty) -> None:
    empty.process(state="none", why="it runs with -I")
    empty.at = 5000
    empty.gatherer.take([Stack(empty.ns(4000), 100, (f"__next__ ({NEXT[1]}:741)",), 5)])
    assert empty.features().processes[0].ledger == {"step": 5}


TOP = "<module> (/home/me/train.py:300)"


@pytest.mark.parametrize(
    ("frames", "part"),
    [
        ((TOP,), "the loop itself"),
        ((TOP, "main (/home/me/train.py:30)"), "main"),
        ((TOP, "get_batch (/home/me/train.py:120)"), "get_batch"),
        ((TOP, "get_batch (/home/me/train.py:120)", f"stack ({SITE}/numpy/core.py:9)"), "get_batch"),
        ((TOP, "Data.draw (/home/me/data.py:7)"), "Data.draw"),
        ((TOP, f"Module._call_impl ({SITE}/torch/nn/modules/module.py:1)", "forward (/home/me/model.py:9)"), "forward"),
        ((TOP, f"Tensor.backward ({SITE}/torch/_tensor.py:1)", f"run ({SITE}/torch/autograd/graph.py:1)"), "backward"),
        ((TOP, f"step ({SITE}/torch/optim/adamw.py:1)", f"_fn ({SITE}/torch/_dynamo/eval_frame.py:2)"), "optimizer"),
        ((), "the loop itself"),
    ],
)  # fmt: skip
def test_a_step_is_told_apart_by_pass_and_by_function(frames, part) -> None:
    assert sampled.part([stacks._split(frame) for frame in frames]) == part


def test_a_loop_without_a_loader_has_its_step_split(empty) -> None:
    """`get_batch` makes its batches in the step, and no frame of torch's tells that they are batches."""
    empty.process(state="none", why=ATTACHED)
    for t in range(1, 21):
        empty.at = t * 1000
        empty.stack(TOP, "get_batch (/home/me/train.py:120)", count=24)
        empty.stack(TOP, f"Module._call_impl ({SITE}/torch/nn/modules/module.py:1)", count=15)
        empty.stack(TOP, f"Tensor.backward ({SITE}/torch/_tensor.py:1)", count=21)
    process = empty.features().processes[0]
    assert process.step_parts == pytest.approx({"get_batch": 0.4, "backward": 0.35, "forward": 0.25})
    assert process.ledger == pytest.approx({"step": process.wall})
