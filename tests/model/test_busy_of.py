"""What nothing makes shorter but the device's own speed: by its clock where that timed all, else by NVML."""

from dataclasses import replace

import pytest

from gputune.features import Device, DeviceStep, Features, Machine, Process
from gputune.model.workload import busy_of
from gputune.verdict.arbitration import ceiling

SEEN = 0.95  # NVML's share: some kernel ran, waited for another rank, or was somebody else's
CARD = Device(index="0", name="H100", busy=SEEN, memory_used=5_000_000_000, memory_total=80_000_000_000)
TIMED = DeviceStep(
    timed=100, whole=0.01, starved=0.0, copying=0.0, compute=0.003, read_waits=0.0, copy_waits=0.0, launch_waits=None
)
PROCESS = Process(
    pid=1, rank=None, wall=10.0, ledger={}, loop=10.0, inclusive={}, batches=1000, samples=1000, optimizer_steps=1000,
    device_step=TIMED,
)  # fmt: skip


def run(process: Process = PROCESS, *cards: Device) -> Features:
    machine = Machine(cpus=64, cpus_seen=64)
    return Features(command=("t",), wall=10.0, machine=machine, processes=(process,), devices=cards or (CARD,))


@pytest.mark.parametrize(
    "differs",
    [
        {"device_step": None},
        {"device_step": replace(TIMED, compute=None)},
        {"loop": 20.0},  # half of it are no steps that were timed
        {"loop": 0.0},
    ],
)
def test_nvml_is_asked_where_the_clock_does_not_know_all_of_the_loop(differs: dict[str, object]) -> None:
    assert busy_of(run(replace(PROCESS, **differs)), CARD) == SEEN


def test_nor_where_it_is_not_known_whose_device_it_is() -> None:
    assert busy_of(run(PROCESS, CARD, replace(CARD, index="1")), CARD) == SEEN


def test_the_clock_is_believed_before_nvml() -> None:
    assert busy_of(run(), CARD) == pytest.approx(0.3)
    assert busy_of(run(PROCESS, replace(CARD, busy=None)), CARD) == pytest.approx(0.3)


@pytest.mark.parametrize("seen", [0.1, SEEN])
def test_it_is_the_ceiling_of_what_the_host_does_inside_of_a_step(seen: float) -> None:
    mine = replace(PROCESS, works=(0.01,) * 100, gaps=(0.0,) * 100)
    assert ceiling(run(mine, replace(CARD, busy=seen)), inside=True) == pytest.approx(1 / 0.3)
    blind = replace(mine, device_step=replace(TIMED, compute=None))
    assert ceiling(run(blind, replace(CARD, busy=seen)), inside=True) == pytest.approx(1 / seen)
