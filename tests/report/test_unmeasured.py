"""What could not be measured is worth a line only where something rests on it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gputune.features import Lacking
from gputune.nvml.fields import FIELDS
from gputune.report.unmeasured import SERVES, held_back, in_python, lines, took
from gputune.verdict.building import Overhead, build
from gputune.verdict.document import ExperimentsRow

Make = Callable[..., Any]
WHY = "is not known to this driver"
ALWAYS = {"utilisation", "memory"}


def told(features: Make, *lacks: str, findings: tuple[Any, ...] = (), **more: str) -> str:
    """Return the line of a run in which these fields of a device could not be read."""
    lacking = tuple(Lacking(name, f"{name or 'NVML'} of device 0", WHY) for name in lacks)
    why = {"nvml": "; ".join(f"{each.what} {each.why}" for each in lacking), **more}
    run = features(unavailable=why, lacking={"nvml": lacking})
    return " ".join(line.strip() for line in lines(build(run, findings, overhead=Overhead()), 100))


def test_a_field_that_nothing_rests_on_is_no_line(features: Make) -> None:
    assert told(features, "SM and tensor activity", "default power limit") == ""


def test_a_field_that_a_finding_rests_on_is_named(features: Make, finding: Make) -> None:
    said = told(features, "SM and tensor activity", "energy", findings=(finding(id="no-mixed-precision"),))
    assert said == f"not measured: SM and tensor activity of device 0 ({WHY})"


@pytest.mark.parametrize("field", ["utilisation", "memory", ""])
def test_what_every_verdict_lives_of_is_always_named(features: Make, field: str) -> None:
    assert told(features, field) == f"not measured: {field or 'NVML'} of device 0 ({WHY})"


def test_an_instrument_that_does_not_work_at_all_is_named_as_ever(features: Make) -> None:
    assert (
        told(features, "energy", stacks="py-spy is not installed") == "not measured: stacks (py-spy is not installed)"
    )


def test_what_failed_in_that_run_alone_has_its_reason_and_no_doctor_to_ask(features: Make) -> None:
    why = "samples/00001.parquet is damaged, events/00001.parquet is damaged, spans/00001.parquet is damaged"
    assert told(features, "energy", recording=why) == f"not measured: recording ({why})"
    both = told(features, "energy", recording=why, stacks="py-spy is not installed")
    assert both == f"not measured: recording ({why}); stacks (`gputune doctor` says why)"


SINCE = "cannot be read: the device is lost (it has fallen off the bus; dmesg shows its Xid), since 19:53:16"


def lost(features: Make, count: int, **more: Any) -> Any:
    rows = tuple(Lacking("", f"device {n}", SINCE) for n in range(count))
    run = features(unavailable={"nvml": "; ".join(f"{each.what} {each.why}" for each in rows)}, lacking={"nvml": rows})
    return build(run, (), overhead=Overhead(), **more)


def test_a_device_that_failed_meanwhile_has_its_reason_however_long(features: Make) -> None:
    assert " ".join(line.strip() for line in lines(lost(features, 1), 80)) == f"not measured: device 0 ({SINCE})"
    said = lines(lost(features, 7), 80)
    assert "".join(said).count("fallen off") == 3
    assert said[-1].endswith("4 more of a device")


def test_what_the_devices_own_line_has_said_is_not_said_again(features: Make) -> None:
    verdict = lost(features, 1)
    device = msgspec.structs.replace(verdict.device, coverage=0.3, why=SINCE)
    assert lines(msgspec.structs.replace(verdict, device=device), 80) == []


def test_every_field_is_known_here() -> None:
    assert {field.name for field in FIELDS} == SERVES.keys() | ALWAYS


def test_what_was_held_back_is_told_with_what_it_may_have_cost() -> None:
    assert held_back(None) == ""
    both = held_back(ExperimentsRow(holds=12, delays=1, share=0.00284))
    assert both == "to see what sets the pace, 13 moments were held up: at most 0.3 % of the loop"
    assert held_back(ExperimentsRow(holds=0, delays=1, share=None)).endswith("pace, one moment was held up")
    assert held_back(ExperimentsRow(holds=1, delays=0, share=0.0004)).endswith("held up: under 0.1 % of the loop")


def test_hooks_that_ran_in_python_are_told_with_what_they_cost() -> None:
    assert in_python(Overhead(guest_us_per_batch=12.0)) == ""
    assert in_python(Overhead(guest_us_per_batch=12.0, in_python=["rows"])) == ""  # it is no cost of the training
    said = in_python(Overhead(guest_us_per_batch=64.2, in_python=["hooks", "rows"]))
    assert said == "gputune's hooks ran in Python, 64 µs a batch, and would cost less in C (`gputune doctor` says how)"


def _took(features: Make, share: float, loop_s: float) -> str:
    """Return what is said of a recorder that took so many cores beside a loop of so many seconds."""
    verdict = build(features(), (), overhead=Overhead(sampler_cpu_share=share, guest_us_per_batch=4.0))
    return took(msgspec.structs.replace(verdict, loop_s=loop_s, batches=int(700 * loop_s)))


def test_what_watching_takes_of_a_slow_loop_or_to_begin_with_is_no_line(features: Make) -> None:
    assert _took(features, 0.004, 600) == ""
    assert _took(features, 0.05, 5) == ""


def test_what_watching_takes_of_a_fast_loop_is_told_as_what_it_may_cost(features: Make) -> None:
    said = "watching took 6.0 % of a CPU and 4 µs of each batch: up to 6.3 % of the loop's time where no CPU was free"
    assert _took(features, 0.06, 30) == said
