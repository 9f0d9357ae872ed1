"""A sweep that was killed at any moment goes on with what it has measured, and measures the rest."""

from pathlib import Path

import pytest

from gputune.core.pace import Pace
from gputune.experiment.living import ProcessMemory
from gputune.experiment.script import Script
from gputune.experiment.starting import Start, State
from gputune.features import Features, Machine
from gputune.features.concurrent_loaders import Company
from gputune.sweep import journal
from gputune.sweep.journal import FILE, NothingToResume, Remembering, begun, identity, resumed
from gputune.sweep.search import CutOff, Outcome
from gputune.sweep.settings import setting

SCRIPT = Script(command=("python", "train.py", "--token", "hf_verysecretverysecret"), cwd="/somewhere")
WANTED = [setting(n, 2, pin_memory=False, persistent=False, batch_size=8) for n in (1, 2, 3)]


class Counting:
    """A bench that says how often it was asked."""

    noise = 0.01
    kept = 2

    def __init__(self) -> None:
        self.asked = 0

    def price(self, wanted) -> int:
        return 1

    def met(self, wanted) -> None:
        """Nothing to learn."""

    def measure(self, wanted) -> Outcome:
        self.asked += 1
        state = State.OOM if wanted.num_workers == 3 else State.OK
        return Outcome(state=state, rates=(float(self.asked),), why="x", memory=7, seconds=2.5)


def measured(folder: Path) -> Counting:
    """Measure all settings, the first of them twice, and return the bench that was asked."""
    bench = Counting()
    kept = begun(folder, identity(SCRIPT))
    for wanted in (*WANTED, WANTED[0]):
        Remembering(bench, kept).measure(wanted)
    return bench


def test_every_visit_is_remembered_in_its_order(tmp_path: Path) -> None:
    measured(tmp_path)
    bench, again = Counting(), resumed(SCRIPT, identity(SCRIPT), tmp_path)
    found = [Remembering(bench, again).measure(wanted) for wanted in (WANTED[0], WANTED[2], WANTED[0], WANTED[1])]
    assert [outcome.rates for outcome in found] == [(1.0,), (3.0,), (4.0,), (2.0,)]
    assert (found[1].state, found[1].memory, bench.asked) == (State.OOM, 7, 0)
    Remembering(bench, again).measure(WANTED[0])
    assert bench.asked == 1
    assert again.spent == 10.0


def test_a_journal_cut_anywhere_loses_no_more_than_its_last_line(tmp_path: Path) -> None:
    measured(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    head = whole.index(b"\n") + 1
    for cut in range(head, len(whole)):
        (tmp_path / FILE).write_bytes(whole[:cut])
        bench = Counting()
        again = Remembering(bench, resumed(SCRIPT, identity(SCRIPT), tmp_path))
        for wanted in (*WANTED, WANTED[0]):
            again.measure(wanted)
        assert bench.asked == 4 - whole[head : cut + 1].count(b"\n")
        assert len(journal._entries(tmp_path / FILE)) == 5


def test_a_start_is_remembered_with_all_that_is_told_of_it_elsewhere(tmp_path: Path) -> None:
    rates = (100.0,) * 10
    run = Features(command=("t",), wall=1.0, machine=Machine(cpus=2, cpus_seen=2))
    made = Start(
        state=State.OK, log="1.log", rates=rates, pace=Pace(100.0, parts=rates), run=run,
        notes=({"n": "trial", "batches": 9},), company=Company(training=2), worker=ProcessMemory(9, 4),
    )  # fmt: skip
    assert begun(tmp_path, identity(SCRIPT), []).start("profile", lambda: made) is made
    told = resumed(SCRIPT, identity(SCRIPT), tmp_path).start("profile", pytest.fail)
    assert (told.state, told.rates, told.run, told.notes, told.company, told.worker) == (
        State.OK, rates, run, made.notes, made.company, made.worker,
    )  # fmt: skip


def test_what_the_budget_cut_off_is_measured_again(tmp_path: Path) -> None:
    class Late(Counting):
        def measure(self, wanted) -> Outcome:
            return Outcome(state=State.FAILED, why="the budget of 9 s was over", cut_off=True)

    Remembering(Late(), begun(tmp_path, identity(SCRIPT))).measure(WANTED[0])
    bench = Counting()
    assert Remembering(bench, resumed(SCRIPT, identity(SCRIPT), tmp_path)).measure(WANTED[0]).rates == (1.0,)


def test_a_ceiling_that_was_cut_off_is_measured_again_and_one_that_there_is_none_of_is_not(tmp_path: Path) -> None:
    def cut_off() -> float:
        raise CutOff

    begin = begun(tmp_path, identity(SCRIPT))
    assert begin.number("ceiling", cut_off) is None
    assert begin.number("ceiling by a start", lambda: None) is None
    again = resumed(SCRIPT, identity(SCRIPT), tmp_path)
    assert again.number("ceiling", lambda: 7.0) == 7.0
    assert again.number("ceiling by a start", lambda: 7.0) is None
    assert resumed(SCRIPT, identity(SCRIPT), tmp_path).number("ceiling", lambda: 8.0) == 7.0


def test_it_names_neither_the_command_nor_its_secrets(tmp_path: Path) -> None:
    measured(tmp_path)
    assert b"secret" not in (tmp_path / FILE).read_bytes()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_script_that_was_edited_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x = 1\n")
    begun(tmp_path, identity(SCRIPT), [str(file), str(tmp_path / "nosuch.py")])
    assert resumed(SCRIPT, identity(SCRIPT), tmp_path).folder == tmp_path.resolve()
    file.write_text("x = 2\n")
    with pytest.raises(journal.Edited, match=r"train\.py` has changed since"):
        resumed(SCRIPT, identity(SCRIPT), tmp_path)


def test_another_command_is_another_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "gputune-runs" / "20260101-000000-train"
    folder.mkdir(parents=True)
    measured(folder)
    assert resumed(SCRIPT, identity(SCRIPT), None).folder == folder.resolve()
    other = Script(command=("python", "other.py"), cwd="/somewhere")
    with pytest.raises(NothingToResume, match=r"other\.py"):
        resumed(other, identity(other), None)


def test_it_knows_what_is_left_of_what_it_remembers(tmp_path: Path) -> None:
    measured(tmp_path)
    again = Remembering(Counting(), resumed(SCRIPT, identity(SCRIPT), tmp_path))
    assert [again.knows(wanted) for wanted in WANTED] == [True, True, True]
    for wanted in WANTED:
        again.measure(wanted)
    assert [again.knows(wanted) for wanted in WANTED] == [True, False, False]
