"""The CPUs divided among processes: sets of their own, within one NUMA node where that goes, and threads to match."""

from collections.abc import Sequence

LEAST_CPUS = 2  # CPUs in a set of one's own: with a single one, a training and its loader wait for each other


def sets(nodes: Sequence[frozenset[int]], procs: int) -> list[frozenset[int]]:
    """Return a set of CPUs for each process; none at all where there are fewer than LEAST_CPUS for each.

    Processes go to the nodes in turn, and those of one node divide it; neighbours in number stay together, for they
    are often threads of one core.
    """
    if sum(len(node) for node in nodes) < LEAST_CPUS * procs:
        return []
    on: list[list[int]] = [[] for _ in nodes]
    for process in range(procs):
        free = max(range(len(nodes)), key=lambda n: (len(nodes[n]) / (len(on[n]) + 1), -n))
        on[free].append(process)
    found: dict[int, frozenset[int]] = {}
    for node, members in zip(nodes, on, strict=True):
        cpus = sorted(node)
        for place, process in enumerate(members):
            first, last = (len(cpus) * end // len(members) for end in (place, place + 1))
            found[process] = frozenset(cpus[first:last])
    return [found[process] for process in range(procs)]


def threads(cores: float, procs: int) -> int:
    """Return how many threads each process should compute with: its part of the CPUs, at least one."""
    return max(1, int(cores / procs))
