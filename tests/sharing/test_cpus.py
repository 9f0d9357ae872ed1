"""CPUs are divided without overlap, within a node where that goes, and not at all where they are too few."""

import pytest

from gputune.sharing.cpus import sets, threads


def node(first: int, count: int) -> frozenset[int]:
    return frozenset(range(first, first + count))


def test_too_few_are_shared_by_all() -> None:
    assert sets([node(0, 5)], 3) == []


@pytest.mark.parametrize(
    ("nodes", "procs"),
    [([node(0, 8)], 3), ([node(0, 8), node(8, 8)], 4), ([node(0, 8), node(8, 8)], 3), ([node(0, 2), node(2, 14)], 5)],
)
def test_nobody_shares_and_nobody_crosses_a_node(nodes: list[frozenset[int]], procs: int) -> None:
    found = sets(nodes, procs)
    assert len(found) == procs
    assert sum(len(each) for each in found) == len(frozenset().union(*found))
    assert all(any(each <= whole for whole in nodes) and each for each in found)


def test_one_node_is_divided_evenly() -> None:
    assert sets([node(0, 8)], 4) == [node(0, 2), node(2, 2), node(4, 2), node(6, 2)]


@pytest.mark.parametrize(("cores", "procs", "each"), [(16.0, 3, 5), (2.0, 3, 1), (0.5, 1, 1), (8.0, 4, 2)])
def test_threads_are_a_part_of_the_cpus(cores: float, procs: int, each: int) -> None:
    assert threads(cores, procs) == each
