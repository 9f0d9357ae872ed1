"""Recordings made after a change: what lies between runs is in the interval, and a change that was not made is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.comparing.comparison import compare
from gputune.comparing.sides import side
from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Machine
from gputune.proving.against import NotComparable, against
from gputune.proving.asked import ReplayedRun
from gputune.proving.proof import Proof, words
from gputune.verdict.document import CpuRow, DeviceTotals
from tests.comparing.conftest import Make, loader, run
from tests.comparing.conftest import finding as row

__all__ = ["run"]
MACHINE = Machine(cpus=8, cpus_seen=8)
MORE = Finding(
    id="few-workers",
    says="it waits",
    do="do",
    share_lost=0.5,
    speedup=Speedup(low=1.3, likely=1.4, high=1.5),
    basis="b",
    falsified_by="f",
    effect="same-order",
    evidence={"n": 1.0},
    where="train.py:41",
    change={"num_workers": 4},
)
FOUR = [loader(num_workers=4, prefetch_factor=2)]
Prove = Callable[..., Proof]


@pytest.fixture
def prove() -> Prove:
    """Prove of a folder's run by other folders."""

    def proved(before: Path, after: Path, finding: Finding | None = MORE) -> Proof:
        known = Features(command=("t",), wall=10.0, machine=MACHINE)
        what = ReplayedRun(folder=before, command=("t",), cwd="/", run=known, findings=())
        return against(what, str(after), finding)

    return proved


def test_what_nobody_changed_has_not_held_however_fast_it_was(run: Make, prove: Prove) -> None:
    found = prove(run("a", 100.0), run("b", 136.0))
    assert (found.state, found.held) == ("not-made", False)
    assert found.notes[0] == "the change was not made in b: num_workers=0, as before"
    assert words(found).splitlines()[-1].endswith("not held: the change was not made")


def test_a_change_that_was_made_is_held_against_its_prediction(run: Make, prove: Prove) -> None:
    held = prove(run("a", 100.0), run("b", 138.0, loaders=FOUR))
    assert (held.state, held.predicted and held.predicted.likely) == ("held", 1.4)
    assert held.realised.low < 1.38 / 1.04 < 1.38 * 1.04 < held.realised.high
    assert prove(run("c", 100.0), run("d", 112.0, loaders=FOUR)).state == "short"


def test_a_line_that_has_moved_is_the_same_loader(run: Make, prove: Prove) -> None:
    moved = [loader(where="train.py:44", num_workers=4)]
    assert prove(run("a", 100.0), run("b", 140.0, loaders=moved)).state == "held"
    assert prove(run("c", 100.0), run("d", 140.0, loaders=[loader(where="train.py:44")])).state == "not-made"


def test_another_change_than_the_one_proposed_is_told(run: Make, prove: Prove) -> None:
    found = prove(run("a", 100.0), run("b", 138.0, loaders=[loader(num_workers=2)]))
    assert found.state == "held"
    assert found.notes[0] == "b has num_workers=2, and the finding proposes num_workers=4"


def test_of_a_change_of_the_script_it_is_only_known_whether_it_is_still_found(run: Make, prove: Prove) -> None:
    from dataclasses import replace

    scripted = replace(MORE, id="frequent-checkpoint", change={"checkpoint_interval": 100})
    found = prove(run("a", 100.0), run("b", 138.0, findings=[row("frequent-checkpoint", 1.4)]), scripted)
    assert (found.state, found.notes[0]) == ("held", "`frequent-checkpoint` is still found in b")


def test_a_gain_that_two_runs_differ_by_anyway_is_not_told_from_none(run: Make, prove: Prove, tmp_path: Path) -> None:
    crowd = CpuRow(allowed=2.0, job=0.4, others=1.6)
    found = prove(run("a", 100.0, cpu=crowd), run("b", 136.0, cpu=crowd, loaders=FOUR))
    assert found.state == "undecided"
    assert "without any change" in words(found)
    for n, rate in enumerate((120.0, 138.0, 160.0)):
        run(f"some/{n}", rate, at=n, loaders=FOUR)
    several = prove(run("c", 100.0, at=1.5), tmp_path / "some")
    assert (several.state, len(several.trials)) == ("undecided", 4)
    assert several.runs_needed is not None
    assert f"about {several.runs_needed} runs of each" in words(several)


def test_what_differs_beside_the_change_is_refused(run: Make, prove: Prove) -> None:
    other = run("b", 138.0, device=DeviceTotals(name="NVIDIA A100", busy=0.4, count=1))
    with pytest.raises(NotComparable, match=r"device \(1 x NVIDIA H200 against 1 x NVIDIA A100\)"):
        prove(run("a", 100.0), other)
    renamed = run("c", 138.0, loaders=FOUR, command=["python", "train2.py"])
    assert prove(run("d", 100.0), renamed).state == "held"


def test_how_fast_both_were_is_what_compare_says(run: Make, prove: Prove) -> None:
    before, after = run("a", 100.0), run("b", 138.0, loaders=FOUR)
    found = prove(before, after)
    told = compare(side(str(before)), side(str(after)))
    assert [row.rate for row in found.trials] == [row.rate for each in (told.a, told.b) for row in each.runs]
    assert told.ratio is not None
    assert found.realised.likely == told.ratio.likely


def test_a_verdict_alone_tells_how_fast_a_run_was(run: Make, prove: Prove) -> None:
    assert prove(run("a", 100.0), run("b", 138.0, loaders=FOUR) / "findings.json").state == "held"
