"""Hopeless trials are stopped early, and what may still be as good as the best never is."""

from gputune.experiment.rungs import RUNGS, Rungs

FIRST, SECOND = sorted(RUNGS)


def test_who_comes_first_goes_on_and_so_does_whoever_is_better() -> None:
    rungs = Rungs()
    assert rungs.goes_on(FIRST, 10.0)
    assert rungs.goes_on(FIRST, 100.0)
    assert rungs.goes_on(FIRST, 1000.0)


def test_who_is_far_behind_is_stopped() -> None:
    rungs = Rungs()
    rungs.goes_on(FIRST, 1000.0)
    assert not rungs.goes_on(FIRST, 100.0)


def test_who_may_be_as_good_is_never_stopped_however_many_are_better() -> None:
    rungs = Rungs()
    for rate in (1000.0, 1001.0, 1002.0, 1003.0):
        rungs.goes_on(SECOND, rate)
    assert rungs.goes_on(SECOND, 960.0)
    assert not rungs.goes_on(SECOND, 700.0)
    assert rungs.goes_on(SECOND, 700.0, 0.2)  # as uncertain as that, it may be


def test_an_early_rung_is_more_patient_than_a_late_one() -> None:
    for rung, goes_on in ((FIRST, True), (SECOND, False)):
        rungs = Rungs()
        rungs.goes_on(rung, 1000.0)
        assert rungs.goes_on(rung, 800.0) is goes_on


def test_rungs_do_not_know_of_each_other() -> None:
    rungs = Rungs()
    rungs.goes_on(FIRST, 1000.0)
    assert rungs.goes_on(SECOND, 1.0)


def test_the_better_half_goes_on_whatever_the_distance() -> None:
    rungs = Rungs()
    assert [rungs.goes_on(FIRST, rate) for rate in (1.0, 1.0, 100.0, 50.0)] == [True, True, True, True]
    assert rungs.goes_on(FIRST, 2.0)  # the third best of five
    assert not rungs.goes_on(FIRST, 1.5)
