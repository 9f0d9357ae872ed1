"""heavy-preprocessing speaks when the CPUs set the pace and more workers cannot help."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputune.advisors.few_workers import advise as more_workers
from gputune.advisors.heavy_preprocessing import advise
from gputune.features import Doing, Features

# Two CPUs, 40 ms of CPU a batch, a step of 5 ms: 20 ms a batch at best.
FULL = {"num_workers": 2, "cpu": 0.040, "step": 0.005, "cpus": 2}


def test_is_silent_while_the_cpus_have_room(run) -> None:
    assert list(advise(run(num_workers=4, cpu=0.020, step=0.010, cpus=8))) == []


def test_is_silent_when_the_loop_does_not_wait_though_the_cpus_are_full(run) -> None:
    assert list(advise(run(num_workers=2, cpu=0.020, step=0.0105, cpus=2))) == []


def test_leaves_it_to_more_workers_while_they_would_help(run) -> None:
    assert list(advise(run(num_workers=1, cpu=0.040, step=0.005, cpus=4))) == []


def test_is_silent_when_workers_wait_for_storage_instead(run) -> None:
    assert list(advise(run(num_workers=2, cpu=0.002, blocked=0.040, step=0.005, cpus=2))) == []


def test_says_how_much_cpu_a_batch_takes_and_that_workers_cannot_help(run) -> None:
    (finding,) = advise(run(**FULL))
    assert finding.id == "heavy-preprocessing"
    assert "40 ms of CPU" in finding.says
    assert "2 CPUs" in finding.says
    assert finding.change == {}
    assert finding.evidence["cpus_full"] == pytest.approx(1.0, abs=0.1)


def test_one_cpu_is_one_and_of_ranks_it_is_a_ranks(run) -> None:
    (alone,) = advise(run(**{**FULL, "num_workers": 1, "cpus": 1}))
    assert "and the one CPU of this job is 100% full" in alone.says
    of_two = run(**FULL)
    (shared,) = advise(replace(of_two, machine=replace(of_two.machine, cpus=4, ranks=2)))
    assert "the 2 CPUs of this rank are" in shared.says


def test_promises_at_least_a_quarter_of_the_work_and_at_most_a_loop_that_never_waits(run) -> None:
    (finding,) = advise(run(**FULL))
    assert finding.speedup.low == pytest.approx(2.6, rel=0.2)
    assert finding.speedup.likely == pytest.approx(4.0, rel=0.2)
    assert finding.speedup.high >= finding.speedup.likely


def test_a_busy_device_bounds_what_it_promises(run, device) -> None:
    (finding,) = advise(run(**FULL, devices=(device(busy=0.5),)))
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)


def test_never_promises_the_moon_to_a_loop_that_does_nothing_else(run) -> None:
    (finding,) = advise(run(num_workers=2, cpu=0.400, step=0.0001, cpus=2))
    assert finding.speedup.high <= 100


def test_cpus_that_others_use_are_full_too(run) -> None:
    """Two CPUs, of which others use one: alone, two workers would fill both."""
    crowd = {"num_workers": 2, "cpu": 0.030, "queued": 0.030, "step": 0.004, "step_cpu": 0.004, "waits": (0.026,)}
    (finding,) = advise(run(**crowd, cpus=2, others=1.0))
    assert "full without the others, who use 1 of them" in finding.says


def test_cpus_that_only_others_fill_are_theirs(run) -> None:
    """Two CPUs, of which others use one: a step of 14 ms hides most of the 16 that two batches take alone."""
    crowd = {"num_workers": 2, "cpu": 0.016, "queued": 0.010, "step": 0.018, "step_cpu": 0.006, "waits": (0.004,)}
    assert list(advise(run(**crowd, cpus=2, others=1.0))) == []


def test_workers_whose_threads_crowd_the_cpus_are_another_matter(run) -> None:
    crowd = {"num_workers": 4, "cpu": 0.040, "queued": 0.040, "step": 0.004, "waits": (0.018,), "cpus": 2}
    assert list(advise(run(**crowd))) != []
    assert list(advise(run(**crowd, worker_threads=4))) == []


def test_a_little_of_others_that_batches_do_not_wait_for_silences_nothing(run) -> None:
    (finding,) = advise(run(**FULL, others=0.3))
    assert "others" not in finding.says


def test_others_are_in_the_way_as_far_as_batches_stand_in_line(run) -> None:
    """Two CPUs, half of one used by others: batches queue for a quarter of their time, or not at all."""
    crowd = {"num_workers": 2, "cpu": 0.160, "step": 0.009, "step_cpu": 0.009, "waits": (0.110,), "cpus": 2}
    (finding,) = advise(run(**crowd, queued=0.064, others=0.53))
    assert 0.75 < finding.evidence["cpus_full"] < 1.0
    assert list(advise(run(**crowd, queued=0.0, others=0.53))) == []


# No workers: 2.9 ms to make a batch of small pictures, 4 ms a step on both CPUs. Handing one over takes 1.1 ms.
SMALL = {"num_workers": 0, "cpu": 0.0029, "collate": 0.0003, "step": 0.004, "cpus": 2, "batch_bytes": 100_352}
MADE = (("own", "__getitem__", 0.30), ("decode", "PIL", 0.35), ("transform", "to_tensor", 0.35))


def made(
    run: Callable[..., Features], *, of: tuple[tuple[str, str, float], ...] = MADE, stacks: int = 60,
    free: int = 8_000_000_000, samples: int | None = 60_000, draws: bool | None = False,
    collates: str = "default_collate", random: bool | None = None, **differs: object,
) -> Features:  # fmt: skip
    """Return a run that shows what its batches are made of, over a data set of so many samples."""
    found = run(**{**SMALL, "step_cpu": 0.0079, **differs})
    doings = tuple(Doing(kind=k, what=w, where="data.py:9" if k == "own" else "", share=s) for k, w, s in of)
    (process,) = found.processes
    (loader,) = process.loaders
    loader = replace(loader, samples_in_dataset=samples, draws=draws, random=random, collate=collates)
    process = replace(process, loaders=(loader,), making=doings, making_stacks=stacks, built="")
    return replace(found, processes=(process,), machine=replace(found.machine, memory_free=free))


def test_what_a_sample_takes_is_told_by_what_is_done_and_so_is_what_would_help(run) -> None:
    (finding,) = advise(made(run))
    assert "more workers cannot help; a sample takes 91 µs: " in finding.says
    assert "PIL 31%, to_tensor 31%, data.py:9 27%, collate 10%" in finding.says
    assert finding.evidence["ceiling"] >= finding.speedup.likely >= 1.3
    assert finding.do.startswith("keep all samples, if none is random, as one tensor of 188 MB")
    assert "; at most x1.7" in finding.do
    assert len(finding.says) + len(finding.do) < 380  # what the terminal has room for
    assert [name for name in finding.evidence if name.startswith("remedy.")] == ["remedy.kept", "remedy.at_once"]


def test_a_gain_is_that_of_the_best_remedy_and_each_has_its_own(run) -> None:
    """Of 7 ms a batch, 2.9 are made; all but 0.07 go with a tensor, two thirds with what is done at once."""
    (finding,) = advise(made(run))
    assert finding.speedup.likely == finding.evidence["remedy.kept"] == pytest.approx(6.9 / 4.07, rel=0.03)
    assert finding.evidence["remedy.at_once"] == pytest.approx(6.9 / (4.25 + 0.91 + 0.15), rel=0.1)


def test_a_remedy_that_surely_brings_more_than_workers_can_is_told_beside_them(run) -> None:
    """40 ms a batch, a step of 5: two CPUs make them twice as fast, a tensor some eight times."""
    slow = {"cpu": 0.040, "collate": 0.002, "step": 0.005, "step_cpu": 0.005}
    two = made(run, **slow, cpus=2)
    (workers,) = more_workers(two)
    assert list(advise(two)) == []
    assert workers.do.startswith("set num_workers=2; or keep all samples, if none is random, as one tensor of 188 MB")
    assert workers.evidence["remedy.kept"] > workers.speedup.high
    (enough,) = more_workers(made(run, **slow, cpus=16))
    assert enough.do == f"set num_workers={enough.change['num_workers']}"


def test_what_spares_all_of_the_making_is_told_before_stacks_tell_what_it_is(run) -> None:
    (finding,) = advise(made(run, stacks=5))
    assert finding.do.startswith("keep all samples, if none is random, as one tensor of 188 MB for later passes, and i")
    assert [name for name in finding.evidence if name.startswith("remedy.")] == ["remedy.kept"]
    for differs in ({"free": 300_000_000}, {"draws": True}, {"random": True}, {"collates": "mine"}):
        (other,) = advise(made(run, stacks=5, **differs))
        assert "remedy.kept" not in other.evidence


def test_what_others_hold_up_goes_by_the_clock_and_the_quickest_steps_are_the_most_that_is_told(run) -> None:
    """One step in ten takes ten times as long: where others use CPUs, these are as rare in shorter rounds as in s."""
    burst = {"steps": (0.0003, *(0.0004,) * 8, 0.004), "waits": (0.0029,), "cpus": 2}
    (alone,), (beside,) = advise(made(run, **burst)), advise(made(run, **burst, others=0.15))
    assert alone.speedup.likely == pytest.approx((2.9 + 0.75) / (0.07 + 0.75), rel=0.1)
    assert beside.speedup.likely == pytest.approx((2.9 + 0.4) / (0.07 + 0.4), rel=0.1)
    assert beside.speedup.high == pytest.approx((2.9 + 0.4) / (0.07 + 0.3) * 1.05, rel=0.1)
    assert beside.evidence["ceiling"] > beside.speedup.high / 1.05
    assert beside.speedup.low < alone.speedup.likely


def test_samples_that_do_not_fit_or_are_drawn_anew_are_not_kept(run) -> None:
    for differs in ({"free": 300_000_000}, {"draws": True}, {"samples": None}, {"iterable": True}):
        (finding,) = advise(made(run, **differs))
        assert "remedy.kept" not in finding.evidence


def test_samples_that_are_tensors_already_need_no_keeping_but_an_index_of_whole_batches(run) -> None:
    indexed = (("index", "tensor indexing", 0.6), ("between", "between samples", 0.4))
    (finding,) = advise(made(run, of=indexed))
    assert finding.do.startswith("index whole batches in `__getitems__` (x")
    assert "remedy.kept" not in finding.evidence


def test_of_what_several_loaders_make_nothing_is_told(run) -> None:
    both = made(run)
    (process,) = both.processes
    both = replace(both, processes=(replace(process, loaders=process.loaders * 2),))
    assert all("a sample takes" not in finding.says for finding in advise(both))


def test_a_stream_has_no_index_to_make_batches_of(run) -> None:
    (finding,) = advise(made(run, iterable=True))
    assert "remedy.at_once" not in finding.evidence


def test_long_work_of_ones_own_is_not_taken_for_calls_that_go(run) -> None:
    """6 ms a sample in the user's own function: to do so for a whole batch at once takes as long."""
    long = made(run, of=(("own", "augment", 1.0),), num_workers=2, cpu=0.2, collate=0.0003, samples=None)
    (finding,) = advise(long)
    assert not [name for name in finding.evidence if name.startswith("remedy.")]
    assert finding.do.startswith("make batches cheaper")


def test_without_enough_stacks_nothing_is_told_of_what_a_batch_is_made_of(run) -> None:
    (finding,) = advise(made(run, stacks=10, draws=True))
    assert "a sample" not in finding.says
    assert not [name for name in finding.evidence if name.startswith("remedy.")]


def test_a_loop_that_workers_do_not_help_though_cpus_are_left_hears_of_cheaper_batches(run) -> None:
    """1 ms to make, 1.1 to hand over: with a step of 1.5 ms a loop waits 40 % and gains nothing by workers."""
    quick = {"cpu": 0.0010, "collate": 0.0002, "step": 0.0015, "step_cpu": 0.0015, "cpus": 2}
    assert all(finding.speedup.likely < 1.05 for finding in more_workers(made(run, **quick)))
    (finding,) = advise(made(run, **quick))
    assert finding.evidence["cpus_full"] < 0.75
    assert finding.speedup.likely > 1.3


def test_is_silent_where_makers_wait_for_something_or_for_each_other(run) -> None:
    waits = {"cpu": 0.0002, "blocked": 0.0011, "step": 0.0015, "step_cpu": 0.0015, "cpus": 2, "collate": 0.0}
    assert list(advise(made(run, **waits))) == []


def test_what_takes_long_to_decode_is_worth_a_cache_though_not_all_samples_fit(run) -> None:
    decoding = (("decode", "PIL", 0.8), ("transform", "resize", 0.2))
    (finding,) = advise(made(run, of=decoding, samples=10**9, num_workers=2, cpu=0.080))
    assert next(name for name in finding.evidence if name.startswith("remedy.")) == "remedy.decoded"
    assert finding.do.startswith("cache what is decoded (x")


def test_the_ceiling_is_a_loop_that_never_waits_or_its_device_that_always_works(run, device) -> None:
    (alone,) = advise(made(run))
    (busy,) = advise(made(run, devices=(device(busy=0.8),)))
    assert alone.evidence["ceiling"] == pytest.approx(6.9 / 4.0)
    assert busy.evidence["ceiling"] == pytest.approx(1.25, rel=0.02)
