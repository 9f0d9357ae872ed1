"""Which rank a process is, in the words of each launcher."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

GUEST = Path(__file__).resolve().parents[2] / "probes" / "guest" / "gputune_guest"
TORCH = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "1"}


def island():
    spec = importlib.util.spec_from_file_location("island_ranks", GUEST / "ranks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, (None, None, None)),
        (TORCH, (3, 8, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8, None)),
        (MPI, (2, 4, 0)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, (1, 2, 1)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "1"}, (1, 2, 1)),
        (SLURM, (5, 6, 1)),
        ({**SLURM, **TORCH}, (3, 8, 1)),  # torchrun inside of srun
        ({"RANK": "first"}, (None, None, None)),
    ],
)
def test_the_innermost_launcher_has_the_last_word(monkeypatch, variables, told) -> None:
    module = island()
    for names in module.VARIABLES:
        for name in names[:3]:
            monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert module.told() == told


@pytest.mark.parametrize(
    ("size", "launched", "alone"),
    [
        (0, "1", True),  # no group was joined
        (1, "1", True),
        (2, "1", False),  # processes that a script has spawned itself: nothing in the environment says so
        (0, "2", False),
    ],
)
def test_a_process_is_alone_unless_its_launcher_or_its_group_says_otherwise(
    monkeypatch, size: int, launched: str, alone: bool
) -> None:
    module = island()
    for names in module.VARIABLES:
        for name in names[:3]:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", launched)
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: size > 0, get_world_size=lambda: size)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=group))
    assert module.alone() is alone


@pytest.mark.parametrize(("size", "told"), [(0, (None, None, None)), (1, (None, None, None)), (2, (1, 2, None))])
def test_where_no_launcher_says_it_the_group_does_that_was_joined(monkeypatch, size: int, told) -> None:
    module = island()
    for names in module.VARIABLES:
        for name in names[:3]:
            monkeypatch.delenv(name, raising=False)
    group = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: size > 0, get_world_size=lambda: size, get_rank=lambda: 1
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=group))
    assert module.told() == told
    monkeypatch.delitem(sys.modules, "torch")
    assert module.told() == (None, None, None)
