"""The zoo in small: every script is well declared, and the quickest ones get the right verdict."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def _load(name: str):
    spec = importlib.util.spec_from_file_location(f"zoo_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(HERE))  # where a script finds what lies beside it
judge = _load("judge")
gains = sys.modules["gains"]
machine = sys.modules["machine"]
ALL = {case.name: case for case in judge.cases("")}


def test_the_zoo_is_large_enough_and_knows_every_cause() -> None:
    planted = [case.cause for case in ALL.values() if case.cause]
    healthy = [case for case in ALL.values() if not case.cause]
    advisors = {path.stem.replace("_", "-") for path in (HERE.parents[1] / "advisors").glob("[a-z]*.py")}
    assert len(planted) >= 40
    assert len(healthy) >= 10
    on_cuda = [path for path in (HERE / "cuda").glob("*.py") if "\nZOO = {" in path.read_text()]
    assert set(planted) | {judge.header(path)["cause"] for path in on_cuda} - {None} == advisors


@pytest.mark.parametrize("name", ALL)
def test_a_script_can_run_as_its_fix_says(name: str) -> None:
    case = ALL[name]
    assert case.device in {"none", "sim"}
    assert bool(case.fix or case.card or case.neighbours) == bool(case.cause)
    assert not case.fix or judge.accepts(case, case.fix)


def test_a_change_that_the_script_has_no_setting_for_is_not_tried() -> None:
    case = ALL["few_workers_sleeping_items"]
    assert judge.accepts(case, {"num_workers": 6}) == ["--num-workers", "6"]
    assert judge.accepts(case, {"checkpoint_interval": 6}) is None
    assert judge.accepts(case, {}) is None


def test_the_bars_are_failed_by_a_false_alarm() -> None:
    quiet = judge.Outcome("a", None, found=[[]], right=True)
    alarmed = judge.Outcome("b", None, found=[["few-workers"]], right=False)
    found = judge.Outcome("c", "few-workers", found=[["few-workers"]], right=True, error=0.04, inside=True)
    assert judge.totals([quiet, found])[1]
    assert not judge.totals([quiet, alarmed, found])[1]


def test_a_script_that_cannot_run_here_counts_for_nothing(monkeypatch) -> None:
    def refuse(*_args, **_options):
        raise judge.NotHere("no control group may be made")

    monkeypatch.setattr(judge, "run_once", refuse)
    missing = judge.judge(ALL["slow_storage_throttled"], judge.Way(1))
    found = judge.Outcome("c", "few-workers", found=[["few-workers"]], right=True, error=0.04, inside=True)
    assert "no control group" in judge.row(missing)
    lines, met = judge.totals([missing, found])
    assert met
    assert lines[0] == "planted cause first: 1 of 1"
    assert "not possible on this machine: 1" in lines


@pytest.mark.parametrize("worse", [{"error": 0.06}, {"inside": False}, {"right": False}])
def test_the_bars_are_failed_by_a_wrong_prediction(worse) -> None:
    found = {"found": [["few-workers"]], "right": True, "error": 0.04, "inside": True, **worse}
    assert not judge.totals([judge.Outcome("c", "few-workers", **found)])[1]


def test_a_lower_bound_has_no_error_and_is_held_to_what_it_says() -> None:
    told = {"found": [["oversubscribed-workers"]], "predicted": [[1.1, 15.0, 100.0]], "at_least": True, "paces": [10.0]}
    held, broken = (
        judge._held(judge.Outcome("a", "oversubscribed-workers", **told, mended=[pace]), loaded=False)
        for pace in (300.0, 10.5)
    )
    assert [(o.error, o.inside) for o in (held, broken)] == [(None, True), (None, False)]
    found = judge.Outcome("c", "few-workers", found=[["few-workers"]], right=True, error=0.04, inside=True)
    lines, met = judge.totals([held, found])
    assert met
    assert lines[-1].endswith("1, of which 1 held")
    assert not judge.totals([broken, found])[1]


def test_a_prediction_is_not_held_against_what_another_change_brought(monkeypatch, tmp_path: Path) -> None:
    name = "few_workers_sleeping_items"
    (tmp_path / "one").mkdir()
    kept = {"name": name, "pace": 10.0, "loaded": 0, "mended": 20.0, "foreign": [0.0, 0.0]}
    told = {"id": "few-workers", "change": {"num_workers": 6}, "risk": "", "offer": "", "evidence": {}}
    told["speedup"] = {"low": 3.8, "likely": 4.0, "high": 4.2}
    verdict = {"samples_per_s": 10.0, "findings": [told], "perhaps": []}
    monkeypatch.setattr("gputune.report.rejudging.rejudge", lambda _folder: verdict)
    monkeypatch.setattr("gputune.verdict.building.to_json", json.dumps)
    for workers, error in ((6, 1.0), (2, None)):
        (tmp_path / "one" / judge.ROUND).write_text(json.dumps({**kept, "change": f"--num-workers {workers}"}))
        (outcome,) = judge.rejudged(tmp_path, [ALL[name]])
        assert (outcome.realised, outcome.error) == (2.0, error)
        assert outcome.inside is (None if error is None else False)
    assert "(would be --num-workers 6)" in judge.row(outcome)
    assert any(line.endswith("not held against it: 1") for line in judge.totals([outcome])[0])


def test_rounds_in_which_another_change_was_tried_are_left_out() -> None:
    def taken(*rounds: tuple[float, str, str, bool]) -> judge.Outcome:
        outcome = judge.Outcome("a", "few-workers")
        judge._take(
            outcome,
            [
                judge.KeptRound(10.0, mended, tried, [1.0, 2.0, 3.0] if found else None, instead=instead)
                for mended, tried, instead, found in rounds
            ],
        )
        return outcome

    same, other, gone = (20.0, "--n 4", "", True), (60.0, "--n 6", "--n 4", True), (90.0, "--n 6", "--fixed", False)
    mixed = taken(same, other, gone)
    assert (mixed.mended, mixed.change, mixed.untried, len(mixed.predicted)) == ([20.0], "--n 4", False, 1)
    assert taken(other).untried
    assert not taken(gone, other).untried
    assert taken(gone, other).mended == [90.0]


def test_what_the_host_took_is_a_share_of_what_was_wanted(monkeypatch) -> None:
    monkeypatch.setattr(machine, "wanted_s", lambda: (110.0, 7.0))
    assert machine.stolen_since((90.0, 2.0)) == pytest.approx(0.25)


def test_beside_a_busy_neighbour_the_cause_still_comes_first_and_the_neighbour_is_named() -> None:
    both = judge.Outcome("a", "few-workers", found=[["busy-host", "few-workers"]])
    alone = judge.Outcome("b", "few-workers", found=[["few-workers"]])
    other = judge.Outcome("c", None, found=[["busy-host", "few-workers"]])
    assert (judge._held(both, loaded=True).right, both.named) == (True, True)
    assert (judge._held(alone, loaded=True).right, alone.named) == (True, False)
    assert not judge._held(other, loaded=True).right
    assert not judge._held(judge.Outcome("d", "few-workers", found=both.found), loaded=False).right


def test_a_cause_that_the_neighbour_makes_worthless_need_not_be_named() -> None:
    def held(gain: float, found: list[str], *, loaded: bool = True) -> bool:
        outcome = judge.Outcome("a", "few-workers", found=[found], paces=[100.0], mended=[100.0 * gain])
        return judge._held(outcome, loaded=loaded).right

    assert held(1.02, ["busy-host"])
    assert held(1.02, [])
    assert not held(1.3, ["busy-host"])
    assert not held(1.02, ["busy-host", "low-prefetch"])
    assert not held(1.02, [], loaded=False)


def test_a_neighbour_counts_where_it_costs_something(tmp_path) -> None:
    for number, pace in enumerate((100.0, 110.0, 120.0)):
        (tmp_path / f"a-{number}").mkdir()
        (tmp_path / f"a-{number}" / judge.ROUND).write_text(json.dumps({"name": "a", "pace": pace}))
    slow, other = (
        judge.Outcome("a", None, paces=[55.0], named=False),
        judge.Outcome("b", None, paces=[55.0], named=True),
    )
    judge.compare([slow, other], tmp_path)
    assert (slow.slowed, other.slowed) == (2.0, None)
    assert "and where it slowed the script by a tenth: 0 of 1" in judge.totals([slow, other])[0]


def test_a_script_that_fails_is_tried_once_more(monkeypatch) -> None:
    outcomes = iter([RuntimeError("1"), judge.Run(10.0, {}, 0.0, 0.0), RuntimeError("2"), RuntimeError("x")])

    def once(*_args, **_options):
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(judge, "run_once", once)
    monkeypatch.setattr(judge, "LATER", 0.0)
    assert judge.run(ALL["few_workers_stream"], [], judge.Way()).pace == 10.0
    with pytest.raises(RuntimeError, match="x"):
        judge.run(ALL["few_workers_stream"], [], judge.Way())


def test_a_run_is_held_against_the_twin_that_ran_right_after_it() -> None:
    now_fast_now_slow = {"paces": [100.0, 80.0, 50.0], "mended": [200.0, 160.0, 120.0]}
    assert judge.realised(judge.Outcome("a", "few-workers", **now_fast_now_slow)) == pytest.approx(2.0)


def test_rounds_are_added_until_what_was_realised_is_known() -> None:
    predicted = [[1.9, 2.0, 2.1]]
    known = judge.Outcome("a", "few-workers", predicted=predicted, paces=[100.0, 101.0], mended=[200.0, 201.0])
    unsure = judge.Outcome("a", "few-workers", predicted=predicted, paces=[100.0, 101.0], mended=[200.0, 240.0])
    assert judge.is_known(known)
    assert not judge.is_known(unsure)
    assert judge.is_known(judge.Outcome("healthy", None, paces=[100.0]))


def test_a_resumed_case_counts_the_rounds_that_were_kept(monkeypatch, tmp_path: Path) -> None:
    def ran(_case, outcome, _way, number: int) -> None:
        outcome.paces.append(float(number))
        (tmp_path / f"few_workers_stream-{number}").mkdir()
        (tmp_path / f"few_workers_stream-{number}" / judge.ROUND).touch()

    kept = judge.Outcome("few_workers_stream", "few-workers", paces=[100.0])
    monkeypatch.setattr(judge, "rejudged", lambda *_: [kept])
    monkeypatch.setattr(judge, "_round", ran)
    ran(None, judge.Outcome("another", None), None, 1)  # one of which another change is advised now
    judge.judge(ALL["few_workers_stream"], judge.Way(keep=tmp_path, rounds=3, resume=True))
    assert kept.paces == [100.0, 0.0, 2.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["few_workers_sleeping_items", "healthy_hidden_by_device"])
def test_the_verdict_is_what_was_planted(name: str, tmp_path: Path) -> None:
    case = ALL[name]
    found = []
    for turn in range(3):  # a busy neighbour is a cause too, and not the planted one; it may hide that one
        verdict = judge.run_once(case, [], mended=False, kept=tmp_path / f"run{turn}").verdict
        found.append([finding["id"] for finding in verdict["findings"] if finding["id"] != judge.NEIGHBOUR])
        if found[-1][:1] == ([case.cause] if case.cause else []):
            return
    pytest.fail(f"planted: {case.cause}, found: {found}")


def test_a_row_says_that_the_host_took_cpu_time() -> None:
    told = judge.Outcome("a", None, found=[[]], stolen=[0.01, 0.23])
    assert judge.row(told).endswith("23% stolen")
    assert "stolen" not in judge.row(judge.Outcome("a", None, found=[[]], stolen=[0.01]))


def test_what_one_round_realised_is_held_against_the_others_of_its_case() -> None:
    steady = judge.Outcome(
        "steady", "few-workers", predicted=[[1.0, 2.0, 3.0]] * 2, paces=[10.0, 10.0], mended=[20.0, 20.0]
    )
    apart = judge.Outcome(
        "apart", "few-workers", predicted=[[1.0, 2.0, 3.0]] * 3, paces=[10.0] * 3, mended=[20.0, 20.0, 30.0]
    )
    once = judge.Outcome("once", "few-workers", predicted=[[1.0, 2.0, 3.0]], paces=[10.0], mended=[20.0])
    assert judge.repeated([steady, apart, once]) == pytest.approx([0.0, 0.0, 0.2, 0.2, 0.5])
    judged = [replace(outcome, error=error) for outcome, error in ((steady, 0.1), (apart, 0.2), (once, 0.3))]
    assert judge.agreeing(judged) == [0.1]
    assert any("agree within 5% (1 cases): median 10.0%" in line for line in judge.totals(judged)[0])


def test_simulated_cards_are_told_apart_and_lower_ends_have_no_error() -> None:
    real = gains.Gain("few-workers", [1.8, 2.0, 2.2], 1.6, typical=2.0)
    card = gains.Gain("few-workers", [1.4, 1.5, 1.6], 1.5, simulated=True)
    bound = gains.Gain("small-batch", [2.0, 4.0, 9.0], 20.0, at_least=True)
    told = gains.lines([real, card, bound])
    assert "predicted, real CPUs: error of a single gain against its own pair: median 25.0%, p90 25.0% (1)" in told
    assert "predicted, real CPUs: and against the median of its case's pairs: median 0.0%, p90 0.0% (1)" in told
    assert any("real CPUs: interval holds 1 of 2, 1 of them as a lower end" in line for line in told)
    assert "predicted, simulated cards: error of a single gain against its own pair: median 0.0%, p90 0.0% (1)" in told
    assert "baseline what this cause brought in the other pairs: median 6.5%, p90 6.7% (2)" in told


@pytest.mark.parametrize(("now", "then", "brings"), [(0, 2, 2.0), (1, 2, 1.6), (2, 8, 1.0), (1, 1, 1.0)])
def test_perfect_overlap_is_a_rule_of_thumb(now: int, then: int, brings: float) -> None:
    finding = {"evidence": {"batch_s": 0.08, "step_s": 0.05, "num_workers": now}, "change": {"num_workers": then}}
    assert gains.ideal(finding) == pytest.approx((0.13 if not now else max(0.08 / now, 0.05)) / max(0.08 / then, 0.05))
    assert gains.ideal(finding) == pytest.approx(2.6 if not now else brings)
    assert gains.ideal({**finding, "change": {"prefetch_factor": 4}}) is None
