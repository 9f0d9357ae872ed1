"""small-files speaks when opening files is a good part of making batches that are waited for."""

from dataclasses import replace

import pytest

from gputune.advisors.small_files import advise
from gputune.features import Filing


def test_is_silent_where_files_are_large(run, reading) -> None:
    made = run(num_workers=2, cpu=0.020, step=0.002, cpus=2)
    assert list(advise(reading(made, opens=32, opening=0.004, asked=32 << 22))) == []


def test_is_silent_where_few_files_are_opened(run, reading) -> None:
    made = run(num_workers=2, cpu=0.020, step=0.002, cpus=2)
    assert list(advise(reading(made, opens=4, opening=0.010))) == []


def test_is_silent_where_opening_takes_next_to_nothing(run, reading) -> None:
    made = run(num_workers=2, cpu=0.020, step=0.002, cpus=2)
    assert list(advise(reading(made, opens=32, opening=0.0005))) == []


def test_is_silent_while_batches_come_in_time(run, reading) -> None:
    assert list(advise(reading(run(num_workers=4, cpu=0.020, step=0.010), opens=32, opening=0.010))) == []


def test_is_silent_with_too_few_sampled_batches(run) -> None:
    assert list(advise(run(num_workers=0, cpu=0.020))) == []


def test_promises_what_a_batch_takes_without_its_files(run, reading) -> None:
    made = run(num_workers=0, cpu=0.020, step=0.005, cpus=2)
    (finding,) = advise(reading(made, opens=64, opening=0.005, asked=64 * 1000))
    assert finding.id == "small-files"
    assert finding.speedup.likely == pytest.approx(25 / 15, rel=0.03)  # 5 ms of opening and 5 of what goes with it
    assert finding.speedup.low < 25 / 16 < 25 / 9 < finding.speedup.high
    assert "opens 2 files" in finding.says
    assert "10 of the 20 ms" in finding.says
    assert "(0.078 ms to open one)" in finding.says
    assert finding.evidence["opens_per_sample"] == 2
    assert finding.evidence["open_s"] == pytest.approx(0.005 / 64)


def test_what_goes_with_an_opening_is_what_one_of_the_files_has_shown(run, reading) -> None:
    made = run(num_workers=0, cpu=0.020, step=0.005, cpus=2)
    text = Filing(naming=10e-6, opening=10e-6, ending=15e-6)  # twice as long as its opening, path objects and all
    (finding,) = advise(reading(made, opens=64, opening=0.004, asked=64 * 1000, filing=text))
    assert finding.speedup.likely == pytest.approx(25 / 13, rel=0.03)
    assert finding.speedup.low < 25 / 15 < 25 / 9 < finding.speedup.high
    for kept, left in ((True, 10), (False, 6)):
        (finding,) = advise(reading(made, opens=64, opening=0.004, asked=64 * 1000, filing=replace(text, kept=kept)))
        assert finding.speedup.likely == pytest.approx(25 / (left + 5), rel=0.05)
    quick = Filing(naming=0.0, opening=10e-6, ending=2e-6)
    (finding,) = advise(reading(made, opens=64, opening=0.004, asked=64 * 1000, filing=quick))
    assert finding.speedup.likely == pytest.approx(25 / 20.2, rel=0.03)


def test_what_opening_waits_for_storage_goes_as_well(run, reading) -> None:
    made = run(num_workers=0, cpu=0.004, blocked=0.016, step=0.005, cpus=2)
    cold = reading(made, opens=32, opening=0.010, asked=64_000, stored=64_000, asleep=1.0)
    (finding,) = advise(cold)
    assert finding.speedup.likely == pytest.approx(25 / 8, rel=0.1)


def test_several_files_of_a_sample_wait_for_storage_once_where_they_lie_together(run, reading) -> None:
    """Of 10 ms of waiting 7.5 go where four files are one record, the rest stays; surely only the opening goes."""
    made = run(num_workers=0, cpu=0.010, blocked=0.010, step=0.005, cpus=2)
    spread = reading(made, opens=128, opening=0.002, asked=64_000, stored=64_000, asleep=0.4)
    single = reading(made, opens=32, opening=0.002, asked=64_000, stored=64_000, asleep=0.4)
    (several,), (one,) = advise(spread), advise(single)
    assert several.speedup.likely == pytest.approx(25 / (25 - 7.5 - 2), rel=0.05)
    assert one.speedup.likely == pytest.approx(25 / 21, rel=0.05)
    assert several.speedup.low < 25 / 20


def test_standing_in_line_for_a_cpu_is_not_the_price_of_a_file(run, reading) -> None:
    made = run(num_workers=0, cpu=0.020, queued=0.060, step=0.005, cpus=2)
    (finding,) = advise(reading(made, opens=64, opening=0.020))
    assert finding.evidence["open_s"] == pytest.approx(0.005 / 64)


def test_bytes_that_nobody_counts_are_not_made_up(run, reading) -> None:
    made = run(num_workers=0, cpu=0.020, step=0.005)
    (finding,) = advise(reading(made, opens=32, opening=0.008, asked=None, stored=None))
    assert "files:" in finding.says
