"""All settings in one start: orders go out, answers come back, and what is timed is what came after the answer."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Note, Open
from gputune.core.units import NS
from gputune.experiment.budget import Budget
from gputune.experiment.starting import State
from gputune.experiment.timeline import Timeline
from gputune.sweep import steered, sweeping
from gputune.sweep.apart import Broken
from gputune.sweep.search import CutOff
from gputune.sweep.settings import LoaderSetting, setting
from gputune.sweep.steered import NotSteered, Steered

PLACE = "train.py:9"
OWN = setting(0, 2, pin_memory=False, persistent=False, batch_size=8)


def workers(number: int) -> LoaderSetting:
    return setting(number, 2, pin_memory=False, persistent=False, batch_size=8)


class World:
    """A script that makes `rates[workers]` batches a second (99: of a replay), and says of some orders that it cannot.

    It ends by itself after `life` s, and fails after its batch `breaks`, `only` with so many workers.
    Time is what the beats say.
    """

    lives: ClassVar[list["World"]] = []
    rates: ClassVar[dict[int, float]] = {}
    refuses: ClassVar[dict[int, str]] = {}
    life: ClassVar[float] = 1e9
    breaks: ClassVar[float] = 1e9
    only: ClassVar[int | None] = None
    away: ClassVar[int] = 0  # workers that are not there, as between two passes

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.timeline.take(
            [
                Note(0, {"n": "loader", "id": 1, "where": PLACE, "num_workers": 0, "batch_size": 8}),
                Event(0, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0)),
            ]
        )
        self.seconds = 0.0
        self.workers = 0
        self.left = 0
        self.status: int | None = None
        self.log = Path("none.log")
        self.ended = False
        self.batches = 0.0
        World.lives.append(self)

    def obey(self, seq: int, order: dict) -> None:
        if order["do"] == "end":
            self.status = 0
            return
        wanted = order.get("set", {}).get("num_workers", 99)
        state = "refused" if wanted in self.refuses else "serving"
        if state == "serving":
            self.workers, self.left = wanted, order.get("batches") or 0
        ready = int((self.seconds + 0.05) * NS)
        why = self.refuses.get(wanted)
        of = "settings" if "workers" in (why or "") else "loader"
        answer = {"n": "steer", "seq": seq, "state": state, "why": why, "of": of, "ready_ns": ready}
        self.timeline.take([Note(0, answer)])

    def beat(self) -> bool:
        self.seconds += 0.1
        if self.seconds > self.life:
            self.status = 0
        if self.batches > self.breaks and self.only in {None, self.workers}:
            self.status = 1
        if self.status is not None:
            return False
        before, rate = self.batches, self.rates[self.workers]
        self.batches += 0.1 * rate
        for number in range(int(before) + 1, int(self.batches) + 1):
            t = int((self.seconds - 0.1 + (number - before) / rate) * NS)
            self.timeline.take([Event(0, Record(Kind.BATCH, 0, t, t, 1, 0, 0, 0, 8))])
        return True

    def memory(self, workers: int = 0) -> int | None:
        return 1 << 20 if workers <= self.workers - self.away else None

    def features(self):
        return SimpleNamespace(oom_kills=(0, ""), exit_code=self.status, processes=(), out_of_memory=())

    def end(self) -> None:
        self.ended = True

    def interrupt(self) -> None:
        self.interrupted = True


class FakeOrders:
    """Orders that reach the script that was started last."""

    def __init__(self, path: Path) -> None:
        self.seq = 0

    def send(self, order: dict) -> int:
        self.seq += 1
        World.lives[-1].obey(self.seq, order)
        return self.seq


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steered]:
    """A bench whose script was profiled already, at 20 batches of 8 a second."""
    monkeypatch.setattr(steered, "OrderChannel", FakeOrders)
    monkeypatch.setattr(World, "lives", [])
    monkeypatch.setattr(World, "rates", {0: 20.0, 2: 40.0, 4: 80.0, 99: 100.0})
    monkeypatch.setattr(World, "refuses", {})
    monkeypatch.setattr(World, "life", 1e9)
    monkeypatch.setattr(World, "breaks", 1e9)
    monkeypatch.setattr(World, "only", None)
    starter = SimpleNamespace(
        where=PLACE, within=60.0, plan=lambda **_: None, live=lambda *_: World(), folder=Path(),
        script=SimpleNamespace(name="train.py"), missed=lambda _: "",
    )  # fmt: skip
    profile = SimpleNamespace(
        script=OWN, loader=SimpleNamespace(where=PLACE), ranks=1, batch=8.0, spread=0.1, measured=160.0, epoch=0,
        outlook=SimpleNamespace(stepping=0.01), rate=lambda s: 8 * World.rates.get(s.num_workers, 20.0),
    )  # fmt: skip
    made = Steered(starter, None, Budget())
    made.know(profile)
    yield made
    made._live = None  # whatever is left of it
    made.remove()


def test_each_setting_is_timed_by_what_came_under_it(bench: Steered) -> None:
    for wanted, rate in ((workers(4), 640.0), (OWN, 160.0), (workers(2), 320.0), (workers(4), 640.0)):
        found = bench.measure(wanted)
        assert found.state is State.OK
        assert sum(found.rates) / len(found.rates) == pytest.approx(rate, rel=0.03)
    assert bench.starts == 1
    bench.remove()
    assert [world.ended for world in World.lives] == [True]


def test_memory_is_weighed_while_all_workers_are_there(bench: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "away", 1)
    assert bench.measure(workers(4)).memory is None
    monkeypatch.setattr(World, "away", 0)
    assert bench.measure(workers(4)).memory == 1 << 20
    bench.remove()


def test_the_ceiling_is_what_one_batch_again_and_again_gives(bench: Steered) -> None:
    assert bench.ceiling() == pytest.approx(800.0, rel=0.03)
    bench.remove()


def test_going_back_costs_no_trial(bench: Steered) -> None:
    assert (bench.price(OWN), bench.price(workers(4))) == (0, 1)
    bench.measure(workers(4))
    assert bench.price(workers(4)) == 0
    bench.remove()


def test_a_loader_that_cannot_be_switched_is_told_from_a_setting_that_fails(
    bench: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "refuses", {2: "its dataset is a stream", 4: "its workers did not begin within 60 s"})
    failed = bench.measure(workers(4))
    assert (failed.state, failed.why) == (State.FAILED, "its workers did not begin within 60 s")
    with pytest.raises(NotSteered, match="a stream"):
        bench.measure(workers(2))
    bench.remove()


def test_a_script_that_ends_is_started_again(bench: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.measure(workers(4))
    World.lives[-1].status = 0
    found = bench.measure(workers(2))
    assert (found.state, bench.starts) == (State.OK, 2)
    monkeypatch.setattr(World, "life", 0.5)
    World.lives[-1].status = 0
    found = bench.measure(workers(4))
    assert (found.state, found.why) == (State.FAILED, "the script ended before it was measured")
    bench.remove()
    assert all(world.ended for world in World.lives)


def test_short_epochs_are_timed_whole_but_where_the_script_has_too_few(
    bench: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.know(SimpleNamespace(**{**vars(bench.known()), "epoch": 100}))
    found = bench.measure(workers(4))  # 1.25 s an epoch
    assert (found.state, found.seconds > 3 * 1.25) == (State.OK, True)
    bench.close()
    monkeypatch.setattr(World, "life", 3.0)
    found = bench.measure(workers(4))
    assert (found.state, found.seconds < 2 * 1.25) == (State.OK, True)
    bench.remove()


class Stuck(World):
    """A script that makes no batch after its first `LAST`, and hears no order then."""

    LAST = 30

    def obey(self, seq: int, order: dict) -> None:
        if self.batches < self.LAST:
            super().obey(seq, order)

    def beat(self) -> bool:
        if self.batches < self.LAST:
            return super().beat()
        self.seconds += 0.1
        return True


class Pausing(World):
    """A script that evaluates (or saves, if it `SAVES`) for `PAUSE` s after 30 batches, and hears no order meanwhile.

    Its evaluation gives a batch a second.
    """

    PAUSE: ClassVar[float]
    SAVES: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[int, dict]] = []
        self.began, self.over = 0, False
        self.timeline.take([Event(0, Record(Kind.ITERATOR, 0, 0, 0, 2, 2, 0, 0, 0))])

    def obey(self, seq: int, order: dict) -> None:
        if self.began and not self.over:
            self.heard.append((seq, order))
        else:
            super().obey(seq, order)

    def beat(self) -> bool:
        if self.over or self.batches < 30:
            return super().beat()
        self.seconds += 0.1
        t = round(self.seconds * NS)
        if not self.began:
            self.began = t
            saving = Open(0, Kind.SPAN, SpanCode.CHECKPOINT, t, 0)
            self.timeline.take([saving if self.SAVES else Open(0, 0, 0, 0, t)])
        elif t - self.began >= self.PAUSE * NS:
            code = SpanCode.CHECKPOINT if self.SAVES else SpanCode.EVALUATION
            self.timeline.take([Event(0, Record(Kind.SPAN, code, self.began, t, 0, 0, 0, 0, 0)), Open(0, 0, 0, 0, 0)])
            self.over = True
            for seq, order in self.heard:
                self.obey(seq, order)
        elif not self.SAVES and int(self.seconds) > int(self.seconds - 0.1):
            self.timeline.take([Event(0, Record(Kind.BATCH, 0, t, t, 2, 0, 0, 0, 8))])
        return True


@pytest.mark.parametrize(("saves", "pause"), [(False, 1000.0), (True, 100.0)])
@pytest.mark.parametrize("first", [0.4, 2.0])  # s of batches before the visit: the pause is in it, or before its answer
def test_an_evaluation_or_a_checkpoint_in_a_visit_is_no_hang(
    bench: Steered, monkeypatch: pytest.MonkeyPatch, *, saves: bool, pause: float, first: float
) -> None:
    monkeypatch.setattr(Pausing, "SAVES", saves, raising=False)
    monkeypatch.setattr(Pausing, "PAUSE", pause, raising=False)
    bench._starter.live = lambda *_: Pausing()
    bench._beats(bench._again(), first)
    found = bench.measure(workers(4))
    assert (found.state, bench.hangs) == (State.OK, [])
    assert World.lives[0].seconds > pause
    assert len(World.lives) == 1
    bench.remove()


def test_a_checkpoint_that_never_ends_hangs_after_all(bench: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pausing, "SAVES", True, raising=False)
    monkeypatch.setattr(Pausing, "PAUSE", 1e9, raising=False)
    bench._starter.live = lambda *_: Pausing()
    found = bench.measure(workers(4))
    assert (found.state, found.why) == (State.FAILED, "no batch came for 600 s")
    bench.remove()


class Watch(Budget):
    """A budget whose clock is that of the script."""

    @property
    def left(self) -> float:
        return (self.total or float("inf")) - sum(world.seconds for world in World.lives)


def test_a_script_that_hangs_is_told_from_one_without_a_ceiling(bench: Steered) -> None:
    bench._starter.live = lambda *_: Stuck()
    with pytest.raises(CutOff):
        bench.ceiling()
    assert bench.hangs == ["no batch came for 60 s with one batch again and again"]
    assert (World.lives[0].ended, World.lives[0].interrupted) == (True, True)
    assert sweeping.hung(bench.hangs) == [f"the script seems to hang: {bench.hangs[0]}"]
    bench.remove()


def test_a_script_that_hangs_is_ended_with_the_budget(bench: Steered) -> None:
    bench._starter.live, bench._budget = lambda *_: Stuck(), Watch(total=20.0)
    found = bench.measure(workers(4))
    assert (found.state, found.cut_off) == (State.FAILED, True)
    assert found.why.startswith("the budget of 20.0 s was over, and no batch had come for ")
    assert len(bench.hangs) == 1
    assert World.lives[0].seconds < 40
    assert not bench.allowed(workers(2))
    bench.remove()


def test_a_setting_without_a_batch_is_no_end(bench: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "rates", {0: 20.0, 2: 40.0, 4: 1e-9, 99: 100.0})
    bench.know(SimpleNamespace(**{**vars(bench.known()), "rate": lambda _: 160.0}))
    found = bench.measure(workers(4))
    assert (found.state, found.why) == (State.FAILED, "no batch came for 60 s")
    monkeypatch.setattr(World, "rates", {0: 20.0, 2: 40.0, 4: 80.0, 99: 100.0})
    assert bench.measure(workers(2)).state is State.OK
    bench.remove()


def test_a_script_that_fails_with_its_own_settings_as_well_is_no_fault_of_a_setting(
    bench: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "breaks", 15)
    with pytest.raises(Broken, match=r"`train\.py` fails with its own settings as well, before its batch .*status 1"):
        bench.measure(workers(4))
    assert bench.starts == 2
    bench.remove()
    assert all(world.ended for world in World.lives)


def test_a_setting_under_which_alone_the_script_fails_has_failed(
    bench: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "breaks", 15)
    monkeypatch.setattr(World, "only", 4)
    assert bench.measure(workers(4)).state is State.FAILED
    assert bench.starts == 2
    assert bench.measure(workers(2)).state is State.OK
    assert bench.starts == 2  # the start that went back goes on
    bench.remove()


def test_a_script_that_misses_what_it_wrote_in_a_trial_says_so(bench: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "breaks", 15)
    monkeypatch.setattr(bench._starter, "missed", lambda _: "it wrote `ck/last.pt` itself")
    with pytest.raises(Broken, match=r"it wrote `ck/last\.pt` itself"):
        bench.measure(workers(4))
    assert bench.starts == 1
    bench.remove()


def test_a_ceiling_that_the_budget_cut_off_is_none_that_cannot_be_measured(bench: Steered) -> None:
    bench._budget = Watch(total=0.5)
    with pytest.raises(CutOff):
        bench.ceiling()
    bench._budget = Budget()
    World.refuses = {99: "its batches cannot be copied"}
    assert bench.ceiling() is None
    bench.remove()
