"""What holds for every advisor."""

import re
from pathlib import Path

import pytest

import gputune.advisors
from gputune.core.plugins import identity, names

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "advisors").glob("[a-z]*.py")),
    *(
        ROOT / "gputune" / f"{name}.py"
        for name in (
            "verdict/judging",
            *(f"model/{n}" for n in ("pauses", "prediction", "replay", "transfers", "overlapping")),
        )
    ),
]
NO_THRESHOLDS = {"TINY", "TRAINING", "TYPICAL_PREFETCH"}  # nothing that decides what is said


def test_every_advisor_calls_its_findings_by_its_own_name() -> None:
    for name in names("gputune.advisors"):
        text = (Path(gputune.advisors.__path__[0]) / f"{name}.py").read_text()
        assert f'id="{identity(name)}"' in text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_threshold_stands_in_the_evidence(file: Path) -> None:
    constants = set(re.findall(r"^([A-Z_]{3,}) = [\d.]", file.read_text(), re.M)) - NO_THRESHOLDS
    evidence = (ROOT / "docs" / "evidence.md").read_text()
    assert {name for name in constants if f"`{name}`" not in evidence} == set()


def test_every_constant_that_the_evidence_names_is_there() -> None:
    files = (file for room in ("gputune", "probes", "advisors") for file in (ROOT / room).rglob("*.py"))
    assigned = re.compile(r"^ *([A-Z][A-Z_0-9]*(?:, [A-Z][A-Z_0-9]*)*)(?:: \w+)? = ", re.M)
    there = {name for file in files for found in assigned.findall(file.read_text()) for name in found.split(", ")}
    named = set(re.findall(r"`([A-Z][A-Z_0-9]{2,})`", (ROOT / "docs" / "evidence.md").read_text()))
    assert named - there == set()
