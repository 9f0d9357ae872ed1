"""cold-cache speaks of a first epoch that reads from disk what later ones find in memory, where it is worth a word."""

from dataclasses import replace

import pytest

from gputune.advisors.cold_cache import advise
from gputune.core.finding import WORTH_SAYING

MB = 1_000_000
FREE = 64_000 * MB


def test_is_silent_where_the_first_epoch_found_its_files_in_memory(run, reading) -> None:
    made = run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4)
    assert list(advise(reading(made, asked=MB, stored=0, epochs=[(0, 0.03)], asleep=1.5, memory_free=FREE))) == []


def test_is_silent_where_every_epoch_reads_from_disk(run, reading) -> None:
    made = run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4, epochs=2)
    again = reading(made, asked=MB, stored=MB, epochs=[(MB, 0.03)] * 2, asleep=1.5, memory_free=FREE)
    assert list(advise(again)) == []


def test_is_silent_where_memory_cannot_hold_the_data(run, reading) -> None:
    made = run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4)
    assert list(advise(reading(made, asked=MB, stored=MB, epochs=[(MB, 0.03)], asleep=1.5, memory_free=MB))) == []


def test_expects_of_one_epoch_what_the_next_will_do(run, reading) -> None:
    made = run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4)
    first = reading(made, asked=MB, stored=MB, epochs=[(MB, 0.03)], asleep=1.5, memory_free=FREE)
    (finding,) = advise(first)
    assert finding.id == "cold-cache"
    assert finding.speedup.likely > 2
    assert "fit into memory" in finding.says
    assert "second epoch" in finding.falsified_by
    assert "slow-storage" in finding.falsified_by


def lasted(run, reading, *seconds: float):
    """Epochs of 100 batches that took so long; the first read everything from disk."""
    made = run(num_workers=2, cpu=0.010, blocked=0.001, step=0.005, cpus=4, epochs=len(seconds))
    (process,) = made.processes
    (loader,) = process.loaders
    epochs = [replace(e, seconds=s, batches=100) for e, s in zip(loader.epochs, seconds, strict=True)]
    process = replace(process, loop=sum(seconds), loaders=(replace(loader, epochs=tuple(epochs)),))
    account = [(MB, 0.08), *[(0, 0.001)] * (len(seconds) - 1)]
    return reading(replace(made, processes=(process,)), asked=MB, stored=MB, epochs=account, memory_free=FREE)


def test_compares_the_first_epoch_with_the_later_ones(run, reading) -> None:
    (finding,) = advise(lasted(run, reading, 6.0, 2.0, 2.0))
    assert finding.speedup.likely == pytest.approx(10 / 6)
    assert finding.evidence["lost_s"] == pytest.approx(4.0)
    assert "later ones found them in the page cache" in finding.says


def test_a_long_training_has_long_forgotten_its_first_epoch(run, reading) -> None:
    found = list(advise(lasted(run, reading, 6.0, *[2.0] * 100)))
    assert all(finding.speedup.low < WORTH_SAYING for finding in found)


def test_a_first_epoch_that_is_slow_for_other_reasons_is_not_the_disks(run, reading) -> None:
    assert all(f.speedup.likely == pytest.approx(1.0) for f in advise(lasted(run, reading, 2.0, 2.0, 2.0)))


def test_later_epochs_that_differ_say_less_surely_what_the_first_one_lost(run, reading) -> None:
    (alike,), (apart,) = (advise(lasted(run, reading, 9.0, *later)) for later in ([2.0] * 4, [1.6, 2.4, 1.7, 2.3]))
    assert alike.speedup.likely == pytest.approx(apart.speedup.likely)
    assert alike.speedup.high < 0.9 * apart.speedup.high
    assert alike.speedup.low > 1.1 * apart.speedup.low
