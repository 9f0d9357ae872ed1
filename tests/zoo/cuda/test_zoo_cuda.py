"""The CUDA part of the zoo: its scripts are well declared, and their twins know nothing of the advisors' constants."""

import importlib
import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
_SPEC = importlib.util.spec_from_file_location("zoo_cuda_judge", HERE / "judge.py")
judge = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(judge)
kit_cuda = importlib.import_module("kit_cuda")  # the judge has put its folder first
ALL = {case.name: case for case in judge.scripts()}
MUST = {  # what can only be told of a device
    "unpinned-memory", "blocking-copy", "sync-every-step", "host-bound", "small-batch", "no-mixed-precision",
    "device-throttled", "shared-device", "slow-link", "room-to-share", "device-errors", "straggling-rank",
    "communication-bound", "uneven-shards", "memory-growth", "few-workers", "slow-pinning",
}  # fmt: skip


def test_the_cuda_zoo_is_large_enough_and_has_every_cause_of_a_device() -> None:
    planted = [case.cause for case in ALL.values() if case.cause]
    assert len(planted) >= 30
    assert len(ALL) - len(planted) >= 6
    assert set(planted) >= MUST


@pytest.mark.parametrize("name", ALL)
def test_a_script_can_run_as_its_fix_says(name: str) -> None:
    case = ALL[name]
    assert case.device == "cuda"
    assert bool(case.fix or case.card) == bool(case.cause)
    assert not case.fix or judge.zoo.accepts(case, case.fix)


@pytest.mark.parametrize("name", ALL)
def test_a_script_times_what_the_device_has_done(name: str) -> None:
    source = ALL[name].path.read_text()
    assert "kit.Pace(" in source
    assert "pace.done()" in source
    assert "gputune" not in source


def test_each_script_is_judged_at_each_setting() -> None:
    few = judge.cases("few_workers_convnet")
    assert [case.name.partition("@")[2] for case in few] == list(judge.SETTINGS)
    argv = judge.zoo.command(few[0], [], None, mended=False, folder=Path())
    assert argv[1] == str(judge.RUN_ON_CUDA)
    assert argv[argv.index("--") + 1 :] == ["python", str(few[0].path)]
    assert [case.name for case in judge.cases("few_workers_convnet@short")] == ["few_workers_convnet@short-queue"]


def test_what_is_wrong_with_a_card_is_not_with_the_twins() -> None:
    (hot,) = judge.cases("device_throttled_heat@spinning")
    (linked,) = judge.cases("communication_bound_wide@spinning")
    as_it_is, twin = (judge.zoo.command(hot, [], None, mended=mended, folder=Path()) for mended in (False, True))
    assert "throttle=0x40" in as_it_is
    assert "throttle=0x40" not in twin
    assert "rate_link=50000000000" in judge.zoo.command(linked, [], None, mended=True, folder=Path())


@pytest.mark.parametrize("times", [0.25, 0.5, 1.0, 2.0, 16.0])
def test_what_is_modelled_takes_as_long_for_this_host_as_for_that_of_the_scripts(times: float) -> None:
    assert judge.slower(1.3 * times * judge.HOST_BOUND_S) == times
    assert judge.slower(judge.HOST_BOUND_S / 1000) == judge.LEAST_SLOWER
    assert judge.slower(judge.HOST_BOUND_S * 1000) == judge.MOST_SLOWER


def test_planted_work_of_a_host_takes_as_long_however_fast_the_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = (kit_cuda.often(lambda each=each: kit_cuda.kit.burn(each), 0.005) for each in (0.001, 0.0005))
    assert slow <= 5
    assert quick == pytest.approx(2 * slow, abs=2)
    monkeypatch.setattr(kit_cuda, "SLOWER", 2.0)
    assert kit_cuda.often(lambda: kit_cuda.kit.burn(0.001), 0.005) == pytest.approx(2 * slow, abs=2)


def booked(**named: float) -> dict[str, float]:
    none = dict.fromkeys(("kernel", "spun", "exposed_copy", "exposed_collective", "waits", "batches", "until"), 0.0)
    return none | named


def test_a_ledger_is_held_against_the_books_of_all_ranks() -> None:
    rows = {"compute": 0.5, "copies": 0.1, "starved": 0.3, "host-bound": 0.1}
    verdict = {"device_ledger": [{"part": part, "share": share} for part, share in rows.items()]}
    each = [booked(kernel=60.0, spun=5.0, exposed_copy=10.0, until=100.0, batches=10, waits=20) for _ in range(2)]
    told = {"compute": -0.05, "copies": 0.0, "communication": 0.0, "gaps": 0.05}
    assert judge.books.off(verdict, each) == pytest.approx(told)
    told = {"compute": -0.05, "communication": 0.0, "gaps": 0.05}
    assert judge.books.off(verdict, each, pageable=True) == pytest.approx(told)
    told["copies"] = 0.0
    verdict["device_ledger"][3]["part"] = "paused"  # 0.1 of it, in which there may have been kernels
    assert judge.books.off(verdict, each) == pytest.approx({**told, "compute": 0.0, "gaps": 0.0})
    verdict["device_ledger"][3]["part"] = "host-bound"
    found = judge.beside(ALL["few_workers_clicks"], verdict, each)
    assert found == {judge.LEDGER: pytest.approx(-5), judge.WAITS: pytest.approx(2.0)}
    assert judge.beside(ALL["few_workers_clicks"], verdict, []) == {}
    outcome = judge.zoo.Outcome("c", None, beside=[found], right=True)
    said, met = judge.zoo.totals([outcome], judge.BARS, judge.BESIDE)
    assert not met
    assert f"{judge.LEDGER}: 0 of 1 within 2, median 5, most 5" in said


@pytest.mark.slow
@pytest.mark.skipif("GPUTUNE_SIMCUDA" not in os.environ, reason="needs torch for CUDA: `make simcuda` runs it")
def test_the_verdict_is_what_was_planted(tmp_path: Path) -> None:
    (case,) = judge.cases("few_workers_convnet@short-queue")
    verdict = judge.zoo.run_once(case, [], mended=False, kept=tmp_path / "run").verdict
    found = [finding["id"] for finding in verdict["findings"] if finding["id"] != judge.zoo.NEIGHBOUR]
    assert found[:1] == ["few-workers"]
