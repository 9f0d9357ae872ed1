"""worker-restart speaks when every epoch pays for its workers anew."""

from dataclasses import replace

import pytest

from gputune.advisors.worker_restart import advise
from gputune.features import Epoch, Features
from gputune.verdict.building import abstained

# Ten epochs of twenty steps of 10 ms: 0.2 s of work, and 0.1 s to start and stop.
SHORT = {
    "num_workers": 4,
    "blocked": 0.010,
    "step": 0.010,
    "batches": 200,
    "epochs": 10,
    "start": 0.060,
    "first_wait": 0.020,
    "shutdown": 0.030,
}


def test_is_silent_about_workers_that_persist(run) -> None:
    assert list(advise(run(**SHORT, persistent=True))) == []


def test_is_silent_without_workers(run) -> None:
    assert list(advise(run(**{**SHORT, "num_workers": 0}))) == []


def test_two_epochs_are_no_habit(run) -> None:
    assert list(advise(run(**{**SHORT, "epochs": 2}))) == []


def test_promises_next_to_nothing_to_long_epochs(run) -> None:
    (finding,) = advise(run(**{**SHORT, "batches": 20_000}))
    assert finding.speedup.likely < 1.01


def test_names_what_an_epoch_pays_and_what_it_buys(run) -> None:
    (finding,) = advise(run(**SHORT))
    assert finding.id == "worker-restart"
    assert finding.change == {"persistent_workers": True}
    assert finding.effect == "changes-order"
    assert finding.evidence["restart_s"] == pytest.approx(0.100, rel=0.05)
    assert finding.evidence["epochs"] == 10
    assert finding.speedup.likely == pytest.approx(0.31 / 0.22, rel=0.1)


def in_order(found: Features, order: str) -> Features:
    """The same, of a sampler that gives its samples out as `order` says."""
    (process,) = found.processes
    (loader,) = process.loaders
    return replace(found, processes=(replace(process, loaders=(replace(loader, order=order),)),))


@pytest.mark.parametrize(
    ("order", "effect"), [("fixed", "same-order"), ("shared", "changes-order"), ("", "changes-order")]
)
def test_a_sampler_that_does_not_shuffle_keeps_its_order(run, order: str, effect: str) -> None:
    (finding,) = advise(in_order(run(**SHORT), order))
    assert finding.effect == effect
    (finding,) = advise(of_new_loaders(in_order(run(**SHORT), order)))
    assert finding.effect == "changes-order"  # what differs between epochs goes into the sampler


def each_anew(plain, *, iterators: int = 40, batches: int = 1, **differs):
    """A loop of `next(iter(loader))`: 0.1 s for each batch's workers, and steps of 10 ms."""
    (process,) = plain.processes
    epoch = Epoch(began=0, start=0.05, first_wait=0.03, shutdown=0.02, batches=batches, seconds=0.11, complete=False)
    (loader,) = process.loaders
    loader = replace(
        loader, waits=(), steps=(), epochs=(epoch,) * iterators, batches=iterators * batches, length=600, **differs
    )
    loop = 0.11 * iterators
    process = replace(process, loaders=(loader,), loop=loop, batches=loader.batches, optimizer_steps=loader.batches)
    return replace(plain, processes=(process,))


def test_says_that_each_batch_has_workers_of_its_own(run) -> None:
    anew = each_anew(run(num_workers=2, cpu=0.002))
    assert abstained(anew.processes) == ""
    (finding,) = advise(anew)
    assert finding.id == "worker-restart"
    assert "each batch comes from a new iterator" in finding.says
    assert finding.speedup.low < 0.11 / 0.0111 < finding.speedup.likely < 0.11 / 0.0045
    assert finding.speedup.high > 0.11 / 0.0045  # no page is copied then; by how much that helps, nobody knows
    assert not finding.change


def test_what_a_fork_costs_a_step_is_no_matter_of_spawned_workers(run) -> None:
    (finding,) = advise(each_anew(run(num_workers=2, cpu=0.002), start_method="spawn"))
    assert finding.speedup.high < 1.2 * finding.speedup.likely


def test_one_iterator_is_no_faster_than_its_workers(run) -> None:
    (finding,) = advise(each_anew(run(num_workers=2, blocked=0.080)))
    assert finding.speedup.likely == pytest.approx(0.11 / 0.040, rel=0.05)


def test_passes_of_one_batch_that_end_are_no_new_iterators_for_each(run) -> None:
    anew = each_anew(run(num_workers=2, cpu=0.002))
    (process,) = anew.processes
    (loader,) = process.loaders
    ended = replace(loader, epochs=tuple(replace(e, complete=True) for e in loader.epochs))
    for other in (ended, replace(loader, length=1), replace(loader, num_workers=0)):
        assert list(advise(replace(anew, processes=(replace(process, loaders=(other,)),)))) == []


def test_nineteen_new_iterators_are_too_few(run) -> None:
    few = each_anew(run(num_workers=2, cpu=0.002), iterators=19)
    assert "too few batches" in abstained(few.processes)
    assert list(advise(few)) == []


def of_new_loaders(found: Features, every: int = 1) -> Features:
    """The same, of which each `every`-th epoch has a DataLoader that was built for it."""
    (process,) = found.processes
    (loader,) = process.loaders
    epochs = tuple(replace(e, fresh=i % every == 0) for i, e in enumerate(loader.epochs))
    return replace(found, processes=(replace(process, loaders=(replace(loader, epochs=epochs),)),))


@pytest.mark.parametrize("persistent", [False, True])
def test_loaders_that_are_built_for_each_epoch_are_to_be_one(run, persistent) -> None:
    (finding,) = advise(of_new_loaders(run(**SHORT, persistent=persistent)))
    assert "builds a DataLoader of its own" in finding.says
    assert finding.do.startswith("build the DataLoader once, before the epochs")
    assert finding.change == {}  # persistent_workers=True alone ends with each of them
    assert finding.evidence["built"] == 10
    assert finding.speedup.likely == pytest.approx(0.31 / 0.22, rel=0.1)


def test_a_few_epochs_with_each_loader_are_for_workers_that_persist(run) -> None:
    always, folds = run(**SHORT), of_new_loaders(run(**SHORT), every=5)
    (finding,), (usual,) = advise(folds), advise(always)
    assert finding.change == {"persistent_workers": True}
    assert 1.2 < finding.speedup.likely < usual.speedup.likely  # two starts stay instead of one
    assert list(advise(of_new_loaders(run(**SHORT, persistent=True), every=5))) == []
