"""The interface that sent most during the loop, and what it can carry."""

from gputune.core.sample import Note


def sent(story, **interfaces: tuple[float, float]) -> None:
    """Tell what interfaces had sent when the loop began, and ten seconds later."""
    story.iterator()
    for part in range(2):
        for name, counted in interfaces.items():
            story.sample("net.sent", counted[part], name)
        story.batch()
        story.at += 10_000 * (1 - part)
    story.batch()


def test_without_an_interface_nothing_is_known(story) -> None:
    sent(story)
    assert story.features().network is None


def test_the_busiest_one_counts_with_what_it_can(story) -> None:
    story.gatherer.take([Note(-1, {"n": "link", "interface": "eth1", "rate": 1.25e9})])
    sent(story, eth0=(5e9, 5e9), eth1=(0.0, 10e9))
    found = story.features().network
    assert (found.interface, found.rate) == ("eth1", 1.25e9)
    assert 0.9e9 < found.sent < 1.1e9


def test_a_link_that_says_nothing_of_itself_is_not_guessed(story) -> None:
    sent(story, eth0=(0.0, 1e9))
    assert story.features().network.rate is None
