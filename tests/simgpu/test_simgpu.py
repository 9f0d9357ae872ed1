"""The simulated card behaves as the tests and the zoo take for granted."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from simgpu import Cards, Device, DeviceLostError, OutOfMemoryError, create

HERE = Path(__file__).parent
Maker = Callable[..., Cards]
# Tolerances are wide: this machine is shared. Card time itself is computed and exact.
HOLD = (
    "import sys; sys.path.insert(0, {here!r}); from simgpu import Device; g = Device(); {work};"
    "print('up', flush=True); input()"
)


def other_process(work: str) -> subprocess.Popen[str]:
    """Start a process that does `work` with the card `g` and then holds it until its input ends."""
    code = HOLD.format(here=str(HERE), work=work)
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)


def busy() -> Device:
    """Return a card that has work for a while: what is queued now follows without a gap, however slow we are."""
    gpu = Device()
    gpu.launch(0.5)
    return gpu


def test_a_kernel_takes_its_time_and_no_more(simgpu: Maker) -> None:
    simgpu()
    gpu = busy()
    before = gpu.record()
    for _ in range(100):
        gpu.launch(0.0005)
    assert gpu.record().elapsed_since(before) == pytest.approx(0.05, abs=1e-4)


def test_a_launch_does_not_wait_for_the_kernel(simgpu: Maker) -> None:
    simgpu()
    gpu = Device()
    gpu.launch(30.0)
    assert not gpu.record().query()
    gpu.close()


def test_two_processes_take_turns(simgpu: Maker) -> None:
    simgpu()
    other = other_process("g.launch(60.0)")
    gpu = Device()
    before = gpu.record()
    gpu.launch(0.05)
    assert gpu.record().elapsed_since(before) == pytest.approx(0.1, abs=1e-3)
    other.kill()
    end(other)


def test_a_killed_process_leaves_the_card(simgpu: Maker) -> None:
    simgpu()
    other = other_process("g.launch(3600.0); g.alloc(70 << 30)")
    os.kill(other.pid, signal.SIGKILL)
    other.wait(timeout=60)
    gpu = Device()
    gpu.launch(0.3)  # longer than the card takes to notice
    gpu.synchronize()
    gpu.alloc(70 << 30)
    end(other)


def test_lower_clocks_make_kernels_longer(simgpu: Maker) -> None:
    simgpu().set(clock_sm=990)
    gpu = busy()
    before = gpu.record()
    gpu.launch(0.02)
    assert gpu.record().elapsed_since(before) == pytest.approx(0.04, abs=1e-4)


def test_a_blocking_copy_waits_for_the_stream_and_a_pinned_one_need_not(simgpu: Maker) -> None:
    simgpu()
    gpu = Device()
    gpu.launch(0.02)
    mark = gpu.record()
    gpu.copy_h2d(1 << 20)
    assert mark.query()
    gpu.launch(60.0)
    gpu.copy_h2d(1 << 20, pinned=True, non_blocking=True)
    assert not gpu.record().query()
    gpu.close()


def test_memory_is_finite(simgpu: Maker) -> None:
    simgpu()
    gpu = Device()
    gpu.alloc(60 << 30)
    with pytest.raises(OutOfMemoryError):
        gpu.alloc(30 << 30)
    gpu.free(60 << 30)
    gpu.alloc(30 << 30)


def test_a_lost_card_raises(simgpu: Maker) -> None:
    cards = simgpu(devices=2)
    gpu = Device(1)
    cards.set(1, lost=1)
    with pytest.raises(DeviceLostError):
        gpu.launch(0.1)


def test_a_forked_child_has_a_place_of_its_own(simgpu: Maker) -> None:
    simgpu()
    gpu = Device()
    gpu.launch(60.0)
    pid = os.fork()
    if not pid:
        gpu.launch(0.001)
        gpu.synchronize()
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    gpu.close()


def test_the_command_gets_its_status_and_the_simulated_nvml(tmp_path: Path) -> None:
    code = "import pynvml as n, sys; n.nvmlInit(); print(n.nvmlDeviceGetCount()); sys.exit(7)"
    done = subprocess.run(
        [sys.executable, HERE / "run.py", "--devices", "3", "--", sys.executable, "-c", code],
        check=False,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (7, b"3\n")


def test_a_state_is_not_made_twice(simgpu: Maker, tmp_path: Path) -> None:
    create(tmp_path / "one")
    with pytest.raises(OSError, match="one"):
        create(tmp_path / "one")
