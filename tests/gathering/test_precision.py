"""What guests tell of their model's precision adds up, in whatever order it comes."""

from gputune.features import Precision
from gputune.gathering.precision import precise

LOOKED = {"types": ["torch.float32"], "autocast": False, "tf32": False, "products": True, "convolutions": False}


def test_what_was_not_looked_at_is_neither_single_nor_half() -> None:
    assert (Precision().single, Precision().half) == (False, False)


def test_parameters_in_32_bits_are_single_unless_autocast_is_entered() -> None:
    looked = precise(Precision(), LOOKED)
    assert (looked.single, looked.half, looked.tf32, looked.products) == (True, False, False, True)
    entered = precise(looked, {"autocast": True})
    assert (entered.single, entered.half, entered.types) == (False, True, ("torch.float32",))


def test_autocast_that_was_entered_first_is_not_forgotten() -> None:
    assert precise(precise(Precision(), {"autocast": True}), LOOKED).half


def test_parameters_in_16_bits_are_half() -> None:
    assert precise(Precision(), {**LOOKED, "types": ["torch.bfloat16", "torch.float32"]}).half


def test_what_a_note_lacks_is_unknown() -> None:
    assert precise(Precision(), {"types": ["torch.float32"]}).tf32 is None


def test_threads_are_told_or_unknown_and_outlive_autocast() -> None:
    assert precise(Precision(), LOOKED).threads is None
    looked = precise(Precision(), {**LOOKED, "threads": 8})
    assert (looked.threads, precise(looked, {"autocast": True}).threads) == (8, 8)


def test_a_process_carries_it(story) -> None:
    story.process()
    story.loader()
    story.note(n="precision", **LOOKED)
    story.iterator()
    story.epoch(3)
    (process,) = story.features().processes
    assert process.precision.single
