"""A setting knows what differs from the script, and what is the cheaper one."""

from gputune.sweep.settings import setting

OWN = setting(2, 2, pin_memory=False, persistent=False, batch_size=16)


def test_without_workers_there_is_nothing_to_prefetch_and_nothing_that_persists() -> None:
    bare = setting(0, 4, pin_memory=False, persistent=True, batch_size=16)
    assert (bare.prefetch_factor, bare.persistent_workers, bare.queue) == (None, False, 0)
    assert bare.changes(setting(2, 2, pin_memory=False, persistent=True, batch_size=16)) == {"num_workers": 0}


def test_only_what_differs_is_changed() -> None:
    assert OWN.changes(OWN) == {}
    wanted = setting(4, 2, pin_memory=False, persistent=True, batch_size=32)
    assert wanted.changes(OWN) == {"num_workers": 4, "persistent_workers": True, "batch_size": 32}


def test_fewer_workers_are_cheaper_than_shorter_queues_and_these_than_a_change() -> None:
    def cost(workers: int, prefetch: int, *, persistent: bool = False) -> tuple[int, int, bool, bool]:
        return setting(workers, prefetch, pin_memory=False, persistent=persistent, batch_size=16).cost(OWN)

    assert cost(1, 8) < cost(2, 2) < cost(2, 2, persistent=True) < cost(2, 4) < cost(3, 2)
