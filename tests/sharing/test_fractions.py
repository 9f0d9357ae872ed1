"""What each process asks of a cluster: from what one needs, spread over the cards, and refused in numbers."""

import pytest

from gputune.sharing.fitting import Need, Probed, Room
from gputune.sharing.fractions import Whole, ask, best, per_card, refusal

GB = 10**9
CARD = Room(name="GPU 0 (sim)", device=80.0 * GB, device_free=80.0 * GB)
TWO = Whole(gpus=2.0, cpus=32.0, memory=256.0 * GB)


def probed(**need: object) -> Probed:
    return Probed(need=Need(**need), room=CARD)  # type: ignore[arg-type] # by name


def test_the_fraction_is_one_over_how_many_share_a_card() -> None:
    wish = ask(probed(device=10.0 * GB, busy=0.3, cores=2.0, host=4.0 * GB), TWO, 6)
    assert (wish.gpu, wish.cpus, wish.memory, wish.at_once) == (0.3333, 2.0, 4 * GB, 6)
    assert wish.bundle() == {"GPU": 0.3333, "CPU": 2.0, "memory": 4.0 * GB}


def test_they_are_spread_over_the_cards_and_not_crowded_on_one() -> None:
    assert ask(probed(device=1.0 * GB, busy=0.05), TWO, 2).gpu == 1.0
    assert ask(probed(device=1.0 * GB, busy=0.05), TWO, 4).gpu == 0.5


@pytest.mark.parametrize(
    ("need", "fits", "why"),
    [
        ({"device": 30.0 * GB, "busy": 0.1}, 2, "device memory is the limit"),
        ({"device": 5.0 * GB, "busy": 0.6}, 2, "device time is the limit"),
        ({"device": 5.0 * GB, "busy": 1.0}, 1, "device time is the limit"),
        ({"device": 40.0 * GB, "given": True}, 2, "device memory is the limit"),
        ({"device": 78.0 * GB}, 1, "device memory is the limit"),
        ({"device": 1.0 * GB, "busy": 0.01}, 16, "at most 16 share a GPU"),
        ({}, 1, ""),
    ],
)
def test_a_card_holds_as_many_as_its_memory_and_its_time(need: dict[str, object], fits: int, why: str) -> None:
    assert per_card(probed(**need).need, CARD) == (fits, why)


def test_why_a_cluster_holds_no_more_is_said_as_it_is() -> None:
    assert best(probed(device=30.0 * GB), TWO) == (4, "device memory is the limit, 2 on each GPU")
    assert best(probed(cores=1.0), Whole(cpus=4.0)) == (4, "CPUs is the limit")
    assert best(probed(cores=1.0), Whole(cpus=64.0)) == (16, "at most 16 share its CPUs")


def test_a_number_to_be_found_out_is_what_all_cards_hold() -> None:
    wish = ask(probed(device=5.0 * GB, busy=0.4, cores=1.0), TWO, 0)
    assert (wish.at_once, wish.gpu) == (6, 0.3333)


def test_more_cpus_than_there_are_are_not_asked_for() -> None:
    wish = ask(probed(device=1.0 * GB, busy=0.1, cores=30.0), TWO, 4)
    assert wish.cpus * 4 <= TWO.cpus


def test_without_cards_only_cpus_are_asked_for() -> None:
    wish = ask(Probed(need=Need(cores=1.2), room=Room()), Whole(cpus=4.0), 2)
    assert wish.bundle() == {"CPU": 1.5}
    assert ask(Probed(need=Need(cores=1.0), room=Room()), Whole(cpus=4.0), 0).at_once == 4


def test_what_does_not_fit_is_refused_with_the_sum() -> None:
    assert refusal(probed(device=30.0 * GB), TWO, 4) == ""
    says = refusal(probed(device=30.0 * GB), TWO, 5)
    assert says.startswith(
        "5 copies do not fit on the 2 GPUs of the cluster: one takes 30 GB (its CUDA context included)"
    )
    assert says.endswith("2 on each")
    assert "as given" in refusal(probed(device=90.0 * GB, given=True), TWO, 1)


def test_memory_of_the_nodes_counts_too() -> None:
    assert "the memory of the cluster" in refusal(probed(device=1.0 * GB, host=100.0 * GB), TWO, 3)
    assert refusal(probed(device=1.0 * GB, host=100.0 * GB), TWO, 2) == ""


def test_it_is_said_as_people_read_it() -> None:
    assert ask(probed(device=1.0 * GB, busy=0.1, cores=1.0), TWO, 4).words() == "0.5 of a GPU, 1 CPU"


def test_nodes_cannot_be_joined_so_that_each_finds_its_cpus_on_one() -> None:
    whole = Whole(cpus=2.0, nodes=((1.0, 0.0), (1.0, 0.0)))
    wish = ask(Probed(need=Need(cores=1.0), room=Room()), whole, 3)
    assert whole.places(wish.cpus, 0) >= 3
    assert wish.cpus > 0.4
    mixed = Whole(gpus=1.0, cpus=66.0, nodes=((2.0, 1.0), (64.0, 0.0)))
    wish = ask(probed(device=10.0 * GB, busy=0.2, cores=4.0), mixed, 4)
    assert mixed.places(wish.cpus, 4) >= 4
