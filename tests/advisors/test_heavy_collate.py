"""heavy-collate speaks when assembling batches, or handing them over, is what the training waits for."""

from dataclasses import replace

import pytest

from gputune.advisors.heavy_collate import advise

# Two CPUs, two workers: a batch takes 40 ms of CPU, 36 of them in collate_fn; a step 10 ms.
LISTS = {"num_workers": 2, "cpu": 0.040, "collate": 0.036, "step": 0.010, "step_cpu": 0.009, "cpus": 2.0}
# Batches are made in 8 ms by each of four workers, but each takes 30 ms to arrive in the training.
SMALL_TENSORS = {"num_workers": 4, "cpu": 0.008, "step": 0.010, "waits": [0.030], "deliveries": [0.030] * 50}


def test_is_silent_while_data_arrives_in_time(run) -> None:
    assert list(advise(run(num_workers=4, cpu=0.020, collate=0.018, step=0.010))) == []


def test_is_silent_about_a_wait_for_something_else(run) -> None:
    assert list(advise(run(num_workers=0, cpu=0.040, collate=0.0004, step=0.010))) == []


def test_is_silent_when_the_bytes_explain_the_time(run) -> None:
    """100 MB take 50 ms to stack, whoever does it."""
    large = run(num_workers=0, cpu=0.052, collate=0.050, step=0.010, batch_bytes=100_000_000)
    assert list(advise(large)) == []


def test_names_the_time_in_collate_and_what_stacking_would_buy(run) -> None:
    (finding,) = advise(run(**LISTS))
    assert finding.id == "heavy-collate"
    assert "36 of the 40 ms" in finding.says
    assert 1.5 < finding.speedup.likely < 3.5
    assert finding.speedup.low < finding.speedup.likely
    assert finding.evidence["collate_s"] == pytest.approx(0.036)
    assert finding.effect == "identical"


def test_names_batches_that_take_long_to_arrive(run) -> None:
    (finding,) = advise(run(**SMALL_TENSORS))
    assert "30 ms to reach the training" in finding.says
    assert "few large tensors" in finding.do
    assert finding.speedup.likely == pytest.approx(40 / 12, rel=0.15)


def test_says_the_arriving_first_where_that_takes_the_time(run) -> None:
    told = run(**SMALL_TENSORS, collate=0.00004, tensors=127)
    process = told.processes[0]
    loader = replace(process.loaders[0], collate="lists")
    (finding,) = advise(replace(told, processes=(replace(process, loaders=(loader,)),)))
    assert finding.says.partition(" for batches: ")[2] == (
        "a finished batch of 127 or more tensors, put together in lists, takes 30 ms to reach the training; "
        "a worker makes it in 8 ms"
    )


def test_a_step_may_gain_as_well_from_fewer_tensors(run) -> None:
    (finding,) = advise(run(**SMALL_TENSORS, step_cpu=0.039))  # the arriving is CPU time of the training, too
    assert finding.speedup.high > 1.5 * finding.speedup.likely


def test_an_ordinary_handover_is_no_cause(run) -> None:
    """The loop waits, but for batches that are not made yet: they arrive at once when they are."""
    slow = run(num_workers=1, blocked=0.050, step=0.010, deliveries=[0.0006] * 50)
    assert list(advise(slow)) == []


def test_few_tensors_that_are_late_because_their_maker_holds_the_gil_are_no_matter_of_collating(run) -> None:
    """Its worker reads a shard for half of the time: what lies ready comes late then, however it was put together."""
    bursts = run(num_workers=1, step=0.040, waits=[0.030], deliveries=[0.028] * 50, tensors=2)
    process = bursts.processes[0]
    fetches = [
        replace(f, cpu=0.9 if n % 24 == 0 else 0.0005, wall=0.9) for n, f in enumerate(process.loaders[0].fetches)
    ]
    held = {"hindered": (0.1,) * 30, "freed": (0.07,) * 5, "after": (0.002,) * 5, "unhindered": (0.002,) * 60}
    loader = replace(process.loaders[0], fetches=tuple(fetches), prefetch_factor=16, **held)
    assert list(advise(replace(bursts, processes=(replace(process, loaders=(loader,)),)))) == []


def test_names_the_function(run) -> None:
    told = run(**LISTS)
    process = told.processes[0]
    loader = replace(process.loaders[0], collate="pad_sentences")
    (finding,) = advise(replace(told, processes=(replace(process, loaders=(loader,)),)))
    assert "in pad_sentences" in finding.says


def test_what_a_step_does_before_its_model_goes_with_the_pieces(run) -> None:
    """Of 20 ms of step 8 go into looking at 288 tensors: the loop of 50 ms is left with 12, and the batch's arrival."""
    many = SMALL_TENSORS | {"step": 0.020, "step_cpu": 0.050, "tensors": 127}  # 30 of them for the arrival
    (told,) = advise(run(**many, before_forward=(0.0083,) * 30))
    (untold,) = advise(run(**many))
    assert told.speedup.likely == pytest.approx(50 / 14, rel=0.1)
    assert untold.speedup.likely == pytest.approx(50 / 22, rel=0.1)
    assert "of 127 or more tensors" in told.says


def test_the_first_batch_of_a_pass_is_late_by_its_tensors_too(run) -> None:
    passes = [
        run(**SMALL_TENSORS, tensors=127, epochs=20, batches=200, start=0.01, first_wait=first)
        for first in (0.05, 0.25)
    ]
    (one,), (other,) = map(advise, passes)
    assert other.speedup.likely > one.speedup.likely


def test_a_batch_of_few_tensors_is_not_late_for_their_number(run) -> None:
    """Its worker was at rest meanwhile: another collate_fn would deliver as late, while CPUs are taken away."""
    assert list(advise(_rested(run))) == []
    assert list(advise(_rested(run, next_cpus=(0.0015,) * 30))) == []


def test_what_a_batch_of_few_tensors_takes_to_unpack_may_be_saved(run) -> None:
    """Of the 30 ms until it is there, the training computes for 20: there is more in it than tensors."""
    (finding,) = advise(_rested(run, next_cpus=(0.020,) * 30))
    assert finding.speedup.likely > 1.5
    assert "tensors" not in finding.do.partition(":")[0]
    assert "tensors takes" not in finding.says


def _rested(run, **known):
    """Return the run of batches that are late, of two tensors, made by workers that were at rest meanwhile."""
    late = run(**SMALL_TENSORS | {"tensors": 2})
    process = late.processes[0]
    loader = replace(process.loaders[0], unhindered=(0.030,) * 60, **known)
    return replace(late, processes=(replace(process, loaders=(loader,)),))
