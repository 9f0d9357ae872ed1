"""host-bound speaks when the device waits for kernels that the host is busy launching."""

from dataclasses import replace

import pytest

from gputune.advisors.host_bound import advise
from gputune.features import DeviceStep, Features, Frame

LAUNCHING = Frame(where="net.py:12", function="forward", share=0.9, compute=True)
COUNTING = Frame(where="train.py:70", function="metrics", share=0.9, compute=False)


@pytest.fixture
def launching(run, device):
    """A run of steps of 20 ms in which the host computes for 19, mostly under torch, and the device for 5."""

    def build(
        *, busy: float = 0.25, cpu: float = 0.019, frames=(LAUNCHING,), stacks=100, backward=0.0, **more
    ) -> Features:
        found = run(
            num_workers=4, blocked=0.001, waits=(0.0,), step=0.020, devices=(device(busy=busy),), frames=frames, **more
        )
        (process,) = found.processes
        (loader,) = process.loaders
        loader = replace(loader, step_cpus=(cpu,) * 20)
        return replace(found, processes=(replace(process, loaders=(loader,), stack_samples=stacks, backward=backward),))

    return build


def test_is_silent_where_the_device_is_busy_or_not_used(launching) -> None:
    assert list(advise(launching(busy=0.8))) == []
    assert list(advise(launching(busy=0.01))) == []
    assert list(advise(replace(launching(), devices=()))) == []


def test_is_silent_where_the_host_waits(launching) -> None:
    assert list(advise(launching(cpu=0.005))) == []
    assert list(advise(launching(pauses={"sync": (0.008,)}))) == []


def test_is_silent_where_the_host_computes_something_else(launching) -> None:
    assert list(advise(launching(frames=(COUNTING,)))) == []


def test_is_silent_before_the_warm_up_is_over(launching) -> None:
    assert list(advise(launching(batches=7, kept=7))) == []


def test_names_the_launching_and_what_graphs_would_leave(launching) -> None:
    (finding,) = advise(launching())
    assert finding.id == "host-bound"
    assert "busy 25% of the time and waits for the host, which computes 18 of 20 ms" in finding.says
    assert "torch.compile" in finding.do
    assert finding.effect == "changes-rounding"
    assert finding.speedup.likely == pytest.approx(4, rel=0.01)  # graphs launch once: the device's own 5 ms stay
    assert finding.speedup.high == pytest.approx(4 * 1.05, rel=0.01)
    assert finding.speedup.low < 1.4


def test_without_stacks_only_the_backward_pass_is_sure(launching) -> None:
    assert list(advise(launching(stacks=0))) == []
    (finding,) = advise(launching(stacks=0, backward=400 * 0.011))
    assert finding.evidence["launching_s"] == pytest.approx(0.011)


def test_what_all_ranks_do_alike_is_said_once(launching) -> None:
    found = launching()
    (process,) = found.processes
    assert len(list(advise(replace(found, processes=(process, replace(process, pid=101)))))) == 1


def test_an_optimizer_that_launches_one_by_one_is_told_from_the_rest(launching) -> None:
    found = launching()
    (process,) = found.processes
    (finding,) = advise(replace(found, processes=(replace(process, optimizing=400 * 0.014),)))
    assert "14 ms of it after the backward pass" in finding.says
    assert "fused=True" in finding.do
    assert "compile" not in finding.do
    assert finding.speedup.likely == pytest.approx(20 / (20 - 0.9 * 14), rel=0.01)
    assert finding.speedup.low > 1.8


def test_an_optimizer_that_takes_the_lesser_part_is_no_cause_of_its_own(launching) -> None:
    found = launching()
    (process,) = found.processes
    (finding,) = advise(replace(found, processes=(replace(process, optimizing=400 * 0.005),)))
    assert "after the backward pass" not in finding.says
    assert "torch.compile" in finding.do


def test_a_device_that_copies_between_its_kernels_does_not_wait_for_launches(launching) -> None:
    found = launching()
    (process,) = found.processes
    timed = DeviceStep(timed=50, whole=0.02, starved=0.0, copying=0.013, compute=0.005, read_waits=0.0, copy_waits=0.0)
    copies = replace(process, device_step=timed)
    assert list(advise(replace(found, processes=(copies,)))) == []
    fewer = replace(process, device_step=replace(timed, copying=0.003))
    (finding,) = advise(replace(found, processes=(fewer,)))
    assert finding.speedup.likely == pytest.approx(20 / 8, rel=0.01)


@pytest.mark.parametrize(("update", "likely"), [(0.0, 4.0), (0.0038, 20 / 3.8)])
def test_an_optimizers_shortest_kernels_go_with_their_launches(launching, update: float, likely: float) -> None:
    """Of 5 ms on the device 3.8 are the optimizer's, in kernels that run for a fifth of what launching them takes."""
    found = launching()
    (process,) = found.processes
    timed = DeviceStep(
        timed=100, whole=0.020, starved=0.0, copying=0.0, compute=0.005, read_waits=0.0, copy_waits=0.0, update=update
    )
    process = replace(process, optimizing=400 * 0.018, device_step=timed)
    (finding,) = advise(replace(found, processes=(process,)))
    assert finding.speedup.likely == pytest.approx(likely, rel=0.01)
