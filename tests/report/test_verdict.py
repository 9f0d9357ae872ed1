"""The findings.json document, its schema and its description stay one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from gputune.core.finding import Finding, Speedup
from gputune.core.sample import Guest
from gputune.features import Features, HeldBack, Loader, Machine, Process
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, Verdict, build, to_json
from gputune.verdict.document import Settings, SpeedupRow, TriedRow, Tuned

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "findings.schema.json").read_text())
CONTRACT = {
    "schema_version", "command", "exit_code", "wall_s", "samples_per_s", "batches", "device", "loaders", "ledger",
    "findings", "overhead", "unavailable",
}  # fmt: skip

Make = Callable[..., Any]


OWN = Settings(num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False)
NOW = Settings(num_workers=4, prefetch_factor=2, pin_memory=False, persistent_workers=False)
TUNED = Tuned(
    mode="all",
    state="kept",
    where="train.py:41",
    own=OWN,
    now=NOW,
    speedup=SpeedupRow(low=3.7, likely=3.8, high=3.9),
    tries=[TriedRow(settings=NOW, predicted=3000.0, samples_per_s=3100.0, low=3050.0, high=3150.0, state="ok")],
    since_s=12.5,
    since_batch=312,
)


def document(
    run: Features, *findings: Finding, guests: tuple[Guest, ...] | None = None, tuned: Tuned | None = None
) -> dict[str, Any]:
    """Return the document as an outsider reads it, after holding it against the schema."""
    overhead = Overhead(sampler_cpu_share=0.004, guest_us_per_batch=1.1, in_python=["hooks"])
    read: dict[str, Any] = json.loads(to_json(build(run, findings, overhead=overhead, guests=guests, tuned=tuned)))
    jsonschema.validate(read, SCHEMA)
    return read


def test_holds_every_field_of_the_contract(features: Make, finding: Make) -> None:
    read = document(features(), finding())
    assert read.keys() >= CONTRACT
    assert read["device"] == {"name": "NVIDIA H200", "busy": 0.41, "count": 1, "coverage": 1.0, "why": ""}
    assert read["loaders"][0].items() >= {"where": "train.py:41", "num_workers": 0, "batch_size": 16}.items()
    assert read["findings"][0]["speedup"] == {"low": 1.9, "likely": 2.2, "high": 2.3, "at_least": False}
    assert read["findings"][0]["change"] == {"num_workers": 6}
    assert read["overhead"] == {"sampler_cpu_share": 0.004, "guest_us_per_batch": 1.1, "in_python": ["hooks"]}


def test_who_used_the_cpus_is_told_of_a_training(features: Make) -> None:
    machine = Machine(cpus=8, cpus_seen=16, job=2.5, others=1.25)
    assert document(features(machine=machine))["cpu"] == {"allowed": 8, "job": 2.5, "others": 1.25}
    assert document(features(processes=()))["cpu"] is None


def test_the_schema_knows_every_field_and_no_other(features: Make, process: Make, finding: Make) -> None:
    guests = (Guest(0, 1, 0, 0, 0, "main", "hello"),)
    ran = process(held_back=HeldBack(holds=3, device=0.05, delays=2, workers=0.008, fills=1, slopes=4))
    run = features(unavailable={"nvml": "no driver"}, processes=(ran,))
    read = document(run, finding(), guests=guests, tuned=TUNED)
    counts = {"holds": 3, "delays": 2, "fills": 1, "lone": 0, "slopes": 4}
    assert read["experiments"] == {**counts, "share": pytest.approx(0.001)}
    assert read["perhaps"] == []

    def compare(schema: dict[str, Any], value: Any, path: str) -> None:
        schema = next((s for s in schema.get("anyOf", []) if s.get("type") == "object"), schema)
        if isinstance(value, dict) and "properties" in schema:
            assert value.keys() == schema["properties"].keys(), path
            for name, inner in value.items():
                compare(schema["properties"][name], inner, f"{path}.{name}")
        elif isinstance(value, list) and value and "items" in schema:
            compare(schema["items"], value[0], f"{path}[0]")

    compare(SCHEMA, read, "findings.json")


def test_the_description_names_every_field_of_the_document() -> None:
    text = (DOCS / "findings.md").read_text()
    assert [f for f in SCHEMA["properties"] if f"`{f}`" not in text] == []


def test_can_be_read_back_as_the_same_verdict(features: Make, finding: Make) -> None:
    verdict = build(features(), [finding()], overhead=Overhead())
    assert msgspec.json.decode(to_json(verdict), type=Verdict) == verdict


def test_the_ledger_adds_to_one_over_ranks_of_different_length(features: Make, process: Make) -> None:
    ranks = (process(rank=0), process(rank=1, wall=31.0, ledger={"step": 30.0, "startup": 1.0}))
    ledger = document(features(processes=ranks))["ledger"]
    assert sum(row["share"] for row in ledger) == pytest.approx(1.0, abs=0.01)
    assert ledger[1] == {
        "span": "loader.wait",
        "seconds": pytest.approx(17.55),
        "share": pytest.approx(0.381, abs=1e-3),
        "margin": None,
    }


def test_samples_a_second_are_those_of_the_loops_of_all_ranks_together(features: Make, process: Make) -> None:
    ranks = (process(rank=0, samples=1000, loop=10.0), process(rank=1, samples=1000, loop=20.0))
    assert document(features(processes=ranks))["samples_per_s"] == pytest.approx(150.0)


def test_a_loop_without_a_loader_has_steps_a_second_and_no_samples(features: Make, process: Make) -> None:
    read = document(features(processes=(process(loaders=(), batches=0, samples=0, optimizer_steps=580),)))
    assert read["samples_per_s"] is None
    assert read["steps_per_s"] == pytest.approx(10.0)


def test_batches_whose_samples_nobody_counted_are_its_pace(features: Make, process: Make) -> None:
    """Of a CUDA graph the optimizer is called as it is captured, and never again: 0.4 steps/s were said of 70."""
    run = features(processes=(process(batches=638, samples=0, optimizer_steps=4, loop=9.0),))
    shown = render(build(run, [], overhead=Overhead()), width=100)
    assert "70.9 batches/s" in shown
    assert "steps/s" not in shown


def test_what_was_not_measured_is_null_and_never_zero(features: Make) -> None:
    read = document(features(devices=()))
    assert read["device"] == {"name": None, "busy": None, "count": 0, "coverage": None, "why": ""}


def test_equal_loaders_of_several_ranks_are_one_row(features: Make, process: Make, loader: Make) -> None:
    validation: Loader = loader(where="train.py:50", training=False, batches=9000)
    ranks: list[Process] = [process(rank=r, loaders=(validation, loader())) for r in range(2)]
    rows = document(features(processes=tuple(ranks)))["loaders"]
    assert [(row["where"], row["batches"], row["processes"]) for row in rows] == [
        ("train.py:41", 6200, 2),
        ("train.py:50", 18000, 2),
    ]


def test_findings_come_with_the_best_gain_first(features: Make, finding: Make) -> None:
    low = finding(id="frequent-logging", speedup=Speedup(low=1.0, likely=1.1, high=1.2))
    assert [f["id"] for f in document(features(), low, finding())["findings"]] == ["few-workers", "frequent-logging"]


def test_what_is_worth_a_try_stands_apart_from_what_was_found(features: Make, finding: Make) -> None:
    unsure = finding(speedup=Speedup(low=0.8, likely=1.2, high=1.4, steady=1.02))
    overhead = Overhead()
    read = json.loads(to_json(build(features(), [], perhaps=[unsure], overhead=overhead)))
    jsonschema.validate(read, SCHEMA)
    assert read["findings"] == []
    assert [(row["id"], row["speedup"]["low"], row["steady"]) for row in read["perhaps"]] == [
        ("few-workers", 0.8, 1.02)
    ]


def test_a_process_that_was_not_heard_is_named_and_is_in_no_ledger(features: Make, process: Make) -> None:
    unheard = process(guest="it runs with -I", ledger={"step": 61.2}, loaders=(), batches=0, samples=0)
    read = document(features(processes=(unheard,)))
    assert read["ledger"] == []
    assert (read["processes"][0]["seen"], read["processes"][0]["why"]) == (False, "it runs with -I")


def test_abstains_from_a_handful_of_batches_and_from_no_training(features: Make, process: Make, loader: Make) -> None:
    few = features(processes=(process(loaders=(loader(waits=(0.01,) * 5),)),))
    assert "too few batches: 5" in document(few)["abstained"]
    assert document(features(processes=()))["abstained"] == "no training was seen"
    assert document(features())["abstained"] == ""


def test_names_that_are_no_utf8_are_shown_byte_by_byte(features: Make, finding: Make) -> None:
    read = document(features(command=("python", "tr\udcfe.py")), finding())
    assert read["command"] == ["python", "tr\\xfe.py"]
