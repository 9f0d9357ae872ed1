"""Rows as metrics: names, units and labels that Prometheus' own parser takes, and nothing that was not measured."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputune.feeds.rows import DeviceRow, Node, Pressure, RunRow
from gputune.verdict.document import Verdict

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from gputune.nodes import exposition
from gputune.nodes.exposition import Exposition

ROOT = Path(__file__).parents[2]
CARD = DeviceRow(
    index="0", name="NVIDIA H100", uuid="GPU-1", busy=0.4, memory_used=10.0, power=300.0, temperature=50.0,
    clock=1.5e9, held="power cap, sync boost", job="m8/run",
)  # fmt: skip
NODE = Node(name="m8", link="up", devices=(CARD,), cpus=8.0, cpu=2.0, memory_used=5.0, pressure=Pressure(io=0.25))


def verdict(**differs: object) -> Verdict:
    process = {
        "pid": 1, "rank": 3, "seen": True, "why": "", "wall_s": 9.0, "startup_s": 0.0, "loop_s": 9.0, "batches": 50,
        "optimizer_steps": 50, "samples_per_s": 80.0,
    }  # fmt: skip
    finding = {
        "id": "few-workers", "severity": "high", "share_lost": 0.5, "speedup": {"low": 1.5, "likely": 2.0, "high": 2.2},
        "says": "it waits", "do": "", "where": "", "change": {}, "evidence": {}, "basis": "", "falsified_by": "",
        "effect": "same-order",
    }  # fmt: skip
    plain: dict[str, object] = {
        "command": ["x"], "exit_code": None, "wall_s": 9.0, "samples_per_s": 80.0, "batches": 50,
        "device": {"name": "sim", "busy": 0.4}, "loaders": [], "processes": [process], "findings": [finding],
        "ledger": [{"span": "loader.wait", "seconds": 4.5, "share": 0.5}], "overhead": {}, "unavailable": [],
    }  # fmt: skip
    return msgspec.convert({**plain, **differs}, Verdict)


def run(**differs: Any) -> RunRow:
    return msgspec.structs.replace(
        RunRow(id="m8/run", node="m8", name="train", job="77", pid=4711, verdict=verdict()), **differs
    )


def told(*rows: Node | RunRow, accept: str = "") -> dict[tuple[str, ...], float]:
    """Return what a scrape tells: name and labels to the value."""
    nodes, runs = [r for r in rows if isinstance(r, Node)], [r for r in rows if isinstance(r, RunRow)]
    encode, _ = choose_encoder(accept)
    text = encode(Exposition(lambda: (nodes, runs))).decode()
    families = list((parse_open if "openmetrics" in accept else parse)(text))
    return {(s.name, *(f"{k}={v}" for k, v in sorted(s.labels.items()))): s.value for f in families for s in f.samples}


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_a_device_has_the_labels_of_dcgm_exporter_and_its_run(accept: str) -> None:
    found = told(NODE, run(), accept=accept)
    labels = ("Hostname=m8", "UUID=GPU-1", "gpu=0", "hpc_job=77", "modelName=NVIDIA H100")
    assert found[("gputune_gpu_busy_ratio", *labels, "pid=4711", "run=m8/run")] == 0.4
    assert found[("gputune_gpu_power_watts", *labels, "pid=4711", "run=m8/run")] == 300.0
    assert found[("gputune_gpu_temperature_celsius", *labels, "pid=4711", "run=m8/run")] == 50.0
    assert found[("gputune_gpu_clocks_held", *labels, "pid=4711", "reason=sync boost", "run=m8/run")] == 1.0


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_a_run_has_its_ledger_its_findings_and_its_ranks(accept: str) -> None:
    found = told(NODE, run(), accept=accept)
    of = ("Hostname=m8", "hpc_job=77", "pid=4711")
    assert found[("gputune_run_span_seconds_total", *of, "run=m8/run", "span=loader.wait")] == 4.5
    assert found[("gputune_run_span_ratio", *of, "run=m8/run", "span=loader.wait")] == 0.5
    assert found[("gputune_rank_batches_total", *of, "rank=3", "run=m8/run")] == 50
    at = ("Hostname=m8", "finding=few-workers", "hpc_job=77", "pid=4711", "run=m8/run", "severity=high")
    assert found[("gputune_run_finding_speedup_ratio", *at)] == 2.0


def test_shares_and_rates_are_of_the_last_minute_and_counts_of_the_whole() -> None:
    recent = verdict(ledger=[{"span": "loader.wait", "seconds": 1.0, "share": 0.1}], samples_per_s=8.0)
    found = told(NODE, run(recent=recent))
    of = ("Hostname=m8", "hpc_job=77", "pid=4711", "run=m8/run")
    assert found[("gputune_run_span_ratio", *of, "span=loader.wait")] == 0.1
    assert found[("gputune_run_span_seconds_total", *of, "span=loader.wait")] == 4.5
    assert found[("gputune_run_samples_per_second", *of)] == 8.0


def test_what_was_not_measured_is_not_there() -> None:
    names = {name for name, *_ in told(Node(name="m9", link="up"))}
    assert names == {"gputune_node_up"}


def test_a_run_that_has_ended_and_a_node_that_is_down_tell_nothing() -> None:
    down = msgspec.structs.replace(NODE, name="m9", link="down")
    found = told(NODE, down, run(state="ended"), run(id="m9/run", node="m9"))
    assert found["gputune_node_up", "Hostname=m9"] == 0.0
    assert {name for name, *labels in found if "Hostname=m9" in labels} == {"gputune_node_up"}
    assert not [name for name, *_ in found if name.startswith(("gputune_run_", "gputune_rank_"))]


def test_processes_without_a_rank_are_one() -> None:
    process = msgspec.to_builtins(verdict().processes[0])
    both = verdict(processes=[{**process, "rank": None}, {**process, "rank": None, "pid": 2}])
    of = ("Hostname=m8", "hpc_job=77", "pid=4711", "rank=", "run=m8/run")
    assert told(NODE, run(verdict=both))[("gputune_rank_batches_total", *of)] == 100


def test_a_run_keeps_its_labels_while_others_of_its_name_come_and_go() -> None:
    """The screen calls the second of a name by the folder that it is in, whichever that is."""
    node = msgspec.structs.replace(NODE, devices=())
    alone = told(node, run(id="m8/b/run", pid=5))
    beside = told(node, run(), run(id="m8/b/run", pid=5))
    assert alone.items() <= beside.items()
    infos = [labels for name, *labels in beside if name == "gputune_run_info"]
    assert [labels[2:] for labels in sorted(infos)] == [["name=train", f"pid={n}", "run=m8/run"] for n in (4711, 5)]


def test_a_hostile_name_stays_a_label() -> None:
    evil = 'x"} 1\ngputune_node_up{Hostname="y'
    found = told(msgspec.structs.replace(NODE, name=evil, devices=()), run(node=evil, job='a"b\\'))
    assert found["gputune_node_up", f"Hostname={evil}"] == 1.0
    assert [labels for name, *labels in found if name == "gputune_node_up"] == [[f"Hostname={evil}"]]


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    text = (ROOT / "deploy" / "grafana.json").read_text()
    json.loads(text)
    source = Path(exposition.__file__).read_text()
    for name in set(re.findall(r"gputune_\w+", text)):
        assert f'"{name.removesuffix("_total")}"' in source, name


def test_every_metric_is_told_of() -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    for name in re.findall(r'"(gputune_\w+)"', Path(exposition.__file__).read_text()):
        assert name in page, name
