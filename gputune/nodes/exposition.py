"""The rows of an agent as metrics for Prometheus: node_exporter's units and suffixes, dcgm-exporter's labels.

docs/agents.md lists them. What was not measured is not there; of a node whose link is down there is `gputune_node_up`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gputune.feeds.rows import DeviceRow, Node, RunRow
from gputune.verdict.document import Verdict

Rows = Callable[[], tuple[Sequence[Node], Sequence[RunRow]]]
Family: TypeAlias = Any  # GaugeMetricFamily or CounterMetricFamily: the package may not be there
HERE = ("local", "up", "late")  # links of nodes whose numbers are fresh
DEVICE = ("gpu", "UUID", "modelName", "Hostname", "hpc_job", "run", "pid")
RUN = ("run", "Hostname", "hpc_job", "pid")
# field of a device's row to the metric's name, and what it is
DEVICES = {
    "busy": ("gputune_gpu_busy_ratio", "Share of time with a kernel running."),
    "sm_active": ("gputune_gpu_sm_active_ratio", "Share of time and SMs with a warp resident."),
    "memory_used": ("gputune_gpu_memory_used_bytes", "Device memory in use."),
    "memory_total": ("gputune_gpu_memory_total_bytes", "Device memory."),
    "power": ("gputune_gpu_power_watts", "Power draw."),
    "power_limit": ("gputune_gpu_power_limit_watts", "Power limit."),
    "temperature": ("gputune_gpu_temperature_celsius", "Temperature."),
    "clock": ("gputune_gpu_clock_hertz", "SM clock."),
    "clock_max": ("gputune_gpu_clock_max_hertz", "Highest SM clock."),
    "received": ("gputune_gpu_pcie_received_bytes_per_second", "Received over PCIe."),
    "sent": ("gputune_gpu_pcie_sent_bytes_per_second", "Sent over PCIe."),
}
NODES = {
    "cpus": ("gputune_node_cpus", "CPUs that may be used."),
    "cpu": ("gputune_node_cpus_busy", "CPUs in use."),
    "iowait": ("gputune_node_cpu_iowait_ratio", "Share of CPU time waiting for storage."),
    "memory_used": ("gputune_node_memory_used_bytes", "Memory in use."),
    "memory_total": ("gputune_node_memory_total_bytes", "Memory."),
    "shm_free": ("gputune_node_shm_free_bytes", "Free in /dev/shm."),
    "shm_total": ("gputune_node_shm_total_bytes", "Size of /dev/shm."),
}


class Exposition(Collector):  # type: ignore[misc, unused-ignore] # as above
    """Makes families of what `rows` gives, whenever it is asked, none of them empty. Raises what `rows` raises."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Family]:
        """Yield the families."""
        nodes, runs = self._rows()
        here = {node.name for node in nodes if node.link in HERE}
        live = {run.id: run for run in runs if run.state == "live" and run.node in here}
        up = GaugeMetricFamily("gputune_node_up", "Whether the node's numbers are fresh.", labels=("Hostname",))
        for node in nodes:
            up.add_metric((node.name,), float(node.name in here))
        families = (up, *_machines([n for n in nodes if n.name in here], live), *_runs(list(live.values())))
        yield from (family for family in families if family.samples)


def _machines(nodes: Sequence[Node], runs: dict[str, RunRow]) -> Iterator[Family]:
    for field, (name, says) in NODES.items():
        yield _family(name, says, ("Hostname",), (((node.name,), getattr(node, field)) for node in nodes))
    yield _family(
        "gputune_node_pressure_ratio",
        "Share of the last second in which some task waited.",
        ("Hostname", "resource"),
        (((n.name, kind), getattr(n.pressure, kind)) for n in nodes for kind in ("cpu", "io", "memory")),
    )
    devices = [(node, device) for node in nodes for device in node.devices]
    for field, (name, says) in DEVICES.items():
        known = ((_device(node, device, runs), getattr(device, field)) for node, device in devices)
        yield _family(name, says, DEVICE, known)
    yield _family(
        "gputune_gpu_clocks_held",
        "1 while something holds the clocks of a working device down.",
        (*DEVICE, "reason"),
        (((*_device(node, d, runs), why), 1.0) for node, d in devices for why in d.held.split(", ") if why),
    )


def _device(node: Node, device: DeviceRow, runs: dict[str, RunRow]) -> tuple[str, ...]:
    run = runs.get(device.job)
    name, _, job, pid = _run(run) if run else (device.job, "", "", "")
    return device.index, device.uuid, device.name, node.name, job, name, pid


def _runs(runs: Sequence[RunRow]) -> Iterator[Family]:
    judged = [(_run(run), run.verdict) for run in runs if run.verdict is not None]
    recent = [(_run(run), run.recent or run.verdict) for run in runs]
    now = [(labels, verdict) for labels, verdict in recent if verdict is not None]
    yield _family(
        "gputune_run_info",
        "1 for each run that goes on.",
        (*RUN, "name"),
        (((*_run(run), run.name), 1.0) for run in runs),
    )
    yield _family(
        "gputune_run_span_seconds",
        "Time of the run by the words of its ledger, mean of its training processes.",
        (*RUN, "span"),
        (((*labels, row.span), row.seconds) for labels, verdict in judged for row in verdict.ledger),
        counts=True,
    )
    yield _family(
        "gputune_run_span_ratio",
        "Its share of the last minute.",
        (*RUN, "span"),
        (((*labels, row.span), row.share) for labels, verdict in now for row in verdict.ledger),
    )
    yield _family(
        "gputune_run_device_busy_ratio",
        "Share of the last minute that its devices were busy, mean of them.",
        RUN,
        ((labels, verdict.device.busy) for labels, verdict in now),
    )
    yield _family(
        "gputune_run_samples_per_second",
        "Samples a second in the last minute.",
        RUN,
        ((labels, verdict.samples_per_s) for labels, verdict in now),
    )
    yield _family(
        "gputune_run_finding_speedup_ratio",
        "A finding on the run, and the speed-up that its change is likely to bring.",
        (*RUN, "finding", "severity"),
        (((*labels, f.id, f.severity), f.speedup.likely) for labels, verdict in judged for f in verdict.findings),
    )
    yield from _ranks(judged, now)


def _ranks(judged: Sequence[tuple[Any, Verdict]], now: Sequence[tuple[Any, Verdict]]) -> Iterator[Family]:
    ranked = (*RUN, "rank")
    yield _family(
        "gputune_rank_batches",
        "Batches that a training process got.",
        ranked,
        (((*labels, _rank(p.rank)), p.batches) for labels, v in judged for p in v.processes if p.seen),
        counts=True,
    )
    yield _family(
        "gputune_rank_samples_per_second",
        "Samples a second of a training process in the last minute.",
        ranked,
        (((*labels, _rank(p.rank)), p.samples_per_s) for labels, v in now for p in v.processes if p.seen),
    )


def _run(run: RunRow) -> tuple[str, str, str, str]:
    """Return the labels of a run: its folder's name, whoever else is called so, and the command's pid, for then."""
    return f"{run.node}/{run.id.rpartition('/')[2]}", run.node, run.job, str(run.pid or "")


def _rank(rank: int | None) -> str:
    return "" if rank is None else str(rank)


def _family(name: str, says: str, labels: Sequence[str], known: Any, *, counts: bool = False) -> Family:
    """Return a family of what is known; where two have the same labels (processes without a rank) it is their sum."""
    made = (CounterMetricFamily if counts else GaugeMetricFamily)(name, says, labels=labels)
    found: dict[tuple[str, ...], float] = {}
    for label, value in known:
        if value is not None:
            found[label] = found.get(label, 0.0) + value
    for label, value in found.items():
        made.add_metric(label, value)
    return made
