"""Loops drawn by lot: each seed gives one script that is declared as the zoo's are, and figures leave nothing out."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

LOT = Path(__file__).resolve().parent / "lot"


def _load(name: str):
    sys.path[:0] = [str(LOT), str(LOT.parent)]
    try:
        spec = importlib.util.spec_from_file_location(f"lot_{name}", LOT / f"{name}.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up there
        spec.loader.exec_module(module)
    finally:
        del sys.path[:2]
    return module


judge = _load("judge")
draw = sys.modules["draw"]
SEEDS = range(300)


def row(*causes: str, found: str = "", **more: object):
    return judge.Row(1, list(causes), [], found=[found] if found else [], **more)


def test_a_seed_is_one_script_whose_twins_have_settings(tmp_path: Path) -> None:
    advisors = {path.stem.replace("_", "-") for path in (LOT.parents[2] / "advisors").glob("[a-z]*.py")}
    for seed in SEEDS:
        drawn = draw.drawn(seed)
        source = draw.script(drawn)
        assert source == draw.script(draw.drawn(seed))
        compile(source, "draw.py", "exec")
        assert {*drawn.causes, *drawn.others} <= advisors
        assert set(drawn.causes) == set(drawn.fixes)
        path = tmp_path / "draw.py"
        path.write_text(source)
        case = judge.zoo.case_of(path)
        assert bool(case.fix or case.neighbours) == bool(drawn.causes)
        assert not case.fix or judge.zoo.accepts(case, case.fix)


def test_every_cause_is_drawn_and_a_third_is_healthy() -> None:
    drawn = [draw.drawn(seed) for seed in SEEDS]
    assert {cause for one in drawn for cause in one.causes} == {name.strip() for name in draw.FIRST}
    assert 0.2 < sum(not one.causes for one in drawn) / len(drawn) < 0.4


@pytest.mark.parametrize("options", [[], ["--fixed"]])
def test_a_draw_runs(tmp_path: Path, options: list[str]) -> None:
    """The shortest one that there is: a pass of the loop, its pauses and its end."""
    one = draw.Draw(1, making=0.001, step=0.002, workers=1, causes=["frequent-logging"])
    one.extra = {"pause": 0.001, "every": 10, "kind": "logging"}
    one.fixes = {"frequent-logging": {"every": 50}}
    path = draw.write(one, tmp_path)
    short = path.read_text().replace(f"SAMPLES, PASSES = {1200 * 8}", "SAMPLES, PASSES = 160")
    assert "= 160," in short
    path.write_text(short)
    done = subprocess.run([sys.executable, str(path), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("160 samples in ")


def test_what_was_found_is_right_if_it_was_planted_or_brings_something() -> None:
    assert row("few-workers", found="few-workers").right
    assert not row("few-workers").right
    assert not row("few-workers", found="small-batch", realised=2.0).right
    assert row().right
    assert not row(found="few-workers", realised=1.01).right
    assert row(found="few-workers", realised=1.2).right


def test_figures_count_what_failed_what_was_silent_and_what_brought_nothing() -> None:
    rows = [
        row("few-workers", found="few-workers", promised=[1.1, 1.5, 2.0], realised=1.2, basis="predicted"),
        row("few-workers", found="few-workers", promised=[1.1, 1.5, 2.0], realised=1.0, basis="predicted"),
        row("low-prefetch", planted=1.4),
        row("low-prefetch", planted=1.0),
        row(found="few-workers", realised=1.0),
        row("busy-host", trouble="status 1"),
    ]
    told = "\n".join(judge.figures(rows))
    assert "draws: 6, failed: 1" in told
    assert "planted cause first: 2 of 3" in told
    assert "worth less than 5%: 1" in told
    assert "silent although the planted cause was worth 5%: 1" in told
    assert "false alarms in healthy draws: 1 of 1" in told
    assert "brought less than 2%: 1 of 2" in told
    assert "predicted, real CPUs: error of a single gain against its own pair: median 37.5%, p90 50.0% (2)" in told
    assert "interval holds 1 of 2, high over low 1.82" in told


def test_kept_results_make_the_same_figures(tmp_path: Path) -> None:
    rows = [row("few-workers", found="few-workers", promised=[1.1, 1.5, 2.0], realised=1.2, basis="predicted")]
    kept = tmp_path / "rows.json"
    kept.write_text(json.dumps({"rows": [judge.asdict(one) for one in rows]}))
    assert judge.figures(judge.kept(kept)) == judge.figures(rows)


def test_what_is_advised_anew_is_not_held_against_what_was_tried_then() -> None:
    then = row("few-workers", found="few-workers", promised=[1.1, 1.5, 2.0], realised=1.2, basis="predicted")
    now = judge.replace(then, changed=True, realised=None)
    assert any(said.endswith("not held against it: 1") for said in judge.figures([now]))
    assert not any("error of a single gain" in said for said in judge.figures([now]))
