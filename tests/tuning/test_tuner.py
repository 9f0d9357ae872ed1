"""The course of a tuning, in trainings whose truth is known: what is tried, what is kept, what is given up."""

import contextlib
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Sample
from gputune.core.units import NS
from gputune.features import Features, Fetch, Loader, Machine, Process
from gputune.tuning import tuner, visits
from gputune.tuning.training import Over, Training
from gputune.tuning.tuner import Tuner

PLACE = "train.py:9"
STEP, ITEM = 0.008, 0.040  # s


def sleeping(workers: int) -> float:
    """Return batches a second where making one is sleep: five workers are enough."""
    return 1 / max(STEP, ITEM / workers) if workers else 1 / (STEP + ITEM)


def locked(workers: int) -> float:
    """Return the same where all workers wait for one lock, which no model sees."""
    return 1 / ITEM if workers else 1 / (ITEM + 0.0004)


class World(Training):
    """A training that goes on; time is what its beats say. It obeys orders, and ends after `life` s."""

    def __init__(
        self, truth: Callable[[int], float] = sleeping, *, step: float = STEP, workers: int = 0, epoch: int = 0
    ) -> None:
        super().__init__()
        self.truth, self.step, self.own = truth, step, workers
        self.refuses: dict[int, str] = {}
        self.life = 300.0
        self.epoch = epoch  # batches, after which it ends; 0: as many as come
        self.seconds = self.done = 0.0
        self.workers = workers
        self.left = 0
        self.seq = 0
        self.orders: list[dict] = []
        self.iterable = False
        self.apart: float | None = None
        self.happens: dict[float, Callable[[], None]] = {}
        fields = {"n": "loader", "id": 1, "where": PLACE, "num_workers": workers, "batch_size": 8, "length": epoch}
        self.timeline.take([Guest(0, 100, 1, 0, 0, "main", "ring"), Note(0, fields)])
        self.timeline.take([Event(0, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0))])
        self.draws.take({"of": [], "inline": True})

    def send(self, order: dict) -> int:
        self.seq += 1
        self.orders.append(order)
        wanted = order["set"].get("num_workers", self.own)
        state = "refused" if wanted in self.refuses else "serving"
        if state == "serving":
            self.workers, self.left = wanted, order["batches"] or 0
        self.tell(state, self.refuses.get(wanted, ""))
        return self.seq

    def tell(self, state: str, why: str = "") -> None:
        ready = int((self.seconds + 0.05) * NS)
        of = "settings" if "worker" in why else "loader"
        answer = {"n": "steer", "seq": self.seq, "state": state, "why": why, "of": of, "ready_ns": ready}
        self.timeline.take([Note(0, answer)])

    def beat(self) -> None:
        self.seconds += 0.1
        for moment in [m for m in self.happens if m <= self.seconds]:
            self.happens.pop(moment)()
        if self.seconds > self.life or self.done > self.epoch > 0:
            raise Over
        before, rate = self.done, self.truth(self.workers)
        self.done += 0.1 * rate
        for number in range(int(before) + 1, int(self.done) + 1):
            self._batch(self.seconds - 0.1 + (number - before) / rate, max(0.0, 1 / rate - self.step))

    def _batch(self, t: float, wait: float) -> None:
        self.timeline.take([Event(0, Record(Kind.BATCH, 0, int((t - wait) * NS), int(t * NS), 1, 0, 0, 0, 8))])
        self._count()

    def evaluate(self) -> None:
        """Evaluate for a second."""
        begin, self.seconds = self.seconds, self.seconds + 1
        times = int(begin * NS), int(self.seconds * NS)
        self.timeline.take([Event(0, Record(Kind.SPAN, SpanCode.EVALUATION, *times, 0, 0, 0, 0, 0))])

    def go_on(self, ready: int) -> None:
        """Train on as many batches that have been made meanwhile."""
        for _ in range(ready):
            self.seconds += self.step
            self.done += 1
            self._batch(self.seconds, 0.0)

    def _count(self) -> None:
        self.left -= self.left > 0
        if not self.left and self.orders and self.orders[-1]["batches"] and self.workers != self.own:
            self.workers = self.own
            self.tell("back")

    def pass_by(self, seconds: float) -> None:
        until = self.seconds + seconds
        while self.seconds < until:
            self.beat()

    def features(self) -> Features:
        wait = max(0.0, 1 / self.truth(self.own) - self.step)
        told = 0 if self.apart else 200
        fetch = Fetch(wall=ITEM, cpu=0.001, queued=0.0, collate=0.0, samples=8)
        loader = Loader(
            where=PLACE, num_workers=self.own, prefetch_factor=2 if self.own else None, pin_memory=False,
            persistent_workers=False, batch_size=8, batches=int(self.done), samples=8 * int(self.done),
            waits=(wait,) * told, steps=(self.step,) * told, fetches=(fetch,) * told, iterable=self.iterable,
            wait_total=wait * self.done, apart=self.apart,
        )  # fmt: skip
        process = Process(
            pid=100, rank=None, wall=self.seconds, ledger={}, inclusive={}, loop=self.seconds,
            batches=int(self.done), samples=8 * int(self.done), optimizer_steps=int(self.done), loaders=(loader,),
        )  # fmt: skip
        return Features(
            command=("python", "train.py"),
            wall=self.seconds,
            machine=Machine(cpus=8, cpus_seen=8),
            processes=(process,),
        )


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Tuner, list[str]]]:
    """Return what tunes a world to its end, and returns the tuner with what it has said."""

    def run(world: World, mode: str = "all") -> tuple[Tuner, list[str]]:
        clock = SimpleNamespace(monotonic=lambda: world.seconds)
        monkeypatch.setattr(tuner, "time", clock)
        monkeypatch.setattr(visits, "time", clock)
        said: list[str] = []
        made = Tuner(world, world, mode, said.append)  # type: ignore[arg-type] # the world takes its orders itself
        with contextlib.suppress(Over):
            made.run()
        return made, said

    return run


def last(world: World) -> dict:
    """Return what the last order asked for."""
    return world.orders[-1]["set"]


def test_what_pays_is_kept(tuned) -> None:
    world = World()
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("kept", "")
    assert found.own is not None
    assert found.now is not None
    assert found.speedup is not None
    assert found.own.num_workers == 0
    assert 4 <= found.now.num_workers <= 6
    assert found.speedup.low < sleeping(found.now.num_workers) / sleeping(0) < found.speedup.high
    assert last(world)["num_workers"] == found.now.num_workers
    assert world.orders[-1]["batches"] is None
    assert found.tries
    assert all(row.state == "ok" for row in found.tries)
    assert {order["where"] for order in world.orders} == {PLACE}


def test_what_is_only_tried_is_measured_and_the_scripts_own_serves_again(tuned) -> None:
    world = World()
    made, _ = tuned(world, "try")
    found = made.story.document()
    assert (found.state, found.why) == ("tried", "")
    assert found.best is not None
    assert found.speedup is not None
    assert 4 <= found.best.num_workers <= 6
    assert found.speedup.low < sleeping(found.best.num_workers) / sleeping(0) < found.speedup.high
    assert (world.workers, last(world)) == (0, {})
    assert made.before is not None
    assert made.since is not None
    assert found.tried_from_s == pytest.approx(made.before.wall, abs=0.001)
    assert found.since_s is not None
    assert found.tried_from_s < found.since_s


def test_what_is_tried_in_vain_is_measured_as_that(tuned) -> None:
    world = World(locked)
    found = tuned(world, "try")[0].story.document()
    assert found.state == "tried"
    assert found.speedup is not None
    assert found.speedup.high < 1.05
    assert last(world) == {}


def test_what_was_made_ready_in_an_evaluation_before_a_visit_is_no_rate_of_it(tuned) -> None:
    world = World(lambda workers: sleeping(min(workers, 4)))  # with more they wait for a lock: batches lie never ready
    send = world.send

    def first_evaluates(order: dict) -> int:
        world.evaluate()
        seq = send(order)
        world.go_on(60 if world.workers else 0)
        return seq

    world.send = first_evaluates  # type: ignore[method-assign] # it does so before each visit
    found = tuned(world)[0].story.document()
    assert found.state == "kept"
    for row in found.tries:
        assert row.samples_per_s == pytest.approx(8 * sleeping(min(row.settings.num_workers, 4)), rel=0.02)


def test_every_try_ends_by_itself_if_nobody_is_there_to_end_it(tuned) -> None:
    world = World()
    found = tuned(world)[0].story.document()
    tries = [order for order in world.orders if order["batches"] is not None]
    for_good = [order["set"] for order in world.orders if order["batches"] is None]
    assert len(tries) >= 5
    assert found.now is not None
    assert {order.get("num_workers") for order in for_good} == {found.now.num_workers}


def test_the_script_s_own_settings_serve_again_where_nothing_pays(tuned) -> None:
    world = World(locked)
    found = tuned(world)[0].story.document()
    assert found.state == "unchanged"
    assert found.speedup is not None
    assert found.speedup.high < 1.05
    assert last(world) == {}
    assert world.workers == 0
    assert found.tries
    assert found.now == found.own


def test_a_healthy_training_is_sent_nothing(tuned) -> None:
    world = World(lambda _: 1 / 0.0401, step=0.040)
    found = tuned(world)[0].story.document()
    assert found.state == "healthy"
    assert "waits for batches" in found.why
    assert world.orders == []


def test_a_training_that_sickens_later_is_tuned_then(tuned) -> None:
    world = World(lambda _: 1 / 0.0401, step=0.040)

    def sicken() -> None:
        world.truth, world.step = sleeping, STEP

    world.happens[30.0] = sicken
    assert tuned(world)[0].story.document().state == "kept"


def test_identical_tries_no_workers_where_samples_draw(tuned) -> None:
    world = World()
    world.draws.take({"of": ["torch"], "inline": True})
    made, said = tuned(world, "identical")
    found = made.story.document()
    assert (found.state, world.orders, said) == ("healthy", [], [])
    assert "only its queue may change" in found.why
    assert found.draws == ["torch"]


def test_identical_tunes_workers_where_samples_draw_nothing(tuned) -> None:
    made, said = tuned(World(), "identical")
    assert (made.story.document().state, said) == ("kept", [])


def test_identical_gives_workers_up_once_their_samples_draw(tuned) -> None:
    world = World()
    world.happens[100.0] = lambda: world.draws.take({"of": ["numpy"], "inline": False})
    found = tuned(world, "identical")[0].story.document()
    assert found.state == "lost"
    assert "random numbers (numpy's)" in found.why
    assert last(world) == {}


def test_what_will_differ_is_said_before_the_first_switch(tuned) -> None:
    world = World()
    world.draws.take({"of": ["torch", "own"], "inline": True})
    heard: list[int] = []
    send = world.send
    world.send = lambda order: heard.append(len(said)) or send(order)  # type: ignore[method-assign] # listens
    said: list[str] = []
    clock = SimpleNamespace(monotonic=lambda: world.seconds)
    tuner.time, visits.time, before = clock, clock, (tuner.time, visits.time)  # type: ignore[assignment] # a clock
    try:
        Tuner(world, world, "all", said.append).run()  # type: ignore[arg-type] # as above
    except Over:
        pass
    finally:
        tuner.time, visits.time = before
    assert len(said) == 1
    assert set(heard) == {1}
    assert "random numbers (a generator's of its own and torch's)" in said[0]
    assert "dropout" in said[0]
    assert "`--tune=identical`" in said[0]


def test_a_setting_that_fails_is_a_row_and_nothing_larger_is_tried(tuned) -> None:
    world = World()
    world.refuses = dict.fromkeys(range(1, 65), "its workers cannot be started: PicklingError")
    found = tuned(world)[0].story.document()
    assert found.state == "unchanged"
    assert [row.state for row in found.tries] == ["failed"] * len(found.tries)
    assert "PicklingError" in found.tries[0].why
    counts = [row.settings.num_workers for row in found.tries]
    assert counts == sorted(counts, reverse=True)
    assert last(world) == {}


def test_a_loader_that_cannot_be_switched_is_said(tuned) -> None:
    world = World()
    world.refuses = dict.fromkeys(range(1, 65), "its dataset is a DataPipe")
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("refused", "its dataset is a DataPipe")
    assert last(world) == {}


def test_of_a_stream_only_the_queue_may_change(tuned) -> None:
    world = World()
    world.iterable = True
    found = tuned(world)[0].story.document()
    assert (found.state, world.orders) == ("healthy", [])
    assert "a stream" in found.why


def test_workers_that_die_later_are_not_kept(tuned) -> None:
    world = World()
    world.happens[120.0] = lambda: world.tell("refused", "under it: RuntimeError: worker (pid 7) is killed")
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("lost", "under it: RuntimeError: worker (pid 7) is killed")
    assert found.now == found.own


def test_it_is_given_up_before_memory_is_full(tuned) -> None:
    world = World()
    total, free = (Metric(name, "B", "") for name in ("memory.total", "memory.available"))
    world.room.take(Sample(total, 0, 100e9))
    world.happens[100.0] = lambda: world.room.take(Sample(free, 0, 3e9))
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("lost", "only 3 GB of memory are left")
    assert last(world) == {}


def test_what_does_not_pay_any_more_is_given_up(tuned) -> None:
    world = World()
    world.life = 3000.0

    def warm() -> None:  # all is in the page cache now, and workers only cost
        world.truth = lambda workers: 1 / (0.012 if workers else 0.010)

    world.happens[60.0] = warm
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("lost", "it did not pay any more")
    assert last(world) == {}


@pytest.mark.parametrize(("life", "state"), [(2.0, "waiting"), (7.0, "trying")])
def test_a_training_that_ends_early_says_how_far_it_came(tuned, life: float, state: str) -> None:
    world = World()
    world.life = life
    assert tuned(world)[0].story.document().state == state


def test_a_single_epoch_is_tuned_in_the_middle_of_it(tuned) -> None:
    """With workers all of it would take 4 s and 12 s: no visit waits for an end that is the end of the training."""
    found = tuned(World(epoch=500))[0].story.document()
    assert (found.state, found.why.partition(" ")[0]) == ("trying", "measuring")
    assert [row.state for row in found.tries] == ["ok"] * len(found.tries) != []
    assert found.speedup is not None
    assert found.speedup.likely > 3
    assert tuned(World(epoch=1500))[0].story.document().state == "kept"


def test_of_a_loader_whose_batches_a_thread_takes_it_is_said(tuned) -> None:
    world = World()
    world.apart = 0.5
    found = tuned(world)[0].story.document()
    assert (found.state, world.orders) == ("waiting", [])
    assert "taken by a thread of their own" in found.why


def test_nobody_is_waited_for_where_nobody_obeys(tuned) -> None:
    world = World()
    world.send = lambda order: world.orders.append(order) or len(world.orders)  # type: ignore[method-assign] # deaf
    found = tuned(world)[0].story.document()
    assert (found.state, found.why) == ("refused", "nobody has answered")
