"""Predictions from what runs have shown, recomputed: across numbers of workers they are as near as docs/zoo.md says."""

import importlib.util
import statistics
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1] / "recordings"


def _load():
    spec = importlib.util.spec_from_file_location("recompute", HERE / "recompute.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recompute = _load()


def test_other_numbers_of_workers_bring_what_is_said() -> None:
    gains = list(recompute.across())
    assert len(gains) == 18
    assert statistics.median(abs(g.promised[1] / g.realised - 1) for g in gains) < 0.05
    assert sum(g.held for g in gains) >= 0.9 * len(gains)
    assert statistics.median(g.promised[2] / g.promised[0] for g in gains) < 1.5


def test_the_present_settings_are_replayed_as_they_were() -> None:
    paces = [factor for name, factor in recompute.factors().items() if name.startswith("pace")]
    assert len(paces) == 9
    assert all(factor == pytest.approx(1.0, abs=0.05) for factor in paces)


def test_what_was_tried_is_known_of_every_pair() -> None:
    for pair in recompute.pairs():
        assert (HERE / f"{pair['file']}.json.gz").exists()
        assert pair["realised"] > 0
        assert pair["tried"]
