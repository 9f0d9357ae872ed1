"""Which devices and which processes are the job's, from what its environment and /proc say."""

from pathlib import Path

import pytest

from gputune.core.sample import LOST, Target
from gputune.nvml import child
from gputune.nvml.devices import INITIAL_NAMESPACE, Owners, visible
from gputune.nvml.process import NvmlDevice

EIGHT = [NvmlDevice(i, "NVIDIA H200", f"GPU-{i}aaa-1", i, mig=False) for i in range(8)]
PEOPLE = ((7001, 1 << 30, 0.5), (7002, 2 << 30, 0.25))


def test_no_variable_says_nothing() -> None:
    assert visible({}, EIGHT) is None


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("0", (0,)),
        ("3,1", (3, 1)),
        (" 2 , 2 ", (2,)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("1,99,2", (1,)),
        ("GPU-4aaa-1", (4,)),
        ("GPU-5", (5,)),
        ("GPU-", ()),
        ("nonsense", ()),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(value: str, devices: tuple[int, ...]) -> None:
    assert visible({"CUDA_VISIBLE_DEVICES": value}, EIGHT) == devices


@pytest.mark.parametrize("value", ["MIG-77-x", "MIG-GPU-1bbb/1/0"])
def test_an_instance_stands_for_its_device(value: str) -> None:
    devices = [EIGHT[0], NvmlDevice(1, "NVIDIA A100", "GPU-1bbb", 1, mig=True, instances=("MIG-77-x",))]
    assert visible({"CUDA_VISIBLE_DEVICES": value}, devices) == (1,)


def test_indices_of_unlike_devices_are_cudas_own_unless_in_pci_order() -> None:
    unlike = [EIGHT[0], NvmlDevice(1, "NVIDIA T4", "GPU-t4", 1, mig=False)]
    assert visible({"CUDA_VISIBLE_DEVICES": "0"}, unlike) is None
    assert visible({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, unlike) == (0,)


def machine(proc: Path, *, container: bool = False, outer: int = 0, holds: bool = False) -> Owners:
    """Make a /proc in which 42 is the job: also known as `outer`, with /dev/nvidia0 open if it `holds` it."""
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to("pid:[4026532999]" if container else INITIAL_NAMESPACE)
    (proc / "42/fd").mkdir(parents=True)
    pids = f"42\t{outer}" if outer else "42"
    (proc / "42/status").write_text(f"Name:\tpython\nNSpid:\t{pids}\nThreads:\t1\n")
    (proc / "42/fd/3").symlink_to("/dev/nvidiactl")
    if holds:
        (proc / "42/fd/4").symlink_to("/dev/nvidia0")
    return Owners(Target(root_pid=42, pids=lambda: {42: "main"}, proc=proc))


def test_a_pid_of_the_tree_is_the_jobs(tmp_path: Path) -> None:
    owners = machine(tmp_path)
    (tmp_path / "7001").mkdir()
    assert owners.split([(42, 1, 0.1), PEOPLE[0]], 0) == ([(42, 1, 0.1)], [PEOPLE[0]])


def test_a_pid_of_another_namespace_is_mapped(tmp_path: Path) -> None:
    owners = machine(tmp_path, outer=7001)
    (tmp_path / "7002").mkdir()
    assert owners.split(PEOPLE, 0) == ([PEOPLE[0]], [PEOPLE[1]])


def test_a_hidden_pid_is_the_jobs_if_the_job_holds_the_device_and_nobody_else_can_be_meant(tmp_path: Path) -> None:
    owners = machine(tmp_path, container=True, holds=True)
    assert owners.split(PEOPLE[:1], 0) == ([PEOPLE[0]], [])
    assert owners.split(PEOPLE, 0) is None
    assert owners.split(PEOPLE[:1], 1) is None


def test_a_hosts_pid_that_happens_to_be_one_of_ours_is_not_the_jobs(tmp_path: Path) -> None:
    owners = machine(tmp_path, container=True, holds=True)
    (tmp_path / "43/fd").mkdir(parents=True)
    (tmp_path / "43/fd/9").symlink_to("/dev/nvidia0")
    target = Target(root_pid=42, pids=lambda: {42: "main", 43: "main"}, proc=tmp_path)
    (tmp_path / "42/fd/4").unlink()
    owners = Owners(target)
    assert owners.split([(42, 1, 0.1)], 0) == ([(42, 1, 0.1)], [])  # one holder, one hidden pid: it is the holder
    assert owners.split([(42, 1, 0.1), PEOPLE[0]], 0) is None


def test_an_empty_device_belongs_to_nobody(tmp_path: Path) -> None:
    assert machine(tmp_path).split([], 0) == ([], [])


def test_a_lost_device_is_told_by_the_words_that_verdicts_know_it_by() -> None:
    assert child.WHY[15].startswith(LOST)
