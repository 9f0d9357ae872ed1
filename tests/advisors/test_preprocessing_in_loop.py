"""preprocessing-in-loop speaks when data work runs between next() and the model."""

from dataclasses import replace

import pytest

from gputune.advisors.preprocessing_in_loop import advise
from gputune.features import Frame

WORK = (Frame(where="train.py:50", function="augment", share=0.4, compute=False),)


def without_loader(plain, *, cpu: float = 1.0, seconds: float = 8.0, steps: int = 400):
    """The same loop with a get_batch() of its own: no DataLoader, `cpu` cores in use."""
    process = replace(
        plain.processes[0], loaders=(), batches=0, samples=0, optimizer_steps=steps, loop=seconds, cpu=cpu,
        batch_gotten=False,
    )  # fmt: skip
    return replace(plain, processes=(process,))


def test_is_silent_when_the_model_runs_at_once(run) -> None:
    assert list(advise(run(before_forward=(0.0002,) * 30))) == []


def test_is_silent_with_too_few_sampled_steps(run) -> None:
    assert list(advise(run(before_forward=(0.008,) * 7))) == []
    assert list(advise(run(before_forward=(0.001, 0.015) * 9))) == []


def test_a_dozen_that_are_all_alike_are_enough(run) -> None:
    assert list(advise(run(before_forward=(0.008,) * 12)))


def test_is_silent_where_nothing_was_sampled(run) -> None:
    assert list(advise(run())) == []


def test_names_the_function_and_what_moving_it_buys(run) -> None:
    busy = run(num_workers=4, cpu=0.001, waits=(0.0005,), step=0.020, step_cpu=0.020, before_forward=(0.010,) * 30,
               frames=WORK)  # fmt: skip
    (finding,) = advise(busy)
    assert finding.id == "preprocessing-in-loop"
    assert "10 ms a step after next()" in finding.says
    assert "augment" in finding.says
    assert finding.where == "train.py:50"
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)


def test_what_a_librarys_trainer_does_between_batches_is_no_preprocessing(run) -> None:
    trained = run(num_workers=4, cpu=0.001, waits=(0.0005,), step=0.020, step_cpu=0.020, before_forward=(0.010,) * 30)
    assert list(advise(trained))
    (process,) = trained.processes
    assert list(advise(replace(trained, processes=(replace(process, librarys=True),)))) == []


def test_a_large_batch_that_goes_as_the_next_one_comes_is_no_preprocessing(run) -> None:
    """16 MB go in 4 ms of 20 a step, where a fifth of the stacks show it; 10 ms of work are more than that."""

    def loop(**more):
        large = {"num_workers": 4, "cpu": 0.001, "waits": (0.0005,), "step": 0.020, "step_cpu": 0.020}
        return run(**large, batch_bytes=16_000_000, **more)

    def seen(plain, share):
        return replace(plain, processes=(replace(plain.processes[0], stack_samples=50, letting_go=share),))

    held = loop(before_forward=(0.0045,) * 30)
    assert list(advise(held)) == []  # without stacks, by its bytes
    assert list(advise(seen(held, 0.2))) == []
    assert list(advise(seen(held, 0.0))) != []
    works = loop(before_forward=(0.018,) * 30, frames=WORK)
    for (finding,) in (advise(works), advise(seen(works, 0.2)), advise(seen(works, 0.9))):
        assert finding.where == "train.py:50"
        assert finding.evidence["before_forward_s"] >= 0.018 - 0.008


def test_promises_nothing_where_the_cpus_are_full_anyway(run) -> None:
    """One CPU: whoever does the work, it takes the same time."""
    full = run(num_workers=0, cpu=0.001, step=0.020, step_cpu=0.020, before_forward=(0.010,) * 30, cpus=1)
    (finding,) = advise(full)
    assert finding.speedup.likely == pytest.approx(1.0, abs=0.05)


def test_promises_nothing_where_the_device_is_busy_meanwhile(run, device) -> None:
    hidden = run(num_workers=4, cpu=0.001, waits=(0.0005,), step=0.020, step_cpu=0.020, before_forward=(0.010,) * 30,
                 devices=(device(busy=0.99),))  # fmt: skip
    (finding,) = advise(hidden)
    assert finding.speedup.likely < 1.05


def test_a_loop_that_draws_its_own_batches_is_seen_too(run) -> None:
    (finding,) = advise(without_loader(run(before_forward=(0.010,) * 30, frames=WORK)))
    assert "without a DataLoader" in finding.says
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)


def test_where_nobody_knows_whether_it_makes_the_batch_it_may_be_left_out_as_well(run) -> None:
    plain = without_loader(run(before_forward=(0.010,) * 30, frames=WORK))
    (unknown,) = advise(plain)
    ahead = replace(plain, processes=(replace(plain.processes[0], loop_stacks=100, plain=(0.01, 0.5)),))
    (batch,) = advise(ahead)
    assert unknown.do.endswith("; else do it less often")
    assert batch.do.endswith("num_workers=1")
    assert batch.speedup.likely == unknown.speedup.likely
    assert batch.speedup.high <= unknown.speedup.high


def test_what_surely_stands_below_the_optimizers_step_is_said_by_another_advisor(run) -> None:
    plain = without_loader(run(before_forward=(0.010,) * 30, frames=WORK))
    below = replace(plain.processes[0], loop_stacks=100, plain=(0.5, 0.01), on_weights=0.0)
    assert list(advise(replace(plain, processes=(below,)))) == []


def test_an_average_of_the_weights_is_no_preprocessing(run) -> None:
    """As measured: the function goes through `parameters()`, in torch's modules, and works on each weight itself."""
    stacks = (
        Frame(where="train.py:27", function="<module>", share=0.75, compute=True),
        Frame(where="train.py:20", function="update_ema", share=0.14, compute=False),
        Frame(where="train.py:19", function="update_ema", share=0.03, compute=True),
    )
    assert list(advise(without_loader(run(before_forward=(0.010,) * 30, frames=stacks)))) == []


def test_what_torch_did_to_the_weights_is_left_out_wherever_it_is_written(run) -> None:
    """Cached lists of tensors: no stack shows a module, and the loop's own lines are like those of data work."""
    stacks = (
        Frame(where="train.py:27", function="main", share=0.5, compute=True),
        Frame(where="train.py:25", function="main", share=0.4, compute=False),
    )
    plain = without_loader(run(before_forward=(0.010,) * 30, frames=stacks))
    average = replace(plain, processes=(replace(plain.processes[0], on_weights=0.9),))
    assert list(advise(average)) == []
    both = replace(plain, processes=(replace(plain.processes[0], on_weights=0.5),))
    (finding,) = advise(both)
    assert "5 ms a step" in finding.says
    assert finding.evidence["on_weights"] == pytest.approx(0.5)


def test_a_function_that_goes_through_a_model_may_make_batches_if_torch_says_so(run) -> None:
    stacks = (
        Frame(where="train.py:27", function="<module>", share=0.5, compute=True),
        Frame(where="train.py:20", function="get_batch", share=0.4, compute=False),
        Frame(where="train.py:19", function="get_batch", share=0.03, compute=True),
    )
    plain = without_loader(run(before_forward=(0.010,) * 30, frames=stacks))
    (finding,) = advise(replace(plain, processes=(replace(plain.processes[0], on_weights=0.0),)))
    assert finding.where == "train.py:20"


def test_data_work_written_into_the_loop_itself_is_told(run) -> None:
    stacks = (
        Frame(where="train.py:27", function="main", share=0.5, compute=True),
        Frame(where="train.py:25", function="main", share=0.4, compute=False),
    )
    (finding,) = advise(without_loader(run(before_forward=(0.010,) * 30, frames=stacks)))
    assert finding.where == "train.py:25"
    assert finding.do.startswith("if it makes the batch")


def test_a_busy_device_hides_the_work_of_such_a_loop_as_well(run, device) -> None:
    (finding,) = advise(without_loader(run(before_forward=(0.010,) * 30, devices=(device(busy=0.98),))))
    assert finding.speedup.likely < 1.05


def test_evaluations_between_epochs_are_not_promised_back(run) -> None:
    alone = {"num_workers": 4, "cpu": 0.001, "waits": (0.0005,), "step": 0.020, "step_cpu": 0.020}
    (finding,) = advise(run(**alone, before_forward=(0.010,) * 30, between={"evaluation": 8.0}))
    assert finding.speedup.likely == pytest.approx(16.2 / 12.2, rel=0.05)


def test_a_loop_without_an_end_promises_nothing(run) -> None:
    plain = run(before_forward=(0.010,) * 30)
    assert list(advise(replace(plain, processes=(replace(plain.processes[0], loop=0.0),)))) == []
