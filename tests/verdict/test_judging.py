"""Judging asks every advisor alone, and says each thing once."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

import gputune.advisors
from gputune.core.finding import WORTH_SAYING, Finding, Speedup
from gputune.features import Features, Machine, Process
from gputune.verdict.arbitration import CLOSE
from gputune.verdict.document import Settings, SpeedupRow, Tuned
from gputune.verdict.judging import judge, with_tried

NOTHING = Features(command=("true",), wall=0.0, machine=Machine(cpus=1, cpus_seen=1))

SPEAKER = """
from gputune.core.finding import Finding, Speedup
from gputune.model.prediction import interval

SAYS = {says!r}

def advise(run):
    for name, where, says, low, likely, *steady in SAYS:
        yield Finding(id=name, says=says, do="do", share_lost=0.5, basis="b", falsified_by="f", effect="identical",
                      speedup=Speedup(low=low, likely=likely, high=likely * 2, steady=max([0.0, *steady])),
                      evidence={{"n": 1.0}}, where=where)
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Return a maker of advisors in a room of their own, which is all that is judged by."""
    monkeypatch.setattr(gputune.advisors, "__path__", [str(tmp_path)])

    def add(name: str, text: str = "", says: tuple = ()) -> None:
        (tmp_path / f"{name}.py").write_text(text or SPEAKER.format(says=says))
        monkeypatch.delitem(sys.modules, f"gputune.advisors.{name}", raising=False)
        monkeypatch.delattr(gputune.advisors, name, raising=False)

    before = set(sys.modules)
    yield add
    for name in set(sys.modules) - before:
        if name.startswith("gputune.advisors."):
            del sys.modules[name]


def test_a_run_of_which_nothing_is_known_has_no_finding_and_breaks_no_advisor() -> None:
    failed: dict[str, str] = {}
    assert judge(NOTHING, failed) == []
    assert failed == {}


def test_an_advisor_that_raises_is_named_and_takes_no_other_with_it(room) -> None:
    room("breaks_down", "def advise(run):\n    yield from ()\n    raise KeyError('gone')\n")
    room("cannot_be_read", "this is no Python")
    room("says_something", says=(("says-something", "a.py:1", "it", 1.5, 2.0),))
    failed: dict[str, str] = {}
    assert [f.id for f in judge(NOTHING, failed)] == ["says-something"]
    assert failed["breaks-down"] == "KeyError: 'gone'"
    assert "SyntaxError" in failed["cannot-be-read"]
    assert set(failed) == {"breaks-down", "cannot-be-read"}


def test_an_advisor_may_break_though_nobody_asks_how(room) -> None:
    room("breaks_down", "def advise(run):\n    return 1 / 0\n")
    assert judge(NOTHING) == []


def test_the_best_gain_comes_first(room) -> None:
    room("a", says=(("a", "t.py:1", "x", 1.2, 1.3), ("b", "t.py:1", "y", 1.5, 3.0), ("c", "t.py:1", "z", 1.1, 2.0)))
    assert [f.id for f in judge(NOTHING)] == ["b", "c", "a"]


def test_a_gain_that_may_be_noise_is_not_said(room) -> None:
    low = WORTH_SAYING - 0.001
    room("a", says=(("a", "t.py:1", "x", low, 1.3), ("b", "t.py:1", "y", WORTH_SAYING, 1.2)))
    assert [f.id for f in judge(NOTHING)] == ["b"]


def test_a_gain_that_is_likely_and_no_loss_is_worth_a_try_where_nothing_else_is_found(room) -> None:
    unsure = ("a", "t.py:1", "x", 1.02, 1.2)
    silent = (("b", "t.py:1", "y", 0.99, 1.4), ("c", "t.py:1", "z", 1.02, 1.14), ("e", "", "nowhere", 1.02, 1.4))
    room("a", says=(unsure, *silent, ("busy-host", "", "others", 1.1, 1.3)))
    perhaps: list[Finding] = []
    assert [f.id for f in judge(NOTHING, perhaps=perhaps)] == ["busy-host"]
    assert [f.id for f in perhaps] == ["a"]
    room("a", says=(unsure, *silent, ("d", "t.py:2", "w", 1.1, 1.2)))
    perhaps = []
    assert [f.id for f in judge(NOTHING, perhaps=perhaps)] == ["d"]
    assert perhaps == []


def test_an_interval_that_reaches_down_to_a_loss_is_no_promise_however_steady_the_cause(room) -> None:
    room("a", says=(("a", "a.py:1", "it", 0.92, 1.35, 1.07),))
    perhaps: list[Finding] = []
    assert judge(NOTHING, perhaps=perhaps) == []
    assert [f.id for f in perhaps] == ["a"]
    room("a", says=(("a", "", "it", 0.92, 1.12, 1.07),))  # nor is it lost, at no line, and with little to gain
    perhaps = []
    assert judge(NOTHING, perhaps=perhaps) == []
    assert [f.id for f in perhaps] == ["a"]
    room("a", says=(("a", "a.py:1", "it", 1.0, 1.35, 1.07),))
    assert [f.id for f in judge(NOTHING)] == ["a"]


def test_a_risk_and_an_offer_are_said_although_they_gain_nothing(room) -> None:
    spoken = SPEAKER.replace("where=where)", "where=where, **KINDS[name])").replace(
        "SAYS = ", "KINDS = {{'a': {{'risk': 'full soon'}}, 'b': {{'offer': 'room'}}, 'c': {{}}}}\nSAYS = "
    )
    says = tuple((name, "t.py:1", name, 1.0, 1.0 + n / 100) for n, name in enumerate("abc"))
    room("a", text=spoken.format(says=says))
    assert [f.id for f in judge(NOTHING)] == ["b", "a"]


def test_two_ranks_that_run_the_same_line_are_one_finding(room) -> None:
    room("a", says=(("a", "t.py:1", "rank 0", 1.2, 1.3), ("a", "t.py:1", "rank 1", 1.2, 1.4)))
    assert [f.says for f in judge(NOTHING)] == ["rank 1"]


def test_two_devices_are_two_findings(room) -> None:
    room("a", says=(("a", "", "GPU 0", 1.2, 1.3), ("a", "", "GPU 1", 1.2, 1.3)))
    assert len(judge(NOTHING)) == 2


def test_of_findings_that_explain_the_same_wait_the_best_speaks(room) -> None:
    room("a", says=(("low-prefetch", "t.py:1", "x", 1.2, 1.3), ("few-workers", "t.py:1", "y", 1.2, 3.0)))
    assert [f.id for f in judge(NOTHING)] == ["few-workers"]


def test_of_findings_that_are_about_as_good_the_cheaper_change_speaks(room) -> None:
    near = 2.0 * CLOSE - 0.01
    room("a", says=(("low-prefetch", "t.py:1", "x", 1.2, 2.0), ("few-workers", "t.py:1", "y", 1.2, near)))
    assert [f.id for f in judge(NOTHING)] == ["low-prefetch"]


def test_who_does_not_speak_is_mentioned_in_the_evidence_of_who_does(room) -> None:
    room("a", says=(("low-prefetch", "t.py:1", "x", 1.2, 1.3), ("few-workers", "t.py:1", "y", 1.2, 3.0)))
    (finding,) = judge(NOTHING)
    assert finding.evidence == {"n": 1.0, "instead.low-prefetch": 1.3}


def test_nothing_is_concluded_from_too_few_steps_but_from_the_device_s_own_clock(room) -> None:
    says = (("few-workers", "t.py:1", "x", 1.2, 1.3), ("device-throttled", "", "y", 1.2, 1.3))
    room("a", says=says)
    spent = {"step": 8.0}
    rank = Process(
        pid=1, rank=None, wall=9.0, ledger=spent, inclusive={}, loop=8.0, batches=8, samples=8, optimizer_steps=8
    )
    few = replace(NOTHING, processes=(rank,))
    assert [f.id for f in judge(few)] == ["device-throttled"]


def test_an_offer_waits_until_nothing_is_left_to_mend(room) -> None:
    offering = SPEAKER.replace("where=where)", "where=where, offer='room' if name == 'b' else '')")
    mend, offer = ("a", "t.py:1", "x", 1.2, 1.3), ("b", "t.py:1", "y", 1.2, 1.3)
    room("a", text=offering.format(says=(mend, offer)))
    assert [f.id for f in judge(NOTHING)] == ["a"]
    room("a", text=offering.format(says=(offer,)))
    assert [f.id for f in judge(NOTHING)] == ["b"]


def test_other_findings_speak_beside_them(room) -> None:
    room("a", says=(("few-workers", "t.py:1", "x", 1.2, 2.0), ("frequent-logging", "t.py:2", "y", 1.2, 1.5)))
    assert [f.id for f in judge(NOTHING)] == ["few-workers", "frequent-logging"]


def loader_finding(low: float, where: str = "train.py:9", **change: int) -> Finding:
    return Finding(
        id="few-workers", says="says", do="do", share_lost=0.5, basis="b", falsified_by="f", effect="same-order",
        speedup=Speedup(low=low, likely=2 * low, high=3 * low), evidence={"n": 1.0}, where=where, change=change,
    )  # fmt: skip


def test_what_was_tried_and_brought_less_is_not_advised() -> None:
    brought = SpeedupRow(low=0.98, likely=1.01, high=1.04)
    tuned = Tuned(mode="all", state="unchanged", where="train.py:9", speedup=brought)
    refuted = loader_finding(1.5, num_workers=4)
    others = [
        loader_finding(1.5, num_workers=4, where="train.py:50"),
        loader_finding(1.5, batch_size=64),
        loader_finding(1.5),
        loader_finding(1.01, num_workers=4),
    ]
    assert with_tried([refuted, *others], [], tuned) == (others, [])
    assert with_tried([], [refuted, *others], tuned) == ([], others)
    for other in (None, structs.replace(tuned, state="kept"), structs.replace(tuned, state="healthy")):
        assert with_tried([refuted, *others], [], other) == ([refuted, *others], [])


OWN = Settings(num_workers=1, prefetch_factor=2, pin_memory=False, persistent_workers=False)
TRIED = Tuned(
    mode="try", state="tried", where="train.py:9", own=OWN, best=structs.replace(OWN, num_workers=6),
    speedup=SpeedupRow(low=3.7, likely=3.8, high=3.9),
)  # fmt: skip


def test_what_was_tried_is_told_with_what_it_brought() -> None:
    promised, perhaps = loader_finding(1.5, num_workers=4), loader_finding(1.01, prefetch_factor=8)
    elsewhere = loader_finding(3.0, num_workers=4, where="train.py:50")
    for found, maybe in (([elsewhere, promised], [perhaps]), ([elsewhere], [perhaps])):
        (first, second), left = with_tried(found, maybe, TRIED)
        assert (first, left) == (elsewhere, [])
        assert second.change == {"num_workers": 6}
        assert second.do == "set num_workers=6"
        assert (second.speedup.low, second.speedup.likely, second.speedup.sure) == (3.7, 3.8, 3.7)
        assert second.evidence["predicted"] == (promised if promised in found else perhaps).speedup.likely


def test_what_was_tried_and_brings_little_is_nothing_to_advise() -> None:
    little = structs.replace(TRIED, speedup=SpeedupRow(low=1.01, likely=1.03, high=1.05))
    promised, other = loader_finding(1.5, num_workers=4), loader_finding(1.5, batch_size=64)
    assert with_tried([promised, other], [loader_finding(1.0, num_workers=2)], little) == ([other], [])
