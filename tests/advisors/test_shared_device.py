"""shared-device speaks when somebody else computes on the card."""

from dataclasses import replace

import pytest

from gputune.advisors.shared_device import advise, waiting_for_data

THEIRS = {"busy": 0.98, "others": {4711: 0.49}, "jobs_busy": 0.49}


def test_is_silent_on_a_card_of_its_own(run, device) -> None:
    assert list(advise(run(devices=(device(),)))) == []


def test_is_silent_about_a_display_server(run, device) -> None:
    assert list(advise(run(devices=(device(others={900: 0.01}),)))) == []


def test_names_the_process_and_promises_its_time(run, device) -> None:
    (finding,) = advise(run(num_workers=4, blocked=0.001, waits=(0.0,), devices=(device(**THEIRS),)))
    assert finding.id == "shared-device"
    assert "pid 4711" in finding.says
    assert "49%" in finding.says
    assert finding.speedup.likely == pytest.approx(1.98)


def test_promises_less_where_the_loop_waits_for_data_anyway(run, device) -> None:
    (finding,) = advise(run(num_workers=0, blocked=0.090, step=0.010, devices=(device(**THEIRS),)))
    assert finding.speedup.likely == pytest.approx(1.1, abs=0.02)


def test_a_job_that_asks_for_little_is_not_promised_the_whole_card(run, device) -> None:
    """One other process takes turns with it, so twice as fast is the most there can be."""
    (finding,) = advise(run(devices=(device(busy=0.95, others={4711: 0.94}, jobs_busy=0.01),)))
    assert finding.speedup.likely <= 2.0


def test_a_job_that_the_device_does_not_hold_up_is_promised_what_it_does_there(run, device, clocked) -> None:
    """An H100 with eight others: of a step of Lightning's it worked 19 %, and x3.6 was promised for all."""
    crowd = {"busy": 0.86, "others": {670: 0.4, 877: 0.2, 639: 0.08, 7: 0.01}, "jobs_busy": 0.2}
    (finding,) = advise(clocked(run(devices=(device(**crowd),)), 0.19))
    assert finding.speedup.likely == pytest.approx(1.17, abs=0.02)
    (all_of_it,) = advise(clocked(run(devices=(device(**crowd),)), 1.0))
    assert all_of_it.speedup.likely > 3


def test_what_was_not_timed_may_be_all_work_of_the_device(run, device, clocked) -> None:
    timed = clocked(run(devices=(device(**THEIRS),)), 0.1)
    (process,) = timed.processes
    mostly = replace(timed, processes=(replace(process, loop=10 * process.loop),))
    (little,), (much,) = advise(timed), advise(mostly)
    assert little.speedup.likely == pytest.approx(1 / (1 - 0.1 / 2), rel=0.01)
    assert much.speedup.likely > 1.7


def test_promises_nothing_to_a_job_that_is_not_on_the_card(run, device) -> None:
    (finding,) = advise(run(devices=(device(busy=0.9, others={4711: 0.9}, jobs_busy=0.0),)))
    assert finding.speedup.likely == 1.0


def test_processes_without_a_number_are_somebody_elses(run, device) -> None:
    (finding,) = advise(run(devices=(device(busy=0.9, others={0: 0.4}),)))
    assert "processes of somebody else" in finding.says


def test_shares_of_many_processes_add_up_to_one_card_at_most(run, device) -> None:
    (finding,) = advise(run(devices=(device(busy=0.9, others={1: 0.7, 2: 0.7}, jobs_busy=0.2),)))
    assert finding.evidence["their_busy"] == 1.0


def test_waiting_is_a_share(run) -> None:
    assert waiting_for_data(run(num_workers=0, blocked=0.010, step=0.010)) == pytest.approx(0.5)
