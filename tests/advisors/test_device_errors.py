"""device-errors tells what a device reported of itself, and whose fault it mostly is."""

from dataclasses import replace

import pytest

from gputune.advisors.device_errors import advise
from gputune.core.finding import Severity


def test_is_silent_about_a_sound_device(run, device) -> None:
    assert list(advise(run(devices=(device(), device(ecc=0))))) == []


def test_is_silent_about_what_follows_from_a_killed_process(run, device) -> None:
    assert list(advise(run(devices=(device(xids={45: 3}),)))) == []


def test_memory_errors_that_rose_are_a_risk_of_now(run, device) -> None:
    (finding,) = advise(run(devices=(device(ecc=2),)))
    assert finding.id == "device-errors"
    assert "2 uncorrected memory errors" in finding.says
    assert "in doubt" in finding.risk
    assert finding.severity is Severity.HIGH
    assert finding.evidence["uncorrected_errors"] == 2


def test_names_the_error_and_how_often_it_came(run, device) -> None:
    (finding,) = advise(run(devices=(device(xids={94: 2, 63: 1}),)))
    assert "Xid 63 (a row of memory was remapped), Xid 94 (contained memory error) 2 times" in finding.says
    assert "another device" in finding.do


@pytest.mark.parametrize(("exit_code", "severity"), [(0, Severity.MEDIUM), (None, Severity.MEDIUM), (1, Severity.HIGH)])
def test_an_error_that_programs_make_is_looked_for_in_the_program(run, device, exit_code, severity) -> None:
    (finding,) = advise(replace(run(devices=(device(xids={31: 1}),)), exit_code=exit_code))
    assert "CUDA_LAUNCH_BLOCKING" in finding.do
    assert finding.severity is severity
    assert ("ended with status 1" in finding.risk) == (exit_code == 1)


def test_an_error_of_both_kinds_is_not_laid_at_the_programs_door(run, device) -> None:
    (finding,) = advise(run(devices=(device(xids={13: 1, 48: 1}),)))
    assert "another device" in finding.do


def test_a_number_that_nobody_knows_is_told_all_the_same(run, device) -> None:
    (finding,) = advise(run(devices=(device(xids={777: 1}),)))
    assert "Xid 777 during" in finding.says
    assert finding.due == 0.0


def test_speaks_of_each_device(run, device) -> None:
    findings = list(advise(run(devices=(device(ecc=1), device(index="1"), device(index="2", xids={79: 1})))))
    assert [f.says.split(" (")[0] for f in findings] == ["GPU 0", "GPU 2"]
