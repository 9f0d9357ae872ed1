"""Which lines of a step run plain Python: looks at who holds the interpreter, beside the ordinary ones."""

import pytest

LIB = "/venv/lib/python3.11/site-packages"
NEXT = f"_BaseDataLoaderIter.__next__ ({LIB}/torch/utils/data/dataloader.py:700)"
STEP = f"Adam.step ({LIB}/torch/optim/adam.py:230)"
CALL = f"Module._call_impl ({LIB}/torch/nn/modules/module.py:1780)"
BACKWARD = f"Tensor.backward ({LIB}/torch/_tensor.py:620)"
LINEAR = f"Linear.forward ({LIB}/torch/nn/modules/linear.py:120)"
JSON = "_iterencode (/usr/lib/python3.11/json/encoder.py:430)"
GET = "Queue.get (/usr/lib/python3.11/queue.py:171)"
TRACE = f"format_stack ({LIB}/torch/fx/traceback.py:266)"


def main(line: int) -> str:
    return f"main (/home/me/train.py:{line})"


@pytest.fixture
def looped(story):
    """A loop from line 10, with its model at 12, backward pass at 14 and optimizer at 15; and 30 looks elsewhere."""
    story.iterator()
    story.batch()
    story.stack(main(10), NEXT, count=10)
    story.stack(main(12), CALL, "Net.forward (/home/me/net.py:40)", CALL, LINEAR, count=20)
    story.stack(main(14), BACKWARD, count=20)
    story.stack(main(15), STEP, count=10)
    story.stack(count=30, held=True)
    return story


def told(story) -> list[tuple[str, str, str, float]]:
    (process,) = story.features().processes
    return [(line.where, line.calls, line.side, round(line.share, 3)) for line in process.interpreted]


def test_a_line_between_the_model_and_the_backward_pass_is_told_with_what_it_calls(looped) -> None:
    looped.stack(main(13), "confusion (/home/me/metrics.py:5)", count=40)
    looped.stack(main(13), "confusion (/home/me/metrics.py:6)", count=18, held=True)
    looped.stack(main(13), "confusion (/home/me/metrics.py:5)", "pairs (/home/me/metrics.py:9)", count=12, held=True)
    assert told(looped) == [("train.py:13", "confusion", "between", 0.5)]
    assert looped.features().processes[0].held_looks == 60


def test_a_library_that_holds_the_interpreter_is_plain_python_and_a_span_is_none(looped) -> None:
    looped.stack(main(13), JSON, count=40)
    looped.stack(main(13), JSON, count=20, held=True)
    looped.stack(main(13), "save (/venv/torch/serialization.py:900)", count=10, held=True)
    assert told(looped) == [("train.py:13", "", "between", 0.333)]


def test_what_runs_inside_of_a_model_is_told_by_the_line_that_is_plain(looped) -> None:
    inside = (main(12), CALL, "Net.forward (/home/me/net.py:38)", "tokens (/home/me/net.py:7)")
    looped.stack(*inside, count=40)
    looped.stack(*inside, count=30, held=True)
    assert told(looped) == [("net.py:38", "tokens", "inside", 0.5)]  # however little torch does beside it


def test_a_line_that_calls_torchs_functions_holds_the_interpreter_too_seldom(looped) -> None:
    """A loop over small tensors: of 40 of 100 looks a third are at the calls, the others at torch's work."""
    looped.stack(main(12), CALL, "Net.forward (/home/me/net.py:39)", count=40)
    looped.stack(main(12), CALL, "Net.forward (/home/me/net.py:39)", count=8, held=True)
    looped.stack(count=22, held=True)
    assert told(looped) == []


@pytest.mark.parametrize("line", [11, 17])
def test_what_comes_before_the_model_or_behind_the_step_is_plain_too_and_no_part_of_the_step(looped, line) -> None:
    looped.stack(main(line), "work (/home/me/work.py:5)", count=40)
    looped.stack(main(line), "work (/home/me/work.py:5)", count=30, held=True)
    assert told(looped) == [(f"train.py:{line}", "work", "", 0.5)]


def test_torchs_own_frames_are_no_plain_python_of_the_users(looped) -> None:
    looped.stack(main(12), CALL, LINEAR, count=40)
    looped.stack(main(12), CALL, LINEAR, count=30, held=True)
    assert told(looped) == []


def test_a_simulator_between_the_passes_of_a_policy_is_left_alone(story) -> None:
    """It is played in one function, and trained in another: both are called from one loop."""
    play, train = "play (/home/me/rl.py:{})", "train (/home/me/rl.py:{})"
    story.step()
    story.stack(main(20), play.format(5), CALL, LINEAR, count=20)
    story.stack(main(20), play.format(6), "Env.step (/home/me/env.py:3)", count=40)
    story.stack(main(21), train.format(30), CALL, LINEAR, count=20)
    story.stack(main(21), train.format(31), BACKWARD, count=20)
    story.stack(main(20), play.format(6), "Env.step (/home/me/env.py:3)", count=24, held=True)
    story.stack(count=36, held=True)
    assert told(story) == [("rl.py:6", "Env.step", "", 0.4)]


def test_looks_at_who_holds_the_interpreter_count_for_nothing_else(looped) -> None:
    before = looped.features().processes[0]
    looped.stack(main(13), count=60, held=True)
    after = looped.features().processes[0]
    assert (after.frames, after.stack_samples, after.loop_stacks) == (
        before.frames,
        before.stack_samples,
        before.loop_stacks,
    )


def test_waiting_at_a_queue_of_ones_own_is_told_and_that_of_a_loader_is_not(looped) -> None:
    looped.stack(main(11), "Feeder.next (/home/me/feed.py:9)", GET, count=140)
    looped.stack(main(10), NEXT, GET, count=60)
    (process,) = looped.features().processes
    assert process.looked == 260
    assert [(line.where, line.function, round(line.share, 3)) for line in process.queues] == [
        ("feed.py:9", "Feeder.next", round(140 / 260, 3))
    ]


@pytest.mark.parametrize(
    "waits",
    [
        "Future.result (/usr/lib/python3.11/concurrent/futures/_base.py:451)",
        "IMapIterator.next (/usr/lib/python3.11/multiprocessing/pool.py:861)",
    ],
)
def test_so_is_waiting_for_what_a_pool_was_told_to_do(looped, waits: str) -> None:
    wait = "Condition.wait (/usr/lib/python3.11/threading.py:327)"
    looped.stack(main(11), "Feeder.next (/home/me/feed.py:9)", waits, wait, count=140)
    (process,) = looped.features().processes
    assert [(line.where, line.function) for line in process.queues] == [("feed.py:9", "Feeder.next")]


def test_what_clears_gradients_is_no_forward_pass(looped) -> None:
    """Then a line before it, between the model and the backward pass, is between them."""
    other = f"_DisableDynamo.__call__ ({LIB}/torch/_dynamo/eval_frame.py:900)"
    looped.stack(main(14), other, count=10)
    looped.stack(main(13), "count (/home/me/train.py:3)", count=20)
    looped.stack(main(13), "count (/home/me/train.py:3)", count=10, held=True)
    assert [side for *_, side, _ in told(looped)] == ["between"]


def test_torchs_own_python_that_holds_the_interpreter_is_counted(looped) -> None:
    looped.stack(main(12), CALL, LINEAR, count=20, held=True)
    looped.stack(main(10), NEXT, LINEAR, count=20, held=True)  # a loader's: not a step's
    looped.stack(main(11), count=30, held=True)
    (process,) = looped.features().processes
    assert process.in_torch == pytest.approx(20 / 100)


def test_stacks_that_torch_writes_down_are_counted(looped) -> None:
    looped.stack(main(12), CALL, LINEAR, TRACE, "extract (/usr/lib/python3.11/traceback.py:383)", count=20)
    (process,) = looped.features().processes
    assert (process.traces, process.looked) == (0.25, 80)


def test_waiting_at_a_queue_is_no_step(looped) -> None:
    looped.at += 900
    looped.step()
    looped.stack(main(11), GET, count=60)
    (process,) = looped.features().processes
    assert process.ledger["queue.wait"] == pytest.approx(0.5 * process.loop)
    assert process.in_loop["queue.wait"] == process.ledger["queue.wait"]
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert 0.05 < process.margins["queue.wait"] < 0.12


def test_a_few_looks_at_a_queue_say_nothing_of_the_step(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(11), GET, count=6)
    story.epoch(4)
    assert "queue.wait" not in story.features().processes[0].ledger


def aside(story) -> list[tuple[str, str, str, float]]:
    (process,) = story.features().processes
    return [(line.where, line.function, line.side, round(line.share, 2)) for line in process.aside]


def test_lines_that_train_nothing_are_told_with_where_they_stand(looped) -> None:
    norm = f"Tensor.norm ({LIB}/torch/_tensor.py:900)"
    clip = "clip (/home/me/train.py:5)"
    looped.stack(main(11), f"stack ({LIB}/torch/functional.py:9)", count=10)  # ahead of the model and backward pass
    looped.stack(main(14), clip, norm, count=15)  # on one line with the backward pass: between, for all that is known
    looped.stack(main(16), count=15)
    assert aside(looped) == [
        ("train.py:5", "clip", "", 0.15),
        ("train.py:16", "main", "behind", 0.15),
        ("train.py:11", "main", "ahead", 0.1),
    ]


def test_on_the_way_to_a_pass_or_in_a_library_no_line_is_aside(looped) -> None:
    looped.stack(main(12), count=10)  # the line that calls the model: its loss, or the call itself
    looped.stack(main(13), f"cross_entropy ({LIB}/torch/nn/functional.py:9)", count=10)
    looped.stack(main(14), f"unscale_ ({LIB}/torch/amp/grad_scaler.py:9)", count=10)
    looped.stack(main(14), f"clip_grad_norm_ ({LIB}/torch/nn/utils/clip_grad.py:9)", count=10)
    looped.stack(main(13), JSON, count=10)
    assert aside(looped) == []


def test_where_no_model_is_seen_nothing_is_aside(story) -> None:
    story.iterator()
    story.batch()
    story.stack(main(12), count=20)
    story.stack(main(14), BACKWARD, count=20)
    assert aside(story) == []
