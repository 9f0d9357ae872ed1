"""Growth of memory counts once the list of tensors that went between processes is full."""

from gputune.gathering.settling import REFERENCES, Settling


def test_where_no_batch_came_from_workers_growth_counts_from_the_start() -> None:
    assert Settling().since == 0


def test_growth_counts_once_enough_batches_came() -> None:
    settling = Settling(processes=2)
    for t in range(1, 2 * REFERENCES):
        settling.take(t)
        assert settling.since is None
    settling.take(7_000)
    settling.take(7_001)
    assert settling.since == 7_000


def test_a_heap_that_settles_is_no_growth(story) -> None:
    """Two megabytes a batch until the list is full, a batch a second, and flat from then on."""
    story.loader(id=2, num_workers=1, where="train.py:50")
    story.iterator(number=2, loader=2, workers=1)
    for batch in range(REFERENCES + 40):
        story.sample("memory.main", 250e6 + 2e6 * min(batch, REFERENCES), "100")
        story.batch(2)
        story.step(1000)
        if batch == REFERENCES - 8:
            assert story.features().processes[0].memory is None
    assert story.features().processes[0].memory.high < 1e5


def test_without_workers_memory_is_looked_at_from_the_first_batch_on(story) -> None:
    story.iterator()
    for second in range(30):
        story.sample("memory.main", 250e6 + 2e6 * second, "100")
        story.batch()
        story.step(1000)
    assert story.features().processes[0].memory.low > 1.9e6
