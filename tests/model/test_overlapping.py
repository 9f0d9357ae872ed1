"""An ordinary step as host and device share it, and what it takes with less in the host's lane."""

from dataclasses import replace

import pytest

from gputune.features import Device, Features, Frame, Loader, Machine, Process
from gputune.model.overlapping import gain, lanes

CARD = Device(index="0", name="A", busy=0.5)


def run(*, devices: tuple[Device, ...] = (CARD,), **differs: object) -> Features:
    """A loop of 100 steps of 100 ms, on a device that is busy half of the time."""
    loader = Loader(
        where="t.py:1",
        num_workers=0,
        prefetch_factor=None,
        pin_memory=False,
        persistent_workers=False,
        batch_size=8,
        batches=100,
        waits=(0.0,) * 100,
        steps=(0.1,) * 100,
        step_cpus=(0.06,) * 20,
    )
    facts = {
        "pid": 1,
        "rank": None,
        "wall": 11.0,
        "ledger": {},
        "inclusive": {},
        "loop": 10.0,
        "batches": 100,
        "samples": 800,
        "optimizer_steps": 100,
        "loaders": (loader,),
    }
    pauses = differs.pop("pauses", {})
    process = Process(**{**facts, "loaders": (replace(loader, pauses=pauses),), **differs})
    machine = Machine(cpus=2, cpus_seen=2)
    return Features(command=("t",), wall=11.0, machine=machine, processes=(process,), devices=devices)


def of(found: Features):
    return lanes(found, found.processes[0])


def test_nothing_is_known_without_a_device_or_without_steps() -> None:
    assert of(run(devices=())) is None
    assert of(run(devices=(replace(CARD, busy=None),))) is None
    assert of(run(batches=0, optimizer_steps=0)) is None


def test_pauses_that_are_no_steps_are_left_out() -> None:
    found = of(run(in_loop={"evaluation": 2.0, "checkpoint": 1.0}))
    assert found.step == pytest.approx(0.07)
    assert found.device == pytest.approx(0.5 * 0.07)


def test_the_rare_long_waits_are_no_ordinary_ones() -> None:
    assert of(run(pauses={"sync": (0.01,) * 96 + (5.0,) * 4})).synced == pytest.approx(0.01)
    assert of(run(pauses={"sync": (0.0,) * 96 + (5.0,) * 4})).synced == 0.0


def test_loaders_that_take_turns_share_their_steps() -> None:
    """Between two batches of one lies a batch of the other, and the reading once."""
    found = run(pauses={"sync": (0.04,) * 50}, batches=200)
    assert of(found).step == pytest.approx(0.05)
    assert of(found).synced == pytest.approx(0.02)


def test_what_a_device_idles_inside_of_a_step_is_no_work_of_it() -> None:
    """Its own clock runs from the start of a step to its end."""
    assert of(run(works=(0.099,) * 50)).device == pytest.approx(0.05)
    assert of(run(works=(0.030,) * 50)).device == pytest.approx(0.03)


def test_what_the_host_launches_is_told_by_the_stacks_or_else_by_the_backward_pass() -> None:
    forward = Frame(where="n.py:1", function="forward", share=0.5, compute=True)
    frames = (forward, Frame(where="t.py:9", function="log", share=0.5, compute=False))
    assert of(run(frames=frames, stack_samples=100)).launching == pytest.approx(0.05)
    assert of(run(frames=frames, stack_samples=3, backward=2.0)).launching == pytest.approx(0.02)
    assert of(run(backward=20.0)).launching == pytest.approx(0.06)  # never more than it computes


@pytest.mark.parametrize(("saved", "left"), [(0.0, 0.1), (0.03, 0.07), (0.09, 0.05)])
def test_no_step_is_shorter_than_the_devices_work(saved: float, left: float) -> None:
    assert of(run()).without(saved) == pytest.approx(left)


def test_only_the_steps_of_a_loop_get_shorter() -> None:
    found = run(in_loop={"evaluation": 5.0})
    speedup = gain(found.processes[0], 0.05, 0.045, 0.04, 0.03)
    assert speedup.likely == pytest.approx(10 / 9)
    assert speedup.low == pytest.approx(10 / 9.5 * 0.95)
    assert speedup.high == pytest.approx(10 / 8 * 1.05)
