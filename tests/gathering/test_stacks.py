"""Which places in the user's code the stacks of the training thread lead to."""

import pytest

from gputune.gathering.stacks import place

MAIN = "main (/home/me/train.py:30)"
TORCH = "forward (/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:114)"
LOADER = "__next__ (/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:700)"
NUMPY = "sort (/venv/lib/python3.11/site-packages/numpy/core.py:9)"


def test_the_innermost_frame_of_the_users_own_code_is_the_place() -> None:
    assert place((MAIN, "augment (/home/me/data.py:12)", NUMPY)) == ("data.py:12", "augment", False)


def test_work_under_torchs_modules_computes() -> None:
    assert place((MAIN, TORCH)) == ("train.py:30", "main", True)


def test_waiting_in_next_says_nothing_about_the_loop() -> None:
    assert place((MAIN, LOADER)) is None


def test_what_the_ledger_has_as_a_span_is_left_out() -> None:
    assert place((MAIN, "save (/venv/lib/python3.11/site-packages/torch/serialization.py:1)")) is None


@pytest.mark.parametrize("frames", [(), ("nonsense",), (NUMPY,), ("<module> (<string>:1)",)])
def test_stacks_without_any_of_the_users_code_have_no_place(frames) -> None:
    assert place(frames) is None


def test_shares_are_of_the_stacks_that_have_a_place(story) -> None:
    story.iterator()
    story.batch()
    story.stack(MAIN, TORCH, count=6)
    story.stack("augment (/home/me/data.py:12)", count=2)
    story.stack(MAIN, LOADER, count=100)
    process = story.features().processes[0]
    assert process.stack_samples == 8
    assert [(f.where, f.share, f.compute) for f in process.frames] == [
        ("train.py:30", 0.75, True),
        ("data.py:12", 0.25, False),
    ]


def test_stacks_at_the_line_that_asks_for_batches_are_of_the_last_one_that_goes(story) -> None:
    """And what is called there is not, nor is another line: nobody asks for batches in it."""
    story.iterator()
    story.batch()
    story.stack(MAIN, count=3)
    story.stack(MAIN, LOADER, count=50)
    story.stack(MAIN, NUMPY, count=2)
    story.stack("main (/home/me/train.py:31)", count=5)
    process = story.features().processes[0]
    assert process.letting_go == pytest.approx(0.3)
    assert {f.where: f.asks for f in process.frames} == {"train.py:30": True, "train.py:31": False}


def test_stacks_of_another_process_are_not_this_ones(story) -> None:
    story.iterator()
    story.batch()
    story.stack(MAIN, pid=999)
    assert story.features().processes[0].frames == ()


def test_of_a_process_that_was_not_seen_from_inside_every_stack_counts(story) -> None:
    story.process(state="none", why="it runs with -I")
    story.stack(MAIN, TORCH, count=6)
    story.stack(MAIN, LOADER, "load (/home/me/data.py:12)", count=2)
    process = story.features().processes[0]
    assert process.loop == 0
    assert [(f.where, f.share) for f in process.frames] == [("train.py:30", 0.75), ("data.py:12", 0.25)]


def test_the_line_of_a_batch_sampler_is_told_and_not_that_of_a_dataset(story) -> None:
    story.iterator()
    story.batch()
    story.stack(MAIN, LOADER, "Budget.batches (/home/me/sampler.py:51)", count=20)
    story.stack(MAIN, LOADER, "Budget.order (/home/me/sampler.py:40)", NUMPY, count=3)
    fetch = "fetch (/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:54)"
    story.stack(MAIN, LOADER, fetch, "__getitem__ (/home/me/data.py:12)", count=90)
    story.stack(MAIN, LOADER, count=90)
    assert story.features().processes[0].sampler == "sampler.py:51"


EXPORT = "export (/home/me/train.py:90)"


def test_what_lies_behind_the_loops_end_is_no_step(story) -> None:
    """Whether the loop is over shows in what follows: then it was one more pause."""
    story.iterator()
    story.batch()
    story.stack(MAIN, count=3)
    story.at += 60_000
    story.stack(EXPORT, count=50)
    assert [frame.where for frame in story.features().processes[0].frames] == ["train.py:30"]
    story.batch()
    assert {frame.where for frame in story.features().processes[0].frames} == {"train.py:30", "train.py:90"}


def test_stacks_that_are_told_before_the_rounds_they_were_taken_in_are_of_these(story) -> None:
    story.iterator()
    story.batch()
    story.at += 500
    story.stack(MAIN, count=3)
    story.stack(MAIN, held=True)
    story.batch()
    process = story.features().processes[0]
    assert (process.stack_samples, process.held_looks) == (3, 1)


def test_what_lies_before_the_loop_counts_only_while_there_is_none(story) -> None:
    story.stack(EXPORT, count=50)
    story.at += 500
    story.iterator()
    story.batch()
    story.stack(MAIN, count=3)
    assert [frame.where for frame in story.features().processes[0].frames] == ["train.py:30"]
