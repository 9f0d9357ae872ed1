"""How many loaders of one line live at once, by what one process was seen to iterate."""

from gputune.features.concurrent_loaders import Companions, Company


def seen(story: str, *, beside: int = 0, idle: int = 0) -> Company:
    """What is known after a story: a capital letter begins an iterator (V, W: without gradients), a small one gives."""
    made = Companions()
    made.told(beside, idle)
    for letter in story:
        if letter.isupper():
            made.begin(ord(letter.lower()), trains=letter not in "VW")
        else:
            made.batch(ord(letter))
    return made.company


def test_a_loader_alone_is_alone() -> None:
    assert seen("AaaaAaaa") == Company(1, 1, 1)


def test_evaluations_between_epochs_do_not_live_beside_the_training() -> None:
    assert seen("AaaaVvvAaaaVvvAaa", beside=1) == Company(2, 1, 1)


def test_an_evaluation_in_the_middle_of_an_epoch_does() -> None:
    assert seen("AaaVvvaaaVvvaa", beside=1) == Company(2, 2, 1)
    assert seen("AaaBbbaaaBbbaa") == Company(2, 2, 1)  # one with gradients on


def test_two_that_take_turns_train_side_by_side() -> None:
    assert seen("ABabababab", beside=1) == Company(2, 2, 2)
    assert seen("ABaababaaab") == Company(2, 2, 2)


def test_a_loader_that_was_not_iterated_yet_may_be_one_of_an_evaluation_in_the_middle() -> None:
    assert seen("Aaaaaa", beside=3, idle=3) == Company(4, 2, 1)
    assert seen("AaaVvvaaa", beside=2, idle=1) == Company(3, 3, 1)


def test_folds_that_follow_each_other_do_not_add_up() -> None:
    folds = "AaVvaBbWwbCcVvcDdWwd"
    assert seen(folds, beside=7) == Company(8, 2, 1)


def test_an_iterator_that_is_asked_now_and_then_lives_in_between() -> None:
    assert seen("AVaavaavCcvcacv") == Company(3, 3, 2)


def test_a_training_of_many_epochs_is_remembered_in_few_bytes() -> None:
    made = Companions()
    for number in range(1000):
        made.begin(number, trains=True)
        made.batch(number)
    assert made.company == Company()
    assert len(made._lives) <= 64
