"""Device-seconds, joules and money of a run, and how much of them was waiting."""

from gputune.features import Device, Features, Machine, Process
from gputune.features.waiting import use
from gputune.verdict.spending import spending


def card(index: str = "0", **facts) -> Device:
    """A device that waited 900 of the run's 3600 s, at 100 W, and drew 1 MJ."""
    told = {"busy": 0.8, "idle": 900.0, "energy": 1e6, "idle_power": 100.0, "power": 280.0}
    return Device(index=index, name="H200", **{**told, **facts})


def run(*devices: Device, ledger: dict[str, float] | None = None) -> Features:
    """An hour's run; without a ledger nobody trained."""
    spans = ledger or {}
    process = Process(
        pid=1, rank=None, wall=3600.0, ledger=spans, inclusive=spans, in_loop=spans, loop=3000.0, batches=10,
        samples=320, optimizer_steps=10,
    )  # fmt: skip
    machine = Machine(cpus=8, cpus_seen=8)
    return Features(
        command=("x",), wall=3600.0, machine=machine, processes=(process,) if ledger else (), devices=devices
    )


def test_without_a_device_and_a_price_there_is_nothing_to_say() -> None:
    assert spending(run(ledger={"loader.wait": 1800.0})) is None


def test_waiting_seconds_become_joules_and_money() -> None:
    spent = spending(run(card()), price=2.5, samples_per_s=560.0)
    assert spent is not None
    assert (spent.device_s, spent.waiting_s, spent.energy_j, spent.waiting_j) == (3600, 900, 1e6, 90_000)
    assert (spent.cost, spent.waiting_cost, spent.samples_per_j) == (2.5, 0.625, 2.0)


def test_the_price_is_that_of_each_device() -> None:
    spent = spending(run(card("0"), card("1", idle=1800.0)), price=2.0)
    assert spent is not None
    assert (spent.cost, spent.waiting_cost, spent.energy_j) == (4.0, 1.5, 2e6)


def test_what_one_device_does_not_tell_is_not_told_of_all() -> None:
    spent = spending(run(card("0"), card("1", energy=None, power=None)), samples_per_s=1.0)
    assert spent is not None
    assert (spent.energy_j, spent.waiting_j, spent.samples_per_j, spent.cost) == (None, None, None, None)


def test_waiting_never_costs_more_than_was_drawn() -> None:
    spent = spending(run(card(energy=50.0)))
    assert spent is not None
    assert spent.waiting_j == 50.0


def test_without_a_device_the_trainings_own_waiting_is_paid_for() -> None:
    spent = spending(run(ledger={"startup": 600.0, "loader.wait": 900.0, "step": 2100.0}), price=1.0)
    assert spent is not None
    assert (spent.by, spent.waiting_s, spent.waiting_cost) == ("training", 1500, 1500 / 3600)


def test_where_nobody_trained_the_waiting_is_not_known() -> None:
    spent = spending(run(), price=1.0)
    assert spent is not None
    assert (spent.cost, spent.waiting_s, spent.waiting_cost) == (1.0, None, None)


def test_use_is_the_devices_else_the_loops() -> None:
    waits = {"loader.wait": 900.0, "logging": 300.0, "step": 1800.0}
    assert use(run(card(busy=0.8), card(busy=0.4), ledger=waits)) == (0.6000000000000001, "device")
    assert use(run(ledger=waits)) == (0.6, "training")
    assert use(run()) is None
