"""work-after-step speaks when a loop does something else than training behind the optimizer's step."""

from dataclasses import replace

import pytest

from gputune.advisors.work_after_step import advise
from gputune.features import Afterwork, Interpreted

HISTORY = Afterwork(where="train.py:15", function="main", share=0.7, torch=0.0, apart=0.69, library="json")
METRIC = Afterwork(where="train.py:16", function="main", share=0.5, torch=0.0, apart=0.2, library="numpy")
BARE = Afterwork(where="train.py:17", function="main", share=0.5, torch=0.0, apart=0.0)
AVERAGE = Afterwork(where="train.py:18", function="main", share=0.5, torch=0.2, apart=0.2, library="random")
SHORT = Afterwork(where="train.py:19", function="main", share=0.05, torch=0.0, apart=0.05, library="json")


def loop(
    plain, *lines: Afterwork, timed: float = 0.014, steps: int = 100, stacks: int = 300, stepping: float = 0.05, **more
):
    """A loop of 20 ms a step, of which `timed` s come after the optimizer's step, with these lines in its stacks.

    `stepping` is the share of the stacks in that step.
    """
    process = replace(
        plain.processes[0], after_step=(timed,) * steps, afterwork=lines, loop_stacks=stacks, stepping=stepping, **more
    )
    return replace(plain, processes=(process,))


@pytest.fixture
def ordinary(run):
    """Workers that are never late."""
    return run(num_workers=2, cpu=0.001, waits=(0.0001,), step=0.020, step_cpu=0.020)


def test_is_silent_where_nothing_comes_after_the_step(ordinary) -> None:
    assert list(advise(ordinary)) == []
    assert list(advise(loop(ordinary, timed=0.0))) == []


def test_is_silent_of_time_behind_the_step_in_which_no_stack_shows_a_line(ordinary) -> None:
    """And it lives: so few stacks leave room for a share of which they show nothing."""
    assert list(advise(loop(ordinary, stacks=12))) == []
    assert list(advise(loop(ordinary, stacks=12, stepping=0.0))) == []


def test_is_silent_with_a_few_numbers_that_are_written_down(ordinary) -> None:
    assert list(advise(loop(ordinary, SHORT, timed=0.001))) == []


def without_loader(plain, *, plainly: tuple[float, float], on_weights: float | None = 0.0, seconds: float = 0.012):
    """Steps of 20 ms, `seconds` s of them before the model, and the shares of its stacks behind the step and not."""
    line = Afterwork(where="train.py:30", function="main", share=plainly[0], torch=0.0, apart=0.0, calls="Replay.rank")
    process = replace(
        plain.processes[0], loaders=(), batches=0, samples=0, optimizer_steps=400, loop=8.0, cpu=1.0,
        batch_gotten=False, before_forward=(seconds,) * 30, on_weights=on_weights, afterwork=(line,), loop_stacks=300,
        stepping=0.05, plain=plainly,
    )  # fmt: skip
    return replace(plain, processes=(process,))


def test_is_silent_of_an_average_of_the_weights_that_takes_no_longer_than_the_optimizers_step(ordinary) -> None:
    for line in (BARE, AVERAGE):
        assert list(advise(loop(ordinary, replace(line, share=0.3), timed=0.006, stepping=0.28))) == []


def test_of_work_that_may_be_on_the_weights_what_is_beyond_one_pass_over_them_counts(ordinary) -> None:
    """20 ms, of which 10 lie behind the step, and 2 in it."""
    for line in (BARE, AVERAGE):
        (finding,) = advise(loop(ordinary, replace(line, calls="Averages.update"), timed=0.010, stepping=0.1))
        assert finding.where == line.where
        assert "10 ms a step" in finding.says
        assert "(Averages.update); the optimizer's step takes 2 ms" in finding.says
        assert "_foreach_lerp_" in finding.do
        assert finding.speedup.likely == pytest.approx(20 / 12, rel=0.1)
        assert finding.speedup.low < 20 / 12
        assert finding.speedup.high > 2
        assert finding.effect == "changes-rounding"


@pytest.mark.parametrize("calls", ["", "History.append", "schema", "swap"])
def test_what_shows_nothing_of_weights_is_not_called_an_average_of_them(ordinary, calls: str) -> None:
    (finding,) = advise(loop(ordinary, replace(BARE, calls=calls), timed=0.010, stepping=0.1))
    assert finding.do.startswith("do it every few steps, add it up instead of starting anew")
    assert "; if it is an average of the weights: in place" in finding.do
    assert finding.effect == "unknown"
    assert finding.because


@pytest.mark.parametrize("calls", ["EMA.update", "update_average", "model_ema"])
def test_what_is_named_an_average_is_taken_for_one(ordinary, calls: str) -> None:
    (finding,) = advise(loop(ordinary, replace(BARE, calls=calls), timed=0.010, stepping=0.1))
    assert finding.do.startswith("if it is an average of the weights: in place")
    assert finding.effect == "changes-rounding"


def test_a_line_that_holds_the_interpreter_is_no_average_of_the_weights(ordinary) -> None:
    plain = loop(ordinary, BARE, timed=0.010, interpreted=(Interpreted(where=BARE.where, function="main", share=0.4),))
    (finding,) = advise(plain)
    assert f"{BARE.where} (plain Python)" in finding.says
    assert "times less often" in finding.do
    (unsure,) = advise(loop(ordinary, BARE, timed=0.010))
    assert finding.speedup.low > unsure.speedup.low


def test_is_silent_of_what_goes_through_a_model(ordinary) -> None:
    """A second model may be trained by hand there, or a teacher asked."""
    assert list(advise(loop(ordinary, replace(BARE, torch=0.5, model=0.3), timed=0.010))) == []


def test_is_silent_of_what_may_be_a_wait_for_a_device(ordinary, device) -> None:
    busy, idle = (replace(loop(ordinary, BARE, timed=0.010), devices=(device(busy=share),)) for share in (0.8, 0.02))
    assert list(advise(busy)) == []
    assert [finding.where for finding in advise(idle)] == [BARE.where]
    unknown = replace(ordinary, devices=(device(busy=None),))
    assert list(advise(loop(unknown, BARE, timed=0.010))) == []
    assert list(advise(loop(ordinary, BARE, timed=0.010, torch="2.7.1+xpu"))) == []


def test_the_work_that_takes_most_is_named(ordinary) -> None:
    (finding,) = advise(loop(ordinary, replace(HISTORY, share=0.2, apart=0.2), BARE))
    assert finding.where == BARE.where
    (finding,) = advise(loop(ordinary, HISTORY, replace(BARE, share=0.2), timed=0.018))
    assert finding.where == HISTORY.where


def test_without_a_loader_lines_below_the_step_are_told(run) -> None:
    (finding,) = advise(without_loader(run(), plainly=(0.6, 0.05)))
    assert finding.id == "work-after-step"
    assert finding.where == "train.py:30"
    assert "train.py:30 (Replay.rank)" in finding.says
    assert "if it makes the next batch, have a DataLoader do it" in finding.do
    assert finding.speedup.low < 1.9 < finding.speedup.likely
    assert finding.speedup.likely == pytest.approx(20 / 8, rel=0.1)


def test_without_a_loader_it_is_silent_of_what_makes_the_batch_or_works_on_the_weights(run) -> None:
    assert list(advise(without_loader(run(), plainly=(0.05, 0.6)))) == []
    assert list(advise(without_loader(run(), plainly=(0.3, 0.3)))) == []
    assert list(advise(without_loader(run(), plainly=(0.6, 0.0), on_weights=None))) == []
    assert list(advise(without_loader(run(), plainly=(0.6, 0.0), on_weights=0.95))) == []
    assert list(advise(without_loader(run(), plainly=(0.6, 0.05), seconds=0.001))) == []


def test_is_silent_of_lines_that_lie_behind_the_loop(ordinary) -> None:
    """Stacks show them, but hardly any time passes between the step and the next batch."""
    assert list(advise(loop(ordinary, HISTORY, timed=0.0002))) == []


def test_is_silent_where_what_was_timed_is_that_of_other_lines(ordinary) -> None:
    """An average of the weights of 10 ms a step, and metrics at an epoch's end."""
    assert list(advise(loop(ordinary, HISTORY, BARE, timed=0.010, stepping=0.5))) == []


def test_is_silent_of_a_summary_around_the_loop_whose_own_lines_take_what_was_timed(ordinary) -> None:
    summary = replace(HISTORY, share=3.0, apart=3.0, around=True)
    (finding,) = advise(loop(ordinary, summary, METRIC, timed=0.010))
    assert finding.where == METRIC.where
    assert [finding.where for finding in advise(loop(ordinary, summary, BARE, timed=0.010))] == [BARE.where]


def test_lines_behind_the_loop_do_not_hide_what_others_take(ordinary) -> None:
    """An average of the weights of a third of each step, and a history that is written once, for as long as the loop.

    The loop's own 60 stacks: 20 in the average, 40 up to the step.
    """
    average = replace(BARE, share=20 / 120, torch=20 / 120)
    once = replace(HISTORY, share=60 / 120, apart=60 / 120)
    assert list(advise(loop(ordinary, average, once, timed=0.020 / 3, stacks=120, stepping=20 / 120))) == []


def test_names_a_line_around_a_method_that_does_a_round(ordinary) -> None:
    around = replace(HISTORY, share=7 / 3, apart=7 / 3, around=True)
    (finding,) = advise(loop(ordinary, around))
    assert finding.where == HISTORY.where
    assert finding.speedup.likely == pytest.approx(20 / 6, rel=0.1)


def test_is_silent_with_too_few_steps_or_stacks(ordinary) -> None:
    assert list(advise(loop(ordinary, HISTORY, steps=19))) == []
    assert list(advise(loop(ordinary, HISTORY, stacks=11))) == []


RARE = (*(0.0,) * 29, 0.420) * 10


def test_what_comes_once_in_thirty_steps_is_told_as_that(ordinary) -> None:
    (finding,) = advise(_with(loop(ordinary, replace(BARE, share=HISTORY.share)), after_step=RARE))
    assert "420 ms every 30 steps" in finding.says
    assert "times less often" in finding.do


def test_is_silent_of_what_came_once(ordinary) -> None:
    assert list(advise(_with(loop(ordinary, HISTORY), after_step=(*(0.0,) * 299, 4.2)))) == []


def test_is_silent_without_a_loader(ordinary) -> None:
    (process,) = loop(ordinary, HISTORY).processes
    alone = replace(process, loaders=(), batches=0, samples=0)
    assert list(advise(replace(ordinary, processes=(alone,)))) == []


def test_names_the_line_the_library_and_what_it_is_worth(ordinary) -> None:
    (finding,) = advise(loop(ordinary, HISTORY))
    assert finding.id == "work-after-step"
    assert finding.where == "train.py:15"
    assert "14 ms a step" in finding.says
    assert "train.py:15 (json)" in finding.says
    assert finding.speedup.likely == pytest.approx(20 / 6, rel=0.1)
    assert finding.speedup.low < finding.speedup.likely < finding.speedup.high
    assert "train.py:15" in finding.falsified_by
    assert finding.evidence["share"] == pytest.approx(0.7, rel=0.02)


def test_calls_in_c_at_the_same_line_count_with_it(ordinary) -> None:
    (finding,) = advise(loop(ordinary, METRIC, timed=0.010))
    assert finding.where == "train.py:16"
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)


def test_promises_no_more_than_the_loader_can_deliver(run) -> None:
    slow = run(num_workers=1, cpu=0.018, waits=(0.0001,), step=0.020, step_cpu=0.020)
    (finding,) = advise(loop(slow, HISTORY))
    assert finding.speedup.likely < 1.25


def test_where_no_stack_met_the_step_only_what_surely_is_no_work_on_the_weights_is_told(ordinary) -> None:
    assert list(advise(loop(ordinary, HISTORY, stepping=0.0))) != []
    assert list(advise(loop(ordinary, BARE, stepping=0.0))) == []


def test_a_step_too_short_for_the_stacks_is_timed_from_the_end_of_the_backward_pass(ordinary) -> None:
    run = loop(ordinary, BARE, stepping=0.0)
    batches = run.processes[0].batches
    (finding,) = advise(_with(run, optimizing=0.0005 * batches))
    assert "the optimizer's step takes 0.5 ms" in finding.says
    assert list(advise(_with(run, optimizing=0.02 * batches))) == []  # it may be an average, and takes no longer


def _with(run, **more):
    return replace(run, processes=[replace(run.processes[0], **more)])


def test_a_few_stacks_make_it_less_sure(ordinary) -> None:
    (many,), (few,) = (list(advise(loop(ordinary, METRIC, timed=0.010, stacks=n))) for n in (3000, 30))
    assert few.speedup.low < many.speedup.low
    assert few.speedup.likely == pytest.approx(many.speedup.likely)


def test_where_no_other_line_lies_behind_the_step_the_clock_is_believed_before_the_stacks(ordinary) -> None:
    """Half of 20 ms by the clock, 34 % of the stacks; where they show a tenth it is something else that was timed."""
    (finding,) = advise(loop(ordinary, replace(HISTORY, share=0.34, apart=0.3), timed=0.010, stacks=600))
    assert finding.evidence["each_s"] == pytest.approx(0.010)
    assert finding.speedup.low < 1.6
    (other,) = advise(loop(ordinary, replace(HISTORY, share=0.15, apart=0.15), timed=0.010, stacks=600))
    assert other.evidence["each_s"] < 0.004


def test_a_loop_without_an_end_promises_nothing(ordinary) -> None:
    (process,) = loop(ordinary, HISTORY).processes
    assert list(advise(replace(ordinary, processes=(replace(process, loop=0.0),)))) == []
