"""Which lines of a loop its stacks show between the optimizer's step and the next batch, and how long that takes."""

import pytest

from gputune.core.events import ForwardCode, Kind, SpanCode

LIB = "/venv/lib/python3.11/site-packages"
NEXT = f"_BaseDataLoaderIter.__next__ ({LIB}/torch/utils/data/dataloader.py:700)"
STEP = f"Adam.step ({LIB}/torch/optim/adam.py:230)"
SCHEDULER = f"LRScheduler.step ({LIB}/torch/optim/lr_scheduler.py:150)"
AVERAGE = f"AveragedModel.update_parameters ({LIB}/torch/optim/swa_utils.py:300)"
JSON = "_iterencode (/usr/lib/python3.11/json/encoder.py:430)"
NUMPY = f"argsort ({LIB}/numpy/core/fromnumeric.py:1133)"
UPDATE = "Averages.update (/home/me/average.py:36)"
CALL = f"Module._call_impl ({LIB}/torch/nn/modules/module.py:1780)"
BACKWARD = f"Tensor.backward ({LIB}/torch/_tensor.py:620)"
BAR = f"tqdm.set_postfix ({LIB}/tqdm/std.py:1400)"


def main(line: int) -> str:
    return f"main (/home/me/train.py:{line})"


def looped(story):
    """A loop from line 10, whose optimizer steps at line 15."""
    story.iterator()
    story.batch()
    story.stack(main(10), NEXT, count=10)
    story.stack(main(15), STEP, count=20)
    story.stack(main(12), count=20)
    return story


def lines(story, *, around: bool = False) -> list[tuple[str, float, float, float]]:
    """Lines of the loop's own function and of what it calls; those `around` it on demand."""
    (process,) = story.features().processes
    told = [a for a in process.afterwork if a.around is around]
    return [(a.where, round(a.share, 3), round(a.torch, 3), round(a.apart, 3)) for a in told]


def test_a_line_below_the_optimizers_step_comes_after_it(story) -> None:
    looped(story).stack(main(17), JSON, count=60)
    assert lines(story) == [("train.py:17", 0.6, 0.0, 0.6)]
    (process,) = story.features().processes
    assert process.loop_stacks == 100
    assert process.afterwork[0].library == "json"


@pytest.mark.parametrize("twice", [False, True])
def test_of_a_step_too_short_for_any_stack_the_models_lines_tell_what_comes_after_it(story, twice) -> None:
    """But of two loops that go through a model nobody knows which one trains."""
    story.iterator()
    story.batch()
    story.stack(main(10), NEXT, count=10)
    story.stack(main(14), BACKWARD, count=20)
    story.stack(main(12), CALL, count=20)
    story.stack(main(17), JSON, count=60)
    if twice:
        story.stack(main(30), "distil (/home/me/other.py:3)", NEXT, count=5)
        story.stack(main(30), "distil (/home/me/other.py:4)", CALL, count=5)
    assert lines(story) == ([] if twice else [("train.py:17", 0.6, 0.0, 0.6)])


def test_lines_before_the_step_and_before_the_loop_do_not(story) -> None:
    looped(story).stack(main(13), NUMPY, count=60)
    story.stack(main(5), NUMPY, count=600)
    assert lines(story) == []
    assert story.features().processes[0].loop_stacks == 100


def test_a_copy_of_the_model_is_apart_from_torchs_work_on_it(story) -> None:
    copied = "deepcopy (/usr/lib/python3.11/copy.py:153)", f"Tensor.__deepcopy__ ({LIB}/torch/_tensor.py:120)"
    looped(story).stack(main(17), *copied, count=60)
    assert lines(story) == [("train.py:17", 0.6, 0.0, 0.6)]


def test_calls_in_c_count_with_the_line_that_calls_a_library_as_well(story) -> None:
    looped(story).stack(main(16), count=30)
    story.stack(main(16), "roc_auc (/home/me/train.py:4)", NUMPY, count=20)
    story.stack(main(16), "roc_auc (/home/me/train.py:4)", count=10)
    assert lines(story) == [("train.py:16", 0.6, 0.0, 0.2)]


def test_the_step_may_lie_in_a_function_of_its_own(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(30), "train (/home/me/train.py:10)", NEXT, count=10)
    story.stack(main(30), "train (/home/me/train.py:12)", "fit (/home/me/train.py:3)", STEP, count=20)
    story.stack(main(30), "train (/home/me/train.py:12)", "fit (/home/me/train.py:2)", NUMPY, count=20)
    story.stack(main(30), "train (/home/me/train.py:12)", "fit (/home/me/train.py:4)", NUMPY, count=20)
    story.stack(main(30), "train (/home/me/train.py:14)", "note (/home/me/log.py:4)", JSON, count=20)
    story.stack(main(31), "summary (/home/me/log.py:9)", JSON, count=500)  # between epochs
    assert sorted(lines(story)) == [("train.py:14", 0.25, 0.0, 0.25), ("train.py:4", 0.25, 0.0, 0.25)]
    assert [line[0] for line in lines(story, around=True)] == ["train.py:31"]


def test_one_line_may_ask_for_the_batch_and_call_what_makes_the_step(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(30), NEXT, count=10)
    story.stack(main(30), "Trainer.step (/home/me/train.py:11)", STEP, count=20)
    story.stack(main(30), "Trainer.step (/home/me/train.py:10)", count=20)
    story.stack(main(30), "Trainer.step (/home/me/train.py:12)", "Trainer.note (/home/me/train.py:4)", JSON, count=20)
    story.stack(main(30), "Stats.add (/home/me/train.py:90)", NUMPY, count=20)  # its place on the line is not known
    assert lines(story) == [("train.py:12", 0.25, 0.0, 0.25)]


def test_the_samples_that_the_users_own_code_makes_are_no_frames_of_the_loop(story) -> None:
    looped(story).stack(main(10), NEXT, "Words.__getitem__ (/home/me/data.py:8)", count=90)
    story.stack(main(17), JSON, count=60)
    assert lines(story) == [("train.py:17", 0.6, 0.0, 0.6)]


def test_the_loop_may_lie_around_a_method_that_gets_its_batch_itself(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(30), "Trainer.round (/home/me/train.py:10)", NEXT, count=10)
    story.stack(main(30), "Trainer.round (/home/me/train.py:12)", STEP, count=20)
    story.stack(main(28), JSON, count=500)  # before the loop, or after the step before: nobody knows
    story.stack(main(31), "history (/home/me/log.py:4)", JSON, count=30)
    story.stack("other (/home/me/other.py:99)", JSON, count=500)
    assert lines(story) == []
    assert lines(story, around=True) == [("train.py:31", 1.5, 0.0, 1.5)]


def test_a_second_loop_below_the_first_is_no_work_after_its_steps(story) -> None:
    story.iterator()
    story.batch()
    for line, count in ((30, 20), (60, 10)):
        story.stack(main(line), "train (/home/me/train.py:10)", NEXT, count=10)
        story.stack(main(line), "train (/home/me/train.py:12)", STEP, count=count)
        story.stack(main(line), "train (/home/me/train.py:14)", JSON, count=20)
    assert lines(story) == [("train.py:14", 0.5, 0.0, 0.5)]
    assert lines(story, around=True) == []


def test_what_calls_back_from_a_library_on_the_line_that_asks_for_batches_is_not_told(story) -> None:
    """As Lightning does: the step's closure calls the user's training_step, and its loop the user's hooks."""
    story.iterator()
    story.batch()
    fit = f"fit ({LIB}/lightning/loops/fit_loop.py:"
    story.stack(main(3), fit + "100)", NEXT, count=10)
    story.stack(main(3), fit + "110)", STEP, "Model.training_step (/home/me/train.py:20)", count=20)
    story.stack(main(3), fit + "120)", "Model.on_train_batch_end (/home/me/train.py:40)", JSON, count=60)
    story.stack(main(4), JSON, count=60)
    assert lines(story) == lines(story, around=True) == []


def test_a_batch_that_is_asked_for_at_the_end_of_the_loop_ends_it(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(20), NEXT, count=10)
    story.stack(main(15), STEP, count=20)
    story.stack(main(17), NUMPY, count=20)
    story.stack(main(12), NUMPY, count=20)
    story.stack(main(24), NUMPY, count=20)
    assert lines(story) == [("train.py:17", 0.25, 0.0, 0.25)]


def test_of_two_optimizers_the_later_step_counts(story) -> None:
    looped(story).stack(main(18), STEP, count=20)
    story.stack(main(17), NUMPY, count=20)
    story.stack(main(19), NUMPY, count=20)
    assert lines(story) == [("train.py:19", 0.2, 0.0, 0.2)]


def test_stacks_in_the_step_are_counted_too_and_whom_a_line_calls(story) -> None:
    looped(story).stack(main(17), "decorate (" + LIB + "/torch/utils/_contextlib.py:124)", UPDATE, count=60)
    (process,) = story.features().processes
    assert process.stepping == pytest.approx(0.2)
    assert process.afterwork[0].calls == "Averages.update"
    assert process.afterwork[0].model == 0


def test_the_step_of_an_optimizer_that_is_not_torchs_is_one(story) -> None:
    wrapper = f"Optimizer.profile_hook_step.<locals>.wrapper ({LIB}/torch/optim/optimizer.py:530)"
    story.iterator()
    story.batch()
    story.stack(main(10), NEXT, count=10)
    story.stack(main(15), wrapper, "Lion.step (/home/me/lion.py:40)", count=20)
    story.stack(main(12), count=20)
    story.stack(main(17), JSON, count=60)
    assert lines(story) == [("train.py:17", 0.6, 0.0, 0.6)]


def test_what_goes_through_a_model_after_the_step_is_known(story) -> None:
    looped(story).stack(main(17), CALL, "Net.forward (/home/me/net.py:4)", count=30)
    story.stack(main(18), BACKWARD, count=30)
    (process,) = story.features().processes
    assert [round(a.model, 3) for a in process.afterwork] == [0.3, 0.3]


def drawn(story):
    """A loop without a DataLoader, whose optimizer steps at line 15."""
    for number in range(12):
        story.step(10)
        story.record(Kind.FORWARD, story.at, story.at + 5, code=ForwardCode.NO_NEXT) if number else None
    story.stack(main(13), CALL, count=20)
    story.stack(main(14), BACKWARD, count=20)
    story.stack(main(11), "get_batch (/home/me/data.py:4)", count=10)
    return story


def test_without_a_loader_lines_tell_on_which_side_of_the_step_its_own_work_is(story) -> None:
    drawn(story).stack(main(15), STEP, count=20)
    story.stack(main(17), "Replay.rank (/home/me/replay.py:62)", count=30)
    assert lines(story) == [("train.py:17", 0.3, 0.0, 0.0)]
    (process,) = story.features().processes
    assert process.plain == pytest.approx((0.3, 0.1))
    assert process.stepping == pytest.approx(0.2)
    assert process.afterwork[0].calls == "Replay.rank"


def test_without_a_stack_in_the_step_the_models_lines_stand_for_it(story) -> None:
    drawn(story).stack(main(17), "Replay.rank (/home/me/replay.py:62)", count=50)
    (process,) = story.features().processes
    assert process.plain == pytest.approx((0.5, 0.1))


def test_without_stacks_in_the_model_either_nothing_is_told(story) -> None:
    story.step(10)
    story.stack(main(17), "Replay.rank (/home/me/replay.py:62)", count=50)
    (process,) = story.features().processes
    assert process.plain == (0.0, 0.0)
    assert process.afterwork == ()


def test_schedulers_and_averages_of_weights_are_torchs(story) -> None:
    looped(story).stack(main(16), SCHEDULER, count=30)
    story.stack(main(17), AVERAGE, count=30)
    assert lines(story) == [("train.py:16", 0.3, 0.3, 0.0), ("train.py:17", 0.3, 0.3, 0.0)]


def test_what_the_ledger_has_as_a_span_is_left_out(story) -> None:
    looped(story).stack(main(17), BAR, count=60)
    story.stack(main(18), "info (/usr/lib/python3.11/logging/__init__.py:1)", count=60)
    assert lines(story) == []


def test_without_stacks_in_next_no_loop_is_known(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(15), STEP, count=20)
    story.stack(main(17), JSON, count=60)
    assert lines(story) == []


def test_what_a_trainer_of_a_library_calls_is_no_line_of_the_users_loop(story) -> None:
    story.iterator()
    story.batch()
    fit = f"fit ({LIB}/lightning/loops/fit_loop.py:"
    story.stack(main(3), fit + "100)", NEXT, count=10)
    story.stack(main(3), fit + "110)", STEP, count=20)
    story.stack(main(3), fit + "120)", "on_train_batch_end (/home/me/train.py:40)", JSON, count=60)
    assert lines(story) == []


def test_the_time_after_a_step_leaves_spans_out(story) -> None:
    story.iterator()
    for _ in range(8):
        story.batch()
        story.step(10)
        story.span(SpanCode.LOGGING, 4)
        story.at += 3
    story.batch()
    (process,) = story.features().processes
    assert process.after_step == pytest.approx((0.003,) * len(process.after_step))
    assert len(process.after_step) >= 4


def test_batches_that_no_step_came_after_have_no_such_time(story) -> None:
    story.iterator()
    story.epoch(6)
    for _ in range(4):
        story.batch()
        story.at += 10
        story.batch()
        story.step(10)
        story.at += 6
    story.batch()
    (process,) = story.features().processes
    assert process.after_step[-7:] == pytest.approx((0.0, *(0.006, 0.0) * 3))


def test_a_step_is_told_once_where_two_loaders_take_turns(story) -> None:
    story.loader(id=2, where="train.py:42")
    story.iterator()
    story.iterator(2, 2)
    for _ in range(8):
        story.batch()
        story.batch(2)
        story.step(10)
        story.at += 6
    story.batch()
    story.batch(2)
    (process,) = story.features().processes
    assert process.after_step[-4:] == pytest.approx((0.0, 0.006) * 2)


def test_steps_are_told_after_the_batch_that_was_asked_for_next(story) -> None:
    """As a guest writes them: with the next batch's record, whose caches they share."""
    story.iterator()
    stepped = 0.0
    for number in range(8):
        story.batch()
        if number:
            story.record(Kind.STEP, stepped, stepped, a=1)
        stepped = story.at + 10
        story.at += 16
    (process,) = story.features().processes
    assert process.after_step == pytest.approx((0.006,) * len(process.after_step))
    assert len(process.after_step) >= 3


def outside(story) -> list[tuple[str, float, str]]:
    (process,) = story.features().processes
    return [(line.where, round(line.share, 2), line.calls) for line in process.outside]


def test_lines_around_the_loop_and_under_the_one_that_asks_for_batches_lie_between_passes(story) -> None:
    looped(story).stack(
        main(10), "get_loader (/home/me/data.py:62)", "Reviews.__init__ (/home/me/data.py:38)", count=60
    )
    story.stack(main(5), NUMPY, count=30)
    story.stack("<module> (/home/me/train.py:90)", count=10)  # nobody calls the loop from there
    story.stack(main(13), NUMPY, count=60)
    assert outside(story) == [("train.py:10", 0.67, "get_loader"), ("train.py:5", 0.33, "")]


def test_lines_beside_the_call_of_the_loops_function_lie_between_passes_as_well(story) -> None:
    story.iterator()
    story.batch()
    for line, below, count in ((10, NEXT, 10), (15, STEP, 20), (12, JSON, 20)):
        story.stack(main(40), f"epoch (/home/me/loop.py:{line})", below, count=count)
    story.stack(main(38), "load (/home/me/data.py:3)", count=30)
    story.stack(main(41), "validate (/home/me/data.py:9)", CALL, count=30)  # a model's
    assert outside(story) == [("train.py:38", 1.0, "load")]


def test_a_loop_that_a_library_runs_is_known_by_what_lies_below_the_line_that_calls_it(story) -> None:
    story.iterator()
    story.batch()
    fit, run = main(40), f"FitLoop.advance ({LIB}/lightning/pytorch/loops/fit_loop.py:450)"
    story.stack(fit, run, NEXT, count=20)
    story.stack(fit, run, STEP, count=20)
    story.stack(fit, run, CALL, "Net.training_step (/home/me/net.py:12)", CALL, count=40)
    story.stack(fit, run, "Net.training_step (/home/me/net.py:14)", count=3)
    assert story.features().processes[0].librarys


def test_a_loop_below_a_progress_bar_is_the_scripts_own(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(10), f"tqdm.__iter__ ({LIB}/tqdm/std.py:1181)", NEXT, count=20)
    story.stack(main(15), STEP, count=20)
    story.stack(main(12), CALL, count=20)
    assert not story.features().processes[0].librarys


def test_a_model_at_work_between_two_passes_is_told_as_that(story) -> None:
    looped(story).stack(main(31), "sample (/home/me/gan.py:7)", CALL, count=60)
    story.stack("<module> (/home/me/train.py:90)", count=10)
    (process,) = story.features().processes
    assert process.outside == ()  # below the loop in its own function: it may as well be behind the step
    story.stack(main(5), "sample (/home/me/gan.py:7)", CALL, count=60)
    (line,) = story.features().processes[0].outside
    assert (line.where, line.side) == ("train.py:5", "model")


def test_what_ran_before_the_loop_is_no_line_between_passes(story) -> None:
    story.stack(main(5), NUMPY, count=500)
    looped(story).stack(main(10), "get_loader (/home/me/data.py:62)", count=60)
    assert outside(story) == [("train.py:10", 1.0, "get_loader")]
