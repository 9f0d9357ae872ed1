"""What is said of a training that was only looked at from outside."""

import msgspec

from gputune.core.sample import ATTACHED
from gputune.features import Frame
from gputune.report.attached import sentence
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, build


def looked_at(features, process, **facts):
    told = {
        "wall": 60.0,
        "ledger": {"loader.wait": 34.8, "step": 24.0, "checkpoint": 1.2},
        "margins": {"loader.wait": 0.042, "step": 0.04, "checkpoint": 0.001},
        "looks": 20,
        "stack_samples": 1220,
        "frames": (Frame(where="train.py:30", function="main", share=0.7, compute=True),),
        "loop": 0.0,
        "batches": 0,
        "samples": 0,
        "optimizer_steps": 0,
        "loaders": (),
        "guest": ATTACHED,
    }
    run = features(wall=60.0, devices=(), exit_code=None, processes=(process(**{**told, **facts}),))
    return build(run, [], overhead=Overhead())


def test_the_ledger_says_how_sure_it_is(features, process) -> None:
    verdict = looked_at(features, process)
    assert [(row.span, row.share, row.margin) for row in verdict.ledger] == [
        ("loader.wait", 0.58, 0.042),
        ("step", 0.4, 0.04),
        ("checkpoint", 0.02, 0.001),
    ]
    said = " ".join(render(verdict, width=80, run_folder="run").split())
    assert "from 1,220 stacks in 20 looks: loader.wait 58% ± 4, step 40% ± 4, checkpoint 2% ± 1 (95%)" in said
    assert "most at train.py:30 in main, 70%" in said
    assert "next: start it with `gputune watch -- CMD`" in said
    assert "not seen from inside" not in said
    assert "let it run longer" not in said


def test_with_few_looks_it_says_so(features, process) -> None:
    said = render(looked_at(features, process, margins={}, looks=1, stack_samples=40), width=80)
    assert "from 40 stacks in 1 look, too few to say how sure that is" in " ".join(said.split())


def test_with_few_looks_it_says_how_long_takes_enough_of_them(features, process) -> None:
    few = looked_at(features, process, margins={}, looks=2, stack_samples=119)
    said = " ".join(render(few, width=80).split())
    assert "how sure that is: that takes 3 looks, at this rate `--for 90s`" in said
    twice = msgspec.structs.replace(few, processes=few.processes * 2)
    assert "that takes 3 looks at each process, at this rate `--for 180s`" in sentence(twice)


def test_without_stacks_nothing_is_said_of_its_time(features, process) -> None:
    verdict = looked_at(features, process, ledger={"step": 60.0}, margins={}, looks=0, stack_samples=0, frames=())
    assert verdict.ledger == []
    assert "nothing can be said of its time" in render(verdict, width=80)


def test_a_training_that_gputune_started_has_no_margins(features) -> None:
    verdict = build(features(), [], overhead=Overhead())
    assert verdict.attached is None
    assert all(row.margin is None for row in verdict.ledger)


def test_a_step_of_several_parts_is_split(features, process) -> None:
    parts = {"get_batch": 0.22, "backward": 0.1, "forward": 0.07, "save": 0.001}
    verdict = looked_at(features, process, step_parts=parts)
    assert [(row.part, row.share) for row in verdict.attached.step][:2] == [("get_batch", 0.22), ("backward", 0.1)]
    said = " ".join(render(verdict, width=80, run_folder="run").split())
    assert "(95%); of the step get_batch 22%, backward 10%, forward 7%; most at" in said
    assert "of the step" not in sentence(looked_at(features, process, step_parts={"forward": 0.4}))
