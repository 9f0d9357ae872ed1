"""When a run starves, and when it was not used well enough."""

import pytest

from gputune.core.units import NS
from gputune.features import Device, Features, Machine, Process
from gputune.gathering.gates import LOOKS, Starving, WaitTotals, below


def held(
    seconds: float, waits: list[float], *, busy: list[float] | None = None, processes=frozenset({0})
) -> list[bool]:
    """Return what each second's look says: `waits` and `busy` are the shares of that second."""
    gate, waited, worked, known, found = Starving(seconds), 0.0, 0.0, 0.0, []
    for t, wait in enumerate(waits, start=1):
        waited += wait
        if busy is not None:
            worked, known = worked + busy[t - 1], known + 1
        found.append(gate.look(WaitTotals(t * NS, processes, waited, worked, known)))
    return found


def test_a_run_that_works_does_not_starve() -> None:
    assert not any(held(3, [0.4] * 20))


def test_it_starves_once_it_has_waited_for_so_long() -> None:
    assert held(3, [0.9] * 6) == [False, False, False, True, True, True]


def test_a_stall_that_ends_in_time_is_none() -> None:
    assert not any(held(5, [0.1] * 5 + [1.0] * 2 + [0.1] * 5))


def test_one_quick_second_does_not_save_it() -> None:
    assert any(held(5, [0.9, 0.9, 0.1, 0.9, 0.9, 0.9]))


def test_a_device_that_works_meanwhile_is_fed() -> None:
    assert not any(held(3, [0.9] * 10, busy=[0.95] * 10))
    assert any(held(3, [0.9] * 10, busy=[0.2] * 10))


def test_nobody_starves_before_a_training_is_there() -> None:
    assert not any(held(3, [1.0] * 10, processes=frozenset()))


def test_another_set_of_processes_begins_anew() -> None:
    gate = Starving(3)
    for t in range(1, 4):
        assert not gate.look(WaitTotals(t * NS, frozenset({0}), float(t)))
    assert not gate.look(WaitTotals(4 * NS, frozenset({0, 1}), 4.0))
    assert not gate.look(WaitTotals(6 * NS, frozenset({0, 1}), 6.0))
    assert gate.look(WaitTotals(7 * NS, frozenset({0, 1}), 7.0))


def test_a_training_that_was_stopped_begins_anew() -> None:
    gate = Starving(3)
    gate.look(WaitTotals(NS, frozenset({0}), 1.0))
    gate.reset()
    assert not gate.look(WaitTotals(5 * NS, frozenset({0}), 5.0))


def test_a_long_window_takes_little_memory() -> None:
    gate = Starving(3600)
    found = [gate.look(WaitTotals(t * NS, frozenset({0}), 0.9 * t)) for t in range(1, 4000)]
    assert len(gate._looks) <= 1.1 * LOOKS
    assert not any(found[:3599])
    assert found[-1]


def run(*, busy: float | None = None, waiting: float = 0.0, trained: bool = True, steps: int = 100) -> Features:
    """A loop of 100 s that waits for `waiting` of them, for `steps` steps."""
    process = Process(
        pid=1, rank=None, wall=110.0, ledger={}, inclusive={}, in_loop={"loader.wait": waiting}, loop=100.0,
        batches=steps, samples=steps, optimizer_steps=steps,
    )  # fmt: skip
    return Features(
        command=(),
        wall=110.0,
        machine=Machine(cpus=1, cpus_seen=1),
        processes=(process,) if trained else (),
        devices=() if busy is None else (Device(index="0", name="H200", busy=busy),),
    )


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"busy": 0.7}, ""),
        ({"busy": 0.699}, "`--fail-under 70` failed: the device was busy in 69.9% of the training loop"),
        ({"busy": 0.9, "waiting": 99.0}, ""),
        ({"waiting": 29.0}, ""),
        (
            {"waiting": 31.0},
            "`--fail-under 70` failed: the training worked in 69.0% of its loop and waited in the rest",
        ),
        (
            {"waiting": 77.7, "steps": 5},
            "`--fail-under 70` failed: the training worked in 22.3% of its loop and waited in the rest; a run too "
            "short to judge by: 5 batches after the warm-up",
        ),
        (
            {"busy": 0.2, "steps": 1},
            "`--fail-under 70` failed: the device was busy in 20.0% of the training loop; a run too short to judge by: "
            "1 batch after the warm-up",
        ),
        ({"busy": 0.9, "steps": 1}, ""),
        ({"trained": False}, "`--fail-under 70` failed: neither a device nor a training loop was measured"),
    ],
)
def test_a_run_below_what_was_asked_is_named_with_its_number(facts, says) -> None:
    assert below(run(**facts), 0.7) == says
