"""What is known of each loader, from the records of the training process and of its workers."""

import pytest

from gputune.core.events import BatchCode, FetchCode, Kind, SpanCode
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.gathering.loader import BATCHES_KEPT, EPOCHS, UNFINISHED, WARM_UP


def test_settings_are_kept_as_the_guest_told_them(untold) -> None:
    untold.loader(id=1, num_workers=3, prefetch_factor=4, pin_memory=True, persistent_workers=True, in_order=False,
                 iterable=True, start_method="spawn", dataset="Pictures", samples=640, length=20,
                 shuffle=True)  # fmt: skip
    untold.iterator()
    untold.batch()
    (loader,) = untold.features().processes[0].loaders
    assert (loader.where, loader.num_workers, loader.prefetch_factor, loader.batch_size) == ("train.py:41", 3, 4, 32)
    assert loader.pin_memory
    assert loader.persistent_workers
    assert not loader.in_order
    assert loader.iterable
    assert (loader.start_method, loader.dataset, loader.samples_in_dataset) == ("spawn", "Pictures", 640)
    assert loader.length == 20


def workers(told, *pids: int) -> None:
    """A loader whose iterator 1 has these workers, from now on."""
    told.loader(id=1, num_workers=len(pids), prefetch_factor=2)
    told.iterator(workers=len(pids))
    for number, pid in enumerate(pids):
        told.process(number + 1, pid=pid, role="worker")
        told.record(Kind.MEMBER, told.at, told.at, a=1, b=pid, c=number)


def made(told, t0: float, t1: float, worker: int, **fields: int) -> None:
    """A batch that worker number `worker` made."""
    told.record(Kind.FETCH, t0, t1, worker + 1, **fields)


def six_each(told, *took: int):
    """The loader of workers that each made six batches, told worker by worker; a batch took so many ms of each."""
    for worker, each in enumerate(took):
        for number in range(6):
            made(told, 110 + number * each, 110 + (number + 1) * each, worker)
    told.at = 300
    told.epoch(6)
    (loader,) = told.features().processes[0].loaders
    return loader


def taken(told, index: int, t0: float, t1: float, ready: int = 0) -> None:
    """A next() of iterator 1 that returned batch `index`."""
    told.record(Kind.BATCH, t0, t1, a=1, b=index, c=32, d=ready)


def test_a_batch_is_delivered_from_when_it_was_made_or_asked_for(untold) -> None:
    workers(untold, 11, 12)
    made(untold, 110, 130, 0)
    made(untold, 110, 140, 1)
    taken(untold, 0, 120, 132)  # waited for: 2 ms after it was made
    taken(untold, 1, 150, 153)  # ready before: 3 ms after it was asked for
    (loader,) = untold.features().processes[0].loaders
    assert loader.deliveries == pytest.approx((0.002, 0.003))
    assert loader.ready == pytest.approx((0.003,))


def test_a_batch_that_came_while_another_was_waited_for_tells_nothing_of_its_arrival(untold) -> None:
    workers(untold, 11, 12)
    made(untold, 110, 140, 0)
    made(untold, 110, 120, 1)
    taken(untold, 0, 115, 142)
    taken(untold, 1, 150, 150.1, ready=1)
    assert untold.features().processes[0].loaders[0].ready == ()


def test_a_handover_is_known_by_what_its_maker_did_meanwhile(untold) -> None:
    workers(untold, 11, 12)
    made(untold, 110, 130, 0)
    made(untold, 110, 131, 1)
    taken(untold, 0, 125, 136)  # it makes another one all the time
    made(untold, 130.5, 160, 0)
    taken(untold, 1, 140, 146)  # until that is made, at 144
    made(untold, 132, 144, 1)
    taken(untold, 2, 170, 173)  # it gets its next index at the end of this
    made(untold, 172.9, 180, 0)
    taken(untold, 3, 182, 184)  # nobody knows yet
    (loader,) = untold.features().processes[0].loaders
    assert loader.hindered == pytest.approx((0.006,))
    assert loader.freed == pytest.approx((0.004,))
    assert loader.after == pytest.approx((0.002,))
    assert loader.unhindered == pytest.approx((0.003,))
    assert loader.smooth == pytest.approx((0.003,))  # it lay ready, too


def test_batches_are_joined_though_the_workers_are_read_late_or_early(untold) -> None:
    workers(untold, 11, 12)
    made(untold, 110, 130, 0)
    made(untold, 131, 150, 0)
    taken(untold, 0, 120, 132)
    taken(untold, 1, 140, 146)
    taken(untold, 2, 160, 161)
    made(untold, 110, 145, 1)
    (loader,) = untold.features().processes[0].loaders
    assert sorted(loader.deliveries) == pytest.approx((0.001, 0.001, 0.002))


def test_what_was_made_for_an_earlier_pass_is_not_joined_to_the_next_one(untold) -> None:
    workers(untold, 11)
    made(untold, 110, 130, 0)
    made(untold, 130, 140, 0)  # never taken: the pass was left with a break
    taken(untold, 0, 120, 132)
    untold.at = 200
    untold.iterator(again=True, workers=1)
    made(untold, 210, 230, 0)
    taken(untold, 0, 205, 234)
    (loader,) = untold.features().processes[0].loaders
    assert loader.deliveries == pytest.approx((0.002, 0.004))


def test_records_that_do_not_fit_together_say_nothing(untold) -> None:
    workers(untold, 11)
    taken(untold, 0, 120, 132)
    made(untold, 110, 140, 0)  # after it was returned
    taken(untold, 1, 150, 151)
    made(untold, 140, 149, 0)
    assert untold.features().processes[0].loaders[0].deliveries == ()


def test_a_lost_record_ends_the_joining_of_its_pass(untold) -> None:
    workers(untold, 11)
    for index, at in ((0, 120), (2, 160)):
        made(untold, at - 9, at - 2, 0)
        taken(untold, index, at, at + 1)
    assert len(untold.features().processes[0].loaders[0].deliveries) == 1


def test_a_loader_that_gives_batches_as_they_come_cannot_be_joined(untold) -> None:
    untold.loader(id=1, num_workers=1, in_order=False)
    untold.iterator(workers=1)
    untold.process(1, pid=11, role="worker")
    untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=11, c=0)
    made(untold, 110, 130, 0)
    taken(untold, 0, 120, 132)
    assert untold.features().processes[0].loaders[0].deliveries == ()


def test_a_run_that_died_before_its_first_batch_still_tells_how_large_it_was(untold) -> None:
    workers(untold, 11)
    made(untold, 110, 130, 0, e=4000)
    made(untold, 130, 140, 0, e=5000)
    (loader,) = untold.features().processes[0].loaders
    assert (loader.batches, loader.batch_bytes, loader.batch_bytes_most) == (0, 5000, 5000)


def test_an_iterable_dataset_that_never_asked_for_its_worker_does_not_shard(untold) -> None:
    workers(untold, 11)
    made(untold, 110, 130, 0)
    assert untold.features().processes[0].loaders[0].shards is False
    untold.note(1, n="shards")
    made(untold, 130, 140, 0)
    assert untold.features().processes[0].loaders[0].shards is True


@pytest.mark.parametrize(
    ("of", "draws", "random"), [([], False, False), (["numpy"], False, True), (["torch"], True, True)]
)
def test_whose_random_numbers_samples_draw_is_told_of_those_made_inline(story, of, draws, random) -> None:
    story.iterator()
    for _ in range(3):
        story.inline()
    (untold,) = story.features().processes[0].loaders
    assert (untold.draws, untold.random) == (None, None)
    story.note(n="draws", of=["torch"], inline=False)
    story.note(n="draws", of=of, inline=True)
    (loader,) = story.features().processes[0].loaders
    assert (loader.draws, loader.random) == (draws, random)


def test_a_loader_that_was_never_iterated_is_left_out(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    story.batch()
    assert [loader.where for loader in story.features().processes[0].loaders] == ["train.py:41"]


def test_waits_and_steps_belong_together_and_leave_the_warm_up_out(story) -> None:
    story.iterator()
    for k in range(10):
        story.batch(wait=100 + k)
        story.step(200 + k)
    (loader,) = story.features().processes[0].loaders
    assert loader.batches == 10
    first = 1 + WARM_UP
    assert loader.waits == pytest.approx([(100 + k) / 1e3 for k in range(first, 10)])
    assert loader.steps == pytest.approx([(200 + k - 1) / 1e3 for k in range(first, 10)])
    assert loader.wait_total == pytest.approx(sum(100 + k for k in range(10)) / 1e3)


def test_samples_are_counted_as_told_and_else_by_the_batch_size(story) -> None:
    story.iterator()
    story.batch(count=20)
    story.batch(count=0)
    process = story.features().processes[0]
    assert process.samples == 52


def test_pauses_stand_beside_the_steps_they_lay_in(story) -> None:
    story.iterator()
    story.epoch(6)
    story.span(SpanCode.LOGGING, 5)
    story.epoch(2)
    story.span(SpanCode.CHECKPOINT, 7)
    story.epoch(1)
    (loader,) = story.features().processes[0].loaders
    assert loader.steps == pytest.approx((0.010, 0.010, 0.015, 0.010, 0.017))
    assert loader.pauses["logging"] == pytest.approx((0, 0, 0.005, 0, 0))
    assert loader.pauses["checkpoint"] == pytest.approx((0, 0, 0, 0, 0.007))


def test_a_pause_inside_a_pause_is_told_once_under_each_name(story) -> None:
    story.iterator()
    story.epoch(6)
    began = story.at
    story.span(SpanCode.LOGGING, 5)
    story.at = began + 20
    story.record(Kind.SPAN, began, story.at, code=SpanCode.EVALUATION)
    story.epoch(2)
    (loader,) = story.features().processes[0].loaders
    assert max(loader.pauses["logging"]) == pytest.approx(0.005)
    assert max(loader.pauses["evaluation"]) == pytest.approx(0.020)


def test_a_pause_inside_one_of_its_own_kind_counts_once(story) -> None:
    story.iterator()
    story.epoch(6)
    began = story.at
    story.span(SpanCode.CHECKPOINT, 5)
    story.at = began + 20
    story.record(Kind.SPAN, began, story.at, code=SpanCode.CHECKPOINT)
    story.epoch(2)
    (loader,) = story.features().processes[0].loaders
    assert max(loader.pauses["checkpoint"]) == pytest.approx(0.020)


def test_epochs_know_their_start_their_first_wait_and_their_end(untold) -> None:
    untold.loader(id=1, num_workers=2)
    for number in (1, 2):
        untold.iterator(number, took=30, workers=2)
        untold.batch(number, wait=20)
        untold.step()
        untold.epoch(4, number)
        began = untold.at
        untold.record(Kind.SPAN, began, began + 6, code=SpanCode.LOADER_START, d=number, c=1)
        untold.batch(number, wait=8, end=True)
    first, second = untold.features().processes[0].loaders[0].epochs
    for epoch in (first, second):
        assert epoch.batches == 5
        assert epoch.complete
        assert (epoch.start, epoch.first_wait, epoch.shutdown) == pytest.approx((0.030, 0.020, 0.006))
        assert epoch.others_first == pytest.approx(0.001)
        assert epoch.seconds == pytest.approx(0.030 + 0.030 + 4 * 0.011 + 0.008)
    assert (first.began, second.began) == pytest.approx((0.100, 0.212))


def test_an_epoch_that_was_left_with_a_break_is_not_complete(story) -> None:
    story.iterator(1)
    story.epoch(3)
    story.iterator(2)
    story.epoch(2, 2)
    epochs = story.features().processes[0].loaders[0].epochs
    assert [(e.batches, e.complete) for e in epochs] == [(3, False), (2, False)]


def test_an_epoch_knows_whether_its_loader_was_built_for_it(story) -> None:
    for number, fresh in ((1, True), (2, False), (3, True)):
        story.iterator(number, fresh=fresh)
        story.epoch(2, number)
    assert [e.fresh for e in story.features().processes[0].loaders[0].epochs] == [True, False, True]


def test_workers_that_persist_begin_a_new_epoch_with_the_same_iterator(story) -> None:
    story.iterator(1)
    story.epoch(3)
    story.batch(1, end=True)
    story.iterator(1, again=True)
    story.epoch(2)
    epochs = story.features().processes[0].loaders[0].epochs
    assert [(e.batches, e.complete) for e in epochs] == [(3, True), (2, False)]


def test_a_batch_knows_how_many_its_worker_had_made_before(untold) -> None:
    workers(untold, 11, 12)
    for t0 in (110, 120, 130):
        for worker in (0, 1):
            made(untold, t0, t0 + 5, worker)
    untold.at = 140
    untold.epoch(6)
    (loader,) = untold.features().processes[0].loaders
    assert [fetch.age for fetch in loader.fetches] == [1, 1, 2, 2]


def test_batches_stand_in_the_order_of_their_delivery_though_they_are_told_worker_by_worker(untold) -> None:
    """Worker 1 takes three times as long, so worker 0 runs ahead; and its records are read first."""
    workers(untold, 11, 12)
    loader = six_each(untold, 10, 30)
    assert [fetch.worker for fetch in loader.fetches[-8:]] == [0, 1] * 4


def test_without_order_batches_stand_as_they_were_made(untold) -> None:
    untold.loader(id=1, num_workers=2, prefetch_factor=2, in_order=False)
    untold.iterator(workers=2)
    for number in (0, 1):
        untold.process(number + 1, pid=11 + number, role="worker")
        untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=11 + number, c=number)
    loader = six_each(untold, 10, 31)
    assert [fetch.worker for fetch in loader.fetches[-7:]] == [0, 0, 1, 1, 1, 1, 1]


def test_a_batch_made_in_the_training_process_belongs_to_the_next_that_it_was_made_in(story) -> None:
    story.loader(id=2, where="train.py:42")
    story.iterator(1, loader=1)
    story.iterator(2, loader=2)
    for _ in range(6):
        story.inline(1, took=10)
        story.inline(2, took=1)
        story.step()
    first, second = story.features().processes[0].loaders
    assert [f.wall for f in first.fetches] == pytest.approx([0.010] * 5)
    assert [f.wall for f in second.fetches] == pytest.approx([0.001] * 5)


def test_what_a_batch_took_is_told_apart(story) -> None:
    story.iterator()
    for _ in range(3):
        t0, story.at = story.at, story.at + 10
        story.record(Kind.FETCH, t0, story.at, a=4_000_000, b=1_000_000, d=2_000_000, e=4096, c=32)
        story.record(Kind.BATCH, t0, story.at, a=1, c=32)
    (loader,) = story.features().processes[0].loaders
    fetch = loader.fetches[-1]
    assert (fetch.wall, fetch.cpu, fetch.queued, fetch.collate) == pytest.approx((0.010, 0.004, 0.001, 0.002))
    assert fetch.blocked == pytest.approx(0.005)
    assert loader.batch_bytes == 4096


def test_the_tensors_of_a_batch_are_known_where_they_were_counted(story) -> None:
    story.iterator()
    for count in (0, 288, 0):
        t0, story.at = story.at, story.at + 10
        code = FetchCode.INLINE | min(127, count) << 8
        story.record(Kind.FETCH, t0, story.at, code=code, a=4_000_000, b=-1, e=4096 if count else 0, c=32)
        story.record(Kind.BATCH, t0, story.at, a=1, c=32)
    assert story.features().processes[0].loaders[0].batch_tensors == 127


def test_a_queue_is_never_longer_than_what_it_is_a_part_of(story) -> None:
    story.iterator()
    for _ in range(3):
        t0, story.at = story.at, story.at + 1
        story.record(Kind.FETCH, t0, story.at, a=400_000, b=30_000_000, c=32)  # it stood between two clocks
        story.record(Kind.BATCH, t0, story.at, a=1, c=32)
    fetch = story.features().processes[0].loaders[0].fetches[-1]
    assert (fetch.wall, fetch.queued, fetch.blocked) == pytest.approx((0.001, 0.0006, 0.0))


@pytest.mark.parametrize(("threads", "queued"), [(1, 0.0), (2, 0.005)])
def test_a_worker_with_threads_may_queue_beside_its_own_cpu_time(untold, threads, queued) -> None:
    workers(untold, 11)
    untold.note(1, n="worker", worker_id=0, num_workers=1, threads=threads)
    for t0 in (110, 120, 130):
        made(untold, t0, t0 + 10, 0, a=12_000_000, b=5_000_000)
    assert untold.features().processes[0].loaders[0].fetches[-1].queued == pytest.approx(queued)


def test_an_unknown_wait_for_a_cpu_counts_as_none(story) -> None:
    story.iterator()
    for _ in range(3):
        t0, story.at = story.at, story.at + 10
        story.record(Kind.FETCH, t0, story.at, a=4_000_000, b=-1, c=32)
        story.record(Kind.BATCH, t0, story.at, a=1, c=32)
    assert story.features().processes[0].loaders[0].fetches[-1].queued == 0.0


def worker(story, process: int, pid: int, *, batches: int = 3, took: int = 20) -> None:
    for k in range(batches):
        story.record(Kind.FETCH, story.at + k * took, story.at + (k + 1) * took, process, a=took * 1_000_000, c=32)


def test_what_workers_made_belongs_to_their_loader(untold) -> None:
    untold.loader(id=1, num_workers=1)
    untold.iterator(1, workers=1)
    untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=201, c=0)
    untold.process(1, pid=201, role="worker")
    worker(untold, 1, 201)
    untold.batch()
    (loader,) = untold.features().processes[0].loaders
    assert [f.wall for f in loader.fetches] == pytest.approx([0.020, 0.020])


def test_a_worker_may_be_heard_before_its_loader_names_it(untold) -> None:
    untold.loader(id=1, num_workers=1)
    untold.process(1, pid=201, role="worker")
    untold.note(1, n="worker", worker_id=0, num_workers=1, threads=4)
    worker(untold, 1, 201)
    untold.iterator(1, workers=1)
    untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=201, c=0)
    untold.batch()
    (loader,) = untold.features().processes[0].loaders
    assert len(loader.fetches) == 2
    assert loader.worker_threads == 4


def test_what_a_worker_made_counts_though_its_epoch_is_over(untold) -> None:
    untold.loader(id=1, num_workers=1)
    untold.iterator(1, workers=1)
    untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=201, c=0)
    untold.batch()
    untold.batch(end=True)
    untold.process(1, pid=201, role="worker")
    worker(untold, 1, 201)
    assert len(untold.features().processes[0].loaders[0].fetches) == 2


def test_a_loader_iterated_without_gradients_evaluates(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    story.epoch(5)
    story.iterator(2, loader=2, grad=False)
    for _ in range(5):
        story.batch(2)
    process = story.features().processes[0]
    assert [loader.training for loader in process.loaders] == [True, False]
    assert process.batches == 5
    assert process.loop == pytest.approx(0.055)


def test_a_loader_asked_inside_an_evaluation_evaluates_though_gradients_are_on(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    story.epoch(5)
    began = story.at
    story.iterator(2, loader=2)
    story.epoch(5, 2)
    story.record(Kind.SPAN, began, story.at, code=SpanCode.EVALUATION)
    story.epoch(1)
    process = story.features().processes[0]
    assert [loader.training for loader in process.loaders] == [True, False]
    assert process.inclusive["evaluation"] == pytest.approx((5 * 11) / 1e3)


def test_the_trainings_own_cpu_is_what_its_loading_leaves(story) -> None:
    story.iterator()
    for _ in range(50):
        story.inline(took=10, cpu=10)
        story.step(10)
        story.sample("cpu.main", 1.0)
        story.sample("cpu.queued.main", 0.1)
    story.inline(took=10)
    (loader,) = story.features().processes[0].loaders
    assert loader.step_cpu == pytest.approx(0.010, rel=0.05)
    assert loader.step_queued == pytest.approx(0.002, rel=0.05)


def test_without_a_reading_of_the_cpus_the_steps_share_is_unknown(story) -> None:
    story.iterator()
    story.epoch(30)
    (loader,) = story.features().processes[0].loaders
    assert loader.step_cpu is None
    assert loader.worker_memory is None


def test_a_next_that_failed_is_no_batch(story) -> None:
    story.iterator()
    story.epoch(3)
    story.record(Kind.BATCH, story.at, story.at + 5, code=2, a=1)
    (loader,) = story.features().processes[0].loaders
    assert loader.batches == 3
    assert not loader.epochs[0].complete


def test_batches_of_an_iterator_nobody_introduced_are_time_but_no_loader(story) -> None:
    story.epoch(3, 99)
    (process,) = story.features().processes
    assert process.loaders == ()
    assert process.ledger["loader.wait"] == pytest.approx(0.003)


def test_a_loop_that_leaves_every_epoch_with_a_break_is_followed_in_bounded_room(story) -> None:
    for number in range(1, EPOCHS + 300):
        story.iterator(number)
        story.epoch(2, number)
    training = next(iter(story.gatherer._trainings.values()))
    loader = training._loaders[1]
    assert len(training._iterators) <= UNFINISHED
    assert len(loader._passes) <= UNFINISHED
    assert len(loader.features(cpu=None, queued=None, memory=None, growth=None, loop=1.0).epochs) == EPOCHS


def test_an_old_iterator_that_is_still_advanced_is_not_forgotten_for_new_ones(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator(1)
    for number in range(2, 200):
        story.batch(1)
        story.step()
        story.iterator(number, loader=2, grad=False)
        story.batch(number)
    (loader,) = (x for x in story.features().processes[0].loaders if x.training)
    assert loader.batches == 198
    assert len(loader.waits) == 198 - 1 - WARM_UP


def test_series_are_bounded_and_stay_beside_each_other(story) -> None:
    story.iterator()
    story.epoch(BATCHES_KEPT + 50)
    story.span(SpanCode.LOGGING, 5)
    story.epoch(10)
    (loader,) = story.features().processes[0].loaders
    assert len(loader.waits) == len(loader.steps) == len(loader.pauses["logging"]) == BATCHES_KEPT
    assert sum(loader.pauses["logging"]) == pytest.approx(0.005)
    assert max(loader.steps) == pytest.approx(0.015)


def test_what_a_worker_holds_is_what_it_held_last(untold) -> None:
    workers(untold, 11, 12)
    taken(untold, 0, 120, 132)
    untold.sample("memory.worker", 100e6, at=125)
    untold.sample("memory.worker", 300e6, at=130)
    taken(untold, 1, 140, 153)
    (loader,) = untold.features().processes[0].loaders
    assert loader.worker_memory == 300_000_000


def apart(told, batches: int, *, wait: float, busy: float, began: float) -> None:
    """Another thread takes batches: in next() for `wait` ms of each, and elsewhere until `busy` ms are over."""
    for index in range(batches):
        t0 = began + index * busy
        told.record(Kind.BATCH, t0, t0 + wait, code=BatchCode.APART, a=1, b=index, c=32)


def test_what_another_thread_waits_for_is_no_wait_of_the_training(story) -> None:
    story.iterator()
    for index in range(30):
        apart(story, 1, wait=80, busy=100, began=100 + index * 100)
        story.step(100)
    (process,) = story.features().processes
    (loader,) = process.loaders
    assert "loader.wait" not in process.ledger
    assert (process.batches, process.samples, loader.wait_total) == (30, 30 * 32, 0)
    assert (loader.waits, loader.steps) == ((), ())
    assert loader.apart == pytest.approx(0.8, abs=0.01)
    assert not loader.paces
    assert process.loop == pytest.approx(2.9, abs=0.02)


def test_a_batch_that_came_before_it_was_known_who_trains_tells_nothing_of_the_others(story) -> None:
    story.iterator()
    apart(story, 1, wait=1, busy=1, began=100)
    story.at = 101
    story.step()
    story.epoch(30)
    (loader,) = story.features().processes[0].loaders
    assert loader.apart is None
    assert loader.paces
    assert (loader.batches, len(loader.waits)) == (31, 30 - WARM_UP)


def test_an_evaluation_whose_batches_another_thread_takes_is_one(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator(2, loader=2)
    story.epoch(10, 2)
    story.iterator(1)
    apart(story, 5, wait=1, busy=10, began=story.at)
    story.span(SpanCode.EVALUATION, 60)
    assert [(x.where, x.training) for x in story.features().processes[0].loaders] == [
        ("train.py:41", False),
        ("train.py:50", True),
    ]


def test_a_run_that_never_learns_is_what_it_does_without_gradients(story) -> None:
    story.iterator(grad=False)
    for _ in range(30):
        story.batch(wait=20)
        story.at += 5
    story.open(0, 0, since=100)  # as the guest has it: gradients are off, and nothing ever ended that
    (process,) = story.features().processes
    (loader,) = process.loaders
    assert loader.training
    assert (process.batches, len(loader.waits)) == (30, 30 - 1 - WARM_UP)
    assert "evaluation" not in process.ledger
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert process.loop == pytest.approx(0.745)


def test_what_came_before_a_training_was_an_evaluation(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator(1, grad=False)
    for _ in range(30):
        story.batch(wait=20)
    before = story.at
    story.span(SpanCode.EVALUATION, 1)
    story.iterator(2, loader=2)
    story.epoch(10, 2)
    (process,) = story.features().processes
    assert [(x.where, x.training) for x in process.loaders] == [("train.py:41", False), ("train.py:50", True)]
    assert process.loop == pytest.approx((story.at - before - 1) / 1000)
    assert process.batches == 10


def test_loaders_of_one_line_that_live_at_once_are_counted(untold) -> None:
    """One of two evaluates in the middle of the other's epoch; a third is of another line."""
    untold.loader(id=1, beside=1, idle=1)
    untold.iterator(1, 1)
    untold.batch(1)
    untold.loader(id=2, beside=1, idle=0)
    untold.iterator(2, 2, grad=False)
    untold.batch(2)
    untold.batch(2, end=True)
    untold.batch(1)
    untold.loader(id=3, where="train.py:50")
    untold.iterator(3, 3)
    untold.batch(3)
    first, second, third = untold.features().processes[0].loaders
    assert first.company == second.company == Company(built=2, iterated=2, training=1)
    assert third.company == ALONE


def test_what_the_batch_sampler_takes_is_told_apart_from_waiting_for_a_batch(untold) -> None:
    workers(untold, 11, 12)
    for index in range(8):
        t0 = 200.0 + 100 * index
        made(untold, t0 - 20, t0 + 10, index % 2)
        untold.record(Kind.PICK, t0 + 12, t0 + 42)
        taken(untold, index, t0, t0 + 43)
    (loader,) = untold.features().processes[0].loaders
    assert loader.waits == pytest.approx((0.043,) * 4)
    assert loader.picks == pytest.approx((0.030,) * 4)
    assert loader.for_batches == pytest.approx((0.013,) * 4)
    assert loader.deliveries == pytest.approx((0.003,) * 8)


def test_what_it_took_as_the_iterator_came_to_life_is_no_wait(story) -> None:
    story.record(Kind.PICK, 101, 131)
    story.iterator(took=40)
    story.epoch(10)
    (loader,) = story.features().processes[0].loaders
    assert loader.picks == ()
    assert loader.for_batches == loader.waits


def test_a_batch_that_was_made_as_the_iterator_came_to_life_is_joined_whatever_is_told_first(untold) -> None:
    """A recording tells workers before their iterator: both came to be at the same time."""
    untold.loader(id=1, num_workers=1, prefetch_factor=2)
    untold.process(1, pid=11, role="worker")
    made(untold, 110, 130, 0)
    untold.record(Kind.MEMBER, 100, 150, a=1, b=11, c=0)
    untold.record(Kind.ITERATOR, 100, 150, a=1, b=1, c=1, e=1)
    taken(untold, 0, 160, 162)
    (loader,) = untold.features().processes[0].loaders
    assert loader.deliveries == pytest.approx((0.002,))


def test_what_the_sampler_takes_as_a_pass_begins_is_none_of_its_start(story) -> None:
    """It is asked however long workers live: no `persistent_workers` spares that."""
    story.loader(id=2, where="train.py:50", num_workers=2)
    t0 = story.at
    story.record(Kind.PICK, t0 + 10, t0 + 410)
    story.record(Kind.PICK, t0 + 410, t0 + 450)
    story.iterator(2, loader=2, took=500, workers=2)
    story.epoch(5, 2)
    (loader,) = [x for x in story.features().processes[0].loaders if x.where == "train.py:50"]
    (epoch,) = loader.epochs
    assert epoch.start == pytest.approx(0.060)
    assert epoch.picking == pytest.approx(0.440)


def test_what_the_sampler_takes_in_the_first_next_of_a_pass_is_no_wait_for_its_first_batch(story) -> None:
    """Without workers it is asked there for the first time."""
    for _ in range(2):
        story.iterator()
        story.record(Kind.PICK, story.at + 10, story.at + 410)
        story.batch(wait=420)
        story.epoch(4)
        story.batch(end=True)
    (loader,) = story.features().processes[0].loaders
    assert [epoch.picking for epoch in loader.epochs] == pytest.approx([0.4, 0.4])
    assert [epoch.first_wait for epoch in loader.epochs] == pytest.approx([0.02, 0.02])
