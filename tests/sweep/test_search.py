"""The search finds the best setting of worlds whose truth is known, with a model that is a little off."""

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gputune.experiment.starting import State
from gputune.sweep import plateau
from gputune.sweep.search import Found, Outcome, Search
from gputune.sweep.settings import LoaderSetting, setting

OWN = setting(0, 2, pin_memory=False, persistent=False, batch_size=8)
GRID = [OWN] + [
    setting(n, p, pin_memory=False, persistent=False, batch_size=8)
    for n, p in itertools.product((1, 2, 3, 4, 5, 6, 8, 10, 12, 16), (2, 4, 8))
]


class World:
    """A bench whose truth is `rate`; its visits are `noise` off, and settings of which `breaks` is true fail."""

    kept = 2

    def __init__(self, rate, *, noise=0.003, breaks=lambda _: False):
        self.rate, self.noise, self.breaks = rate, noise, breaks
        self.chance = random.Random(5)
        self.visits: list[LoaderSetting] = []

    def price(self, wanted: LoaderSetting) -> int:
        return 1

    def measure(self, wanted: LoaderSetting) -> Outcome:
        self.visits.append(wanted)
        if self.breaks(wanted):
            return Outcome(state=State.FAILED, why="it broke")
        visit = self.rate(wanted) * (1 + self.noise * self.chance.gauss(0, 1))
        return Outcome(state=State.OK, rates=tuple(visit * (1 + 0.005 * self.chance.gauss(0, 1)) for _ in range(10)))


class Switched(World):
    """A bench on which it costs no trial to go back to a setting."""

    kept = 0

    def __init__(self, rate, **more):
        super().__init__(rate, **more)
        self.seen: set[LoaderSetting] = {OWN}

    def price(self, wanted: LoaderSetting) -> int:
        return int(wanted not in self.seen)

    def measure(self, wanted: LoaderSetting) -> Outcome:
        self.seen.add(wanted)
        return super().measure(wanted)


def searched(world: World, model, *, own: LoaderSetting = OWN, trials: int = 4, grid=GRID, ample=None, **more):
    """Search the grid by that model, and return the search and how far its choice is from the best there is."""
    found = Found(predicted={s: model(s) for s in {own, *grid}})
    found.take(own, world.measure(own), world.noise)
    world.visits.clear()
    search = Search(
        SimpleNamespace(script=own),
        world,
        found,
        trials=trials,
        allowed=lambda _: True,
        tell=lambda *_: None,
        ample=ample,
        **more,
    )
    search.run()
    most = max(world.rate(s) for s in {own, *grid} if not world.breaks(s))
    return search, 1 - world.rate(search.best.setting) / most


def sleeping(setting: LoaderSetting) -> float:
    """Batches of 40 ms that sleep, steps of 8 ms: five workers are enough."""
    return 8 / max(0.008, 0.040 / setting.num_workers) if setting.num_workers else 8 / 0.048


def computing(setting: LoaderSetting) -> float:
    """Batches of 10 ms of CPU on two CPUs: more than two workers only get into each other's way."""
    crowd = max(0, setting.num_workers - 2)
    return 8 / (0.010 / min(2, setting.num_workers) * (1 + 0.02 * crowd)) if setting.num_workers else 8 / 0.013


@pytest.mark.parametrize("truth", [sleeping, computing])
@pytest.mark.parametrize("off", [0.0, 0.04, -0.04])
def test_a_model_that_is_a_little_off_costs_next_to_nothing(truth, off) -> None:
    world = World(truth)
    search, regret = searched(world, lambda s: truth(s) * (1 + off * (s.num_workers > 4)))
    assert regret <= 0.03
    assert len(world.visits) <= 4
    assert search.best.setting.num_workers <= 8


def test_a_model_that_misses_by_one_worker_is_put_right_by_a_neighbour() -> None:
    world = World(sleeping)
    _, regret = searched(world, lambda s: min(sleeping(s), 8 / 0.0102))  # it believes in four workers
    assert regret <= 0.03


def test_a_first_visit_that_was_disturbed_makes_no_gain() -> None:
    """On a machine that others used in the first seconds, no workers were ×2.8 of four: they were ×1.2."""

    class Disturbed(Switched):
        share = 0.5

        def measure(self, wanted: LoaderSetting) -> Outcome:
            outcome, share = super().measure(wanted), self.share
            self.share = 1.0
            return replace(outcome, rates=tuple(rate * share for rate in outcome.rates))

    world = Disturbed(lambda s: 1000.0 if s in {OWN, GRID[1]} else 900.0)
    search, _ = searched(world, lambda s: 1100.0 if s == GRID[1] else 900.0, grid=GRID[:2])
    assert world.visits.count(OWN) > 1
    assert search.best.setting == OWN


def test_what_is_best_already_stays() -> None:
    own = setting(5, 2, pin_memory=False, persistent=False, batch_size=8)
    world = World(sleeping)
    search, _ = searched(world, sleeping, own=own)
    assert search.best.setting == own


def test_a_setting_that_fails_is_no_end_and_nothing_larger_is_tried() -> None:
    world = World(sleeping, breaks=lambda s: s.num_workers > 3)
    search, regret = searched(world, sleeping, trials=6)
    first = world.visits[0]
    assert search.found.failed[first].why == "it broke"
    assert all(s.num_workers < first.num_workers for s in world.visits[1:])
    assert search.best.setting.num_workers <= 3
    assert regret <= 0.3


def test_where_the_first_one_fails_the_search_goes_on_with_half_its_workers() -> None:
    def plentiful(setting: LoaderSetting) -> float:
        return 8 / max(0.004, 0.064 / setting.num_workers) if setting.num_workers else 8 / 0.068

    world = World(plentiful, breaks=lambda s: s.num_workers > 9)
    search, _ = searched(world, plentiful)
    assert [s.num_workers for s in world.visits][:2] == [16, 8]
    assert search.best.setting.num_workers >= 8


def test_a_setting_that_fails_when_it_is_gone_back_to_is_not_recommended() -> None:
    class Leaking(Switched):
        def measure(self, wanted: LoaderSetting) -> Outcome:
            again = wanted in self.visits and wanted.num_workers >= 5
            found = super().measure(wanted)
            return Outcome(state=State.OOM, why="it ran out of memory") if again else found

    world = Leaking(sleeping, noise=0.001)
    search, _ = searched(world, sleeping, ample=plenty)
    broken = {s for s in world.visits if s.num_workers >= 5 and world.visits.count(s) > 1}
    assert broken
    assert all(search.found.failed[s].state is State.OOM and s not in search.found.all_stats for s in broken)
    assert search.best.setting not in broken


def test_what_was_cut_off_by_the_budget_is_no_failure_of_the_setting() -> None:
    class Late(Switched):
        def measure(self, wanted: LoaderSetting) -> Outcome:
            found = super().measure(wanted)
            cut = self.visits.count(wanted) > 1
            return Outcome(state=State.FAILED, why="the budget was over", cut_off=True) if cut else found

    search, _ = searched(Late(sleeping, noise=0.001), sleeping, ample=plenty)
    assert search.best.setting.num_workers >= 5


def test_where_everything_fails_the_script_stays_as_it_is() -> None:
    world = World(sleeping, breaks=lambda s: s.num_workers > 0)
    search, _ = searched(world, sleeping)
    assert search.best.setting == OWN


def test_without_time_nothing_is_measured() -> None:
    world = World(sleeping)
    found = Found(predicted={s: sleeping(s) for s in GRID})
    found.take(OWN, world.measure(OWN), world.noise)
    world.visits.clear()
    search = Search(SimpleNamespace(script=OWN), world, found, trials=4, allowed=lambda _: False, tell=lambda *_: None)
    search.run()
    assert world.visits == []
    assert search.best.setting == OWN


def test_what_visits_differ_by_is_the_noise_of_every_setting() -> None:
    found = Found(predicted={})
    for wanted, rate in ((GRID[1], 90.0), (GRID[1], 110.0), (GRID[2], 100.0)):
        found.take(wanted, Outcome(state=State.OK, rates=(rate,) * 10), 0.005)
    assert [stats.noise for stats in found.all_stats.values()] == pytest.approx([0.1414, 0.1414], rel=0.01)


def test_visits_that_cost_no_trial_are_used_to_tell_two_settings_apart() -> None:
    class Steered(World):
        kept = 0

        def price(self, wanted: LoaderSetting) -> int:
            return 0 if wanted in seen else 1

        def measure(self, wanted: LoaderSetting) -> Outcome:
            seen.add(wanted)
            return super().measure(wanted)

    seen: set[LoaderSetting] = {OWN}

    def nearly(setting: LoaderSetting) -> float:
        return sleeping(setting) if setting.num_workers else 8 / 0.0085

    world = Steered(nearly, noise=0.02)
    search, _ = searched(world, nearly, trials=6)
    assert len({*world.visits}) <= 6
    assert max(len(t.visits) for t in search.found.all_stats.values()) > 1


def plenty(enough: LoaderSetting) -> LoaderSetting | None:
    return plateau.ample(enough, GRID, queue=100)


def late(setting: LoaderSetting) -> float:
    """Batches that sleep, and a plateau that begins with twice the workers that their model has it begin with."""
    return sleeping(setting) * (1 - 0.06 * max(0, 9 - setting.num_workers) / 9)


def thirsty(setting: LoaderSetting) -> float:
    """Batches that sleep, and a queue that has to be long."""
    return sleeping(setting) * (1 - 0.3 / max(1, setting.queue))


@pytest.mark.parametrize(("truth", "chosen"), [(sleeping, (5, 2)), (late, (8, 8)), (thirsty, (5, 8))])
@pytest.mark.parametrize("seed", range(5))
def test_a_plateau_that_begins_later_than_believed_is_found_and_one_that_does_not_costs_nothing(
    truth, chosen, seed
) -> None:
    world = Switched(truth, noise=0.001)
    world.chance = random.Random(seed)
    search, regret = searched(world, sleeping, ample=plenty)
    assert regret <= 0.01
    assert len({*world.visits} - {OWN}) <= 4
    assert (search.best.setting.num_workers, search.best.setting.prefetch_factor) == chosen


def test_a_queue_that_costs_nothing_is_long_from_the_first_visit_on() -> None:
    world = Switched(thirsty, noise=0.001)
    search, regret = searched(world, sleeping, ample=plenty, deeper=lambda s: replace(s, prefetch_factor=8))
    assert world.visits[0].prefetch_factor == 8
    assert regret <= 0.01
    assert search.best.setting == setting(5, 8, pin_memory=False, persistent=False, batch_size=8)


def test_where_more_is_measured_to_bring_nothing_only_what_is_cheaper_is_tried() -> None:
    world = Switched(sleeping, noise=0.001)
    searched(world, lambda s: sleeping(s) * (1 + 0.001 * s.num_workers), ample=plenty, trials=10)
    first, second, *others = dict.fromkeys(world.visits)
    assert second.num_workers > first.num_workers
    assert all(s.num_workers < first.num_workers for s in others)


def test_more_that_gets_in_the_way_is_no_reason_not_to_look_at_neighbours() -> None:
    world = Switched(computing, noise=0.001)
    search, regret = searched(world, lambda s: computing(s) * (0.9 if s.num_workers == 2 else 1.0), ample=plenty)
    assert regret <= 0.03
    assert search.best.setting.num_workers <= 3


def test_plenty_that_fails_leaves_what_was_found() -> None:
    world = Switched(sleeping, breaks=lambda s: s.num_workers > 6)
    search, regret = searched(world, sleeping, ample=plenty)
    assert regret <= 0.01
    assert any(s.num_workers > 6 for s in search.found.failed)


def test_two_that_are_close_are_gone_back_to_before_one_is_believed() -> None:
    world = Switched(late, noise=0.001)
    searched(world, sleeping, ample=plenty)
    first, second = list(dict.fromkeys(world.visits))[:2]
    assert world.visits[:4] == [first, second, first, second]


@pytest.mark.parametrize("kind", [World, Switched])
@pytest.mark.parametrize("truth", [sleeping, late, computing])
def test_no_more_visits_follow_than_it_says(kind, truth) -> None:
    world, told = kind(truth, noise=0.02), []
    found = Found(predicted={s: sleeping(s) for s in GRID})
    found.take(OWN, world.measure(OWN), world.noise)
    search = Search(
        SimpleNamespace(script=OWN),
        world,
        found,
        trials=4,
        allowed=lambda _: True,
        tell=lambda *_: told.append(search.left),
        ample=plenty,
    )
    search.run()
    assert told
    assert all(left >= len(told) - number for number, left in enumerate(told, start=1))
    assert told[0] <= 41


def test_page_locked_batches_are_tried_where_they_are_predicted_to_bring_anything() -> None:
    grid = [*GRID, *(replace(s, pin_memory=True) for s in GRID)]

    def pays(by: float):
        return lambda s: sleeping(s) * (by if s.pin_memory else 1.0)

    search, regret = searched(World(pays(1.4)), pays(1.02), grid=grid)  # the model knows next to nothing of it
    assert search.best.setting.pin_memory
    assert regret < 0.05
    world = World(pays(0.8))
    searched(world, pays(1.0), grid=grid)
    assert not any(s.pin_memory for s in world.visits)
