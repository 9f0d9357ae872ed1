"""What another batch size does to learning is said with the rule for it."""

from gputune.sweep.learning import advice


def test_the_same_size_changes_nothing() -> None:
    assert advice(16, 16, 1) == ""


def test_a_larger_batch_scales_the_learning_rate() -> None:
    said = advice(16, 64, 1)
    assert "×4 for SGD" in said
    assert "×2 for Adam" in said
    assert "4 times fewer steps" in said


def test_a_smaller_batch_is_made_up_for_by_accumulation() -> None:
    assert "over 4 batches instead of 1 to keep the effective batch of 64" in advice(64, 16, 1)


def test_a_script_that_accumulates_keeps_what_it_learns_from() -> None:
    assert "over 2 batches instead of 8" in advice(16, 64, 8)
