"""What a sweep takes in the end: the best of what there is room for."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputune.experiment.budget import Budget
from gputune.experiment.script import Script
from gputune.features import Device, Features, Machine
from gputune.features.concurrent_loaders import Company
from gputune.sweep import journal, sweeping
from gputune.sweep.choosing import SettingStats
from gputune.sweep.journal import Journal, NothingToResume
from gputune.sweep.limits import Limits
from gputune.sweep.profile import Profile
from gputune.sweep.search import Found
from gputune.sweep.settings import LoaderSetting, setting
from gputune.sweep.steered import Steered
from gputune.sweep.sweeping import Sweeper, SweepOptions, chosen, sweep, unchecked
from gputune.sweep.visiting import NotSteered

GIB = 1 << 30
OWN, FOUR, EIGHT = (setting(n, 2, pin_memory=False, persistent=False) for n in (0, 4, 8))
STARTER = {"budget": None, "before": lambda: "nothing is refused", "close": list}
ROOM = Limits(workers=64, batches=1e9, memory=9.0 * GIB, worker=GIB, batch=0, script=OWN)


def found(*, company: Company = Company()) -> Found:  # noqa: B008 - a tuple
    """Own settings at 100 samples/s, four workers at 400 and eight at 500, all seen twice."""
    rates = {OWN: 100.0, FOUR: 400.0, EIGHT: 500.0}
    all_stats = {s: SettingStats(setting=s, noise=0.005, visits=[(rate,) * 5] * 2) for s, rate in rates.items()}
    return Found(predicted=rates, all_stats=all_stats, company=company)


def test_the_best_is_taken_where_there_is_room() -> None:
    winner, says = chosen(found(), OWN, ROOM)
    assert (winner.setting, says) == (EIGHT, [])


def test_what_turns_out_not_to_fit_is_not_taken_and_said() -> None:
    met = found(company=Company(2, 2, 1))
    winner, says = chosen(met, OWN, ROOM.beside(met.company))
    assert winner.setting == FOUR
    assert says == [
        "num_workers=8 prefetch_factor=2 is not taken: it would take 17.2 GB more memory with 2 loaders at once, "
        "and 9.66 GB may be used"
    ]


def test_a_longer_queue_of_batches_whose_size_was_not_seen_is_said_to_be_unchecked() -> None:
    unseen = replace(ROOM, batch=None, script=FOUR)
    assert len(unchecked(EIGHT, unseen)) == 1
    assert unchecked(FOUR, unseen) == unchecked(EIGHT, replace(ROOM, script=FOUR)) == []


def sweeper(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sweeper:
    """A sweep whose script was profiled in one start, and whose restarts come to three."""
    for kind, starts in (("Steered", 1), ("Restarts", 3)):
        bench = {"starts": starts, "hangs": (), "noise": 0.01, "remove": list, "know": id}
        monkeypatch.setattr(sweeping, kind, lambda *_, bench=bench: SimpleNamespace(**bench))
    script = Script(command=("python", "train.py"), cwd="/")
    made = Sweeper(SweepOptions(script=script, out=str(folder / "out"), starter=lambda **_: SimpleNamespace(**STARTER)))
    own = SimpleNamespace(
        script=OWN, limits=SimpleNamespace(company=SimpleNamespace(training=2)), settings=list, ceiling=None,
        parts=[100.0] * 5, memory=None, measured=100.0,
    )  # fmt: skip
    monkeypatch.setattr(made, "_profile", lambda *_: own)
    monkeypatch.setattr(made, "_learn", id)
    return made


def test_what_is_not_refused_is_said_before_the_first_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sweeper(tmp_path, monkeypatch)
    said: list[str] = []
    made.wishes = replace(made.wishes, tell=said.append)
    monkeypatch.setattr(made, "_profile", lambda *_: said.append("the first trial") or sys.exit(7))
    with pytest.raises(SystemExit):
        made.run()
    assert (said[0], said[-1]) == ("nothing is refused", "the first trial")


def test_a_ctrl_c_in_the_search_by_restarts_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sweeper(tmp_path, monkeypatch)
    ends = iter((NotSteered("a stream"), KeyboardInterrupt()))

    def searched(*_: object) -> None:
        raise next(ends)

    monkeypatch.setattr(made, "_searched", searched)
    monkeypatch.setattr(made, "_outcomes", lambda *_: SimpleNamespace(stopped=False, starts=made.starts))
    found = made.run()
    assert (found.stopped, found.starts) == (True, 4)


@pytest.mark.parametrize("when", ["_outcomes", "_conclude"])
def test_a_ctrl_c_at_the_end_loses_nothing_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    made = sweeper(tmp_path, monkeypatch)
    result = SimpleNamespace(stopped=False)
    pressed = iter((KeyboardInterrupt(),))

    def interrupted(*_: object) -> object:
        for ctrl_c in pressed:
            raise ctrl_c
        return result

    monkeypatch.setattr(made, "_search", lambda *_: None)
    monkeypatch.setattr(made, "_outcomes", lambda *_: result)
    monkeypatch.setattr(made, "_conclude", lambda *_: None)
    monkeypatch.setattr(made, when, interrupted)
    assert made.run() is result
    assert result.stopped


@pytest.mark.parametrize(
    "other",
    [{"restarts": True}, {"within": 120.0}, {"share": (4.0, None)}, {"place": "n1"}, {"sizes": (8,)}, {"seed": 2}],
    ids=lambda other: next(iter(other)),
)
def test_what_was_measured_in_another_way_is_not_gone_on_with(tmp_path: Path, other: dict[str, object]) -> None:
    wishes = SweepOptions(script=Script(command=("python", "train.py"), cwd="/"), out=str(tmp_path / "out"))
    sweeping._journal(wishes)
    again = replace(wishes, resume=True, budget=9.0)
    assert sweeping._journal(again).folder == (tmp_path / "out").resolve()
    with pytest.raises(NothingToResume):
        sweeping._journal(replace(again, **other))


def test_what_is_remembered_needs_no_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sweeper(tmp_path, monkeypatch)
    made.journal.keep(f"setting {FOUR.words()}", {"state": "ok", "rates": [400.0] * 5})
    made.journal = Journal(made.journal.folder, journal._entries(made.journal.folder / journal.FILE))
    asked: list[LoaderSetting] = []
    bench = SimpleNamespace(
        noise=0.01, kept=0, price=lambda _: 0, met=asked.append, allowed=lambda _: False, takes=lambda _: 9.0,
        takes_then=lambda _: 9.0, measure=asked.append,
    )  # fmt: skip
    here = SimpleNamespace(script=OWN)
    own = SettingStats(setting=OWN, noise=0.01, visits=[[100.0] * 5])
    met = Found(predicted={OWN: 100.0, FOUR: 400.0}, all_stats={OWN: own})
    monkeypatch.setattr(sweeping.plateau, "beyond", lambda *_: None)
    monkeypatch.setattr(sweeping.plateau, "deeper", lambda _here, _predicted, wanted: wanted)
    made._searched(here, met, bench)
    assert met.all_stats[FOUR].visits == [(400.0,) * 5]
    assert asked == [FOUR]  # met, and not measured
    assert made._short  # to go back to it there is no time


def test_what_a_sweep_left_that_was_killed_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, lives = (Steered(SimpleNamespace(), None, Budget()) for _ in range(2))
    os.close(killed._lock)  # as the kernel does
    for bench in (killed, lives):
        Path(bench._folder, "orders-1").touch()
        os.utime(bench._folder, (0, 0))
    monkeypatch.setattr(sweeping, "Sweeper", lambda _: SimpleNamespace(run=lambda: None))
    sweep(SweepOptions(script=Script(command=("python", "train.py"), cwd=str(tmp_path))))
    assert [Path(bench._folder).exists() for bench in (killed, lives)] == [False, True]
    lives.remove()
    assert not Path(lives._folder).exists()


def confirmed(*used: int) -> tuple[int | None, list[str]]:
    """Return the batch size that is taken of 64, 32 and 16 (the script's own), and what is said.

    `used`: what the first of them fill of a device of 100 B with real batches.
    """
    left, removed = list(used), []

    def profiled(wanted: LoaderSetting) -> Profile:
        device = Device(index="0", name="x", memory_used=left.pop(0), memory_total=100)
        machine = Machine(cpus=2.0, cpus_seen=2)
        run = Features(command=("x",), wall=1.0, machine=machine, devices=(device,))
        return SimpleNamespace(script=wanted, run=run)  # type: ignore[return-value] # a stand-in

    own = SimpleNamespace(
        script=replace(OWN, batch_size=16), loader=SimpleNamespace(where="train.py:9"),
        outlook=SimpleNamespace(process=SimpleNamespace(batches=10, optimizer_steps=10)),
    )  # fmt: skip
    sweeper = SimpleNamespace(
        says=[], wishes=SimpleNamespace(tell=lambda _: None),
        _stage=lambda wanted: SimpleNamespace(wanted=wanted, starts=1, remove=lambda: removed.append(wanted)),
        _profile=lambda bench, _: profiled(bench.wanted),
    )  # fmt: skip
    sizes = SimpleNamespace(candidates=lambda: [64, 32, 16])
    taken, *_ = Sweeper._enlarged(sweeper, own, sizes)  # type: ignore[arg-type] # stand-ins
    assert len(removed) == len(used) - (taken is not own)
    return taken.script.batch_size, sweeper.says


def test_a_batch_size_is_taken_that_leaves_room_with_real_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "_found", lambda *_: None)
    monkeypatch.setattr(sweeping, "advice", lambda *_: "advice")
    assert confirmed(89) == (64, ["advice"])


def test_a_batch_size_that_all_but_fills_a_memory_with_real_batches_does_not_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "_found", lambda *_: None)
    monkeypatch.setattr(sweeping, "advice", lambda *_: "advice")
    full = "did not last: it filled 95% of the memory of the device"
    assert confirmed(95, 60) == (32, [f"batch_size=64 {full}", "advice"])
    assert confirmed(95, 95) == (16, [f"batch_size=64 {full}", f"batch_size=32 {full}"])
