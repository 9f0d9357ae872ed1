"""frequent-logging speaks when a log line takes a large part of the loop."""

from dataclasses import replace

import pytest

from gputune.advisors.frequent_logging import advise
from gputune.features import Place


def talking(*, each: float, every: int = 1) -> dict:
    """A loop of 10 ms steps in which every so many steps have a pause of `each` s."""
    pause = [0.0] * (every - 1) + [each]
    place = Place(span="logging", where="train.py:60", what="what", count=400 // every, seconds=400 // every * each)
    return {
        "blocked": 0.002,
        "steps": [0.010 + p for p in pause],
        "pauses": {"logging": pause},
        "waits": (0.0004,),
        "places": (place,),
    }


def test_is_silent_about_the_ordinary(run) -> None:
    assert list(advise(run(**talking(each=0.0003)))) == []


def test_is_silent_where_there_is_none(run) -> None:
    assert list(advise(run())) == []


def test_is_silent_just_below_its_threshold(run) -> None:
    assert list(advise(run(**talking(each=0.0104 / 20)))) == []


def test_says_how_often_and_how_long(run) -> None:
    (finding,) = advise(run(**talking(each=0.005, every=2)))
    assert finding.id == "frequent-logging"
    assert "a log line every 2 steps" in finding.says
    assert "5 ms each" in finding.says
    assert finding.where == "train.py:60"


def test_promises_what_the_named_interval_gives_back(run) -> None:
    (finding,) = advise(run(**talking(each=0.010)))
    assert finding.change == {"log_interval": 50}
    assert finding.speedup.likely == pytest.approx(0.0204 / 0.0106)
    assert finding.speedup.low < finding.speedup.likely
    assert (finding.effect, bool(finding.because)) == ("unknown", True)  # nobody looked; see tests/model/test_pauses.py


def test_promises_nothing_where_a_busy_device_works_through_the_pause(run, device) -> None:
    for workers in (0, 4):
        (finding,) = advise(run(**talking(each=0.010), num_workers=workers, devices=(device(busy=0.99),)))
        assert finding.speedup.likely < 1.05


def test_a_pause_is_no_work_of_a_device_that_idles_in_it(run, device) -> None:
    """Its clock is read from batch to batch, pauses and all: 20 ms of 20.4. It was busy for 8 of them."""
    (plain,) = advise(run(**talking(each=0.010)))
    (finding,) = advise(run(**talking(each=0.010), works=(0.020,) * 100, devices=(device(busy=0.4),)))
    assert finding.speedup.likely == pytest.approx(plain.speedup.likely, rel=0.01)
    assert finding.speedup.sure > 1.5


def test_a_pause_in_which_the_device_works_off_what_was_queued_gains_nothing(run, device) -> None:
    (finding,) = advise(run(**talking(each=0.010), works=(0.020,) * 100, devices=(device(busy=0.98),)))
    assert finding.speedup.likely < 1.05


def test_where_nobody_saw_whether_the_device_idles_in_a_pause_nothing_is_sure(run) -> None:
    (finding,) = advise(run(**talking(each=0.010), works=(0.020,) * 100))
    assert finding.speedup.sure < 1.05
    assert finding.speedup.likely > 1.5


def test_of_ranks_the_device_of_the_one_that_pauses_idles(run, device) -> None:
    """The others' devices run the kernel that waits for it, which counts as busy."""
    job = run(**talking(each=0.010), works=(0.020,) * 100, devices=(device(busy=0.49), device(index="1")), ranks=2)
    alone = replace(job.processes[1], in_loop={}, places=())
    (finding,) = advise(replace(job, processes=(job.processes[0], alone)))
    assert finding.speedup.likely > 1.5


def test_says_how_many_lines_a_step_there_are(run) -> None:
    many = talking(each=0.005)
    (finding,) = advise(run(**{**many, "places": (replace(many["places"][0], count=3200),)}))
    assert finding.says.startswith("a log line 8 times a step takes")
    assert finding.do.endswith("instead of every step")
