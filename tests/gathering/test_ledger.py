"""Where the seconds of a training process go, from its records."""

import pytest

from gputune.core.events import ForwardCode, Kind, SpanCode
from gputune.gathering.clocked import WARM_UP
from gputune.gathering.rounds import WITHOUT_STEP


def test_a_run_of_which_nothing_was_told_has_no_process(empty) -> None:
    run = empty.features(until=500)
    assert run.processes == ()
    assert run.wall == pytest.approx(0.5)
    assert run.devices == ()


def test_a_process_that_never_trains_is_left_out(story) -> None:
    story.span(SpanCode.LOGGING, 5)
    assert story.features().processes == ()


def test_start_up_ends_with_the_first_sign_of_training(story) -> None:
    story.iterator(took=20)
    story.epoch(10)
    (process,) = story.features().processes
    assert process.ledger == pytest.approx({"startup": 0.1, "loader.start": 0.02, "loader.wait": 0.01, "step": 0.1})
    assert process.wall == pytest.approx(0.23)


def test_what_is_copied_before_the_loop_is_start_up_and_no_copying_of_it(story) -> None:
    story.span(SpanCode.COPY_H2D, 60)
    story.span(SpanCode.CHECKPOINT, 10)
    story.iterator(took=20)
    for _ in range(5):
        story.epoch(1)
        story.span(SpanCode.COPY_H2D, 2)
    (process,) = story.features().processes
    assert process.ledger["copy.h2d"] == pytest.approx(5 * 0.002)
    assert process.in_loop["copy.h2d"] <= 5 * 0.002
    assert (process.ledger["startup"], process.ledger["checkpoint"]) == pytest.approx((0.16, 0.01))


def test_a_loop_without_a_loader_has_a_ledger_too(story) -> None:
    for _ in range(5):
        story.step(10)
    (process,) = story.features().processes
    assert process.optimizer_steps == 5
    assert process.ledger["startup"] == pytest.approx(0.109)
    assert process.ledger["step"] == pytest.approx(0.041)
    assert process.loop == pytest.approx(0.041)


def test_start_up_ends_with_the_first_pass_of_a_long_first_step(story) -> None:
    for _ in range(20):  # a closure that LBFGS calls
        t0, story.at = story.at, story.at + 50
        story.record(Kind.BACKWARD, t0 + 20, story.at)
    story.step(1)
    story.step(10)
    (process,) = story.features().processes
    assert process.ledger["startup"] == pytest.approx(0.120)


def test_what_comes_after_the_last_work_of_the_loop_is_teardown(story) -> None:
    story.iterator()
    story.epoch(10)
    story.batch(end=True)
    story.span(SpanCode.CHECKPOINT, 30)
    worked = story.at
    assert "teardown" not in story.features(until=worked + 400).processes[0].ledger  # it lives: more may come
    story.process(ended=worked + 400)
    (process,) = story.features(until=worked + 500).processes
    assert process.ledger["teardown"] == pytest.approx(0.400)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert "teardown" not in process.in_loop


def test_who_stood_still_in_its_loop_until_a_signal_ended_it_hung(story) -> None:
    story.iterator()
    story.epoch(10)
    worked = story.at
    story.process(ended=worked + 30_000)
    for status in (130, 143, 137):
        (process,) = story.features(until=worked + 30_000, exit_code=status).processes
        assert "teardown" not in process.ledger
        assert process.stood == pytest.approx(30.0, abs=0.2)
        assert process.ledger["step"] > 30.0
        assert sum(process.ledger.values()) == pytest.approx(process.wall)
    for status in (None, 0, 1, 255):
        (process,) = story.features(until=worked + 30_000, exit_code=status).processes
        assert process.ledger["teardown"] == pytest.approx(30.0, abs=0.2)
        assert process.stood == 0


def test_what_a_signal_ends_soon_or_after_the_loop_is_teardown(story) -> None:
    story.iterator()
    story.epoch(10)
    soon = story.at
    story.process(ended=soon + 2_000)
    (process,) = story.features(until=soon + 2_000, exit_code=130).processes
    assert process.ledger["teardown"] == pytest.approx(2.0, abs=0.2)
    story.batch(end=True)
    over = story.at
    story.process(ended=over + 30_000)
    (process,) = story.features(until=over + 30_000, exit_code=130).processes
    assert process.ledger["teardown"] == pytest.approx(30.0, abs=0.2)


def test_what_becomes_of_a_last_batch_is_no_teardown(story) -> None:
    story.iterator()
    story.epoch(10, step=99)
    story.batch()
    story.process(ended=story.at + 500)
    (process,) = story.features(until=story.at + 500).processes
    assert 0.35 < process.ledger["teardown"] < 0.45  # a round is left to it


def test_a_parent_that_waits_for_those_who_train_and_tries_the_model_trains_nothing(story) -> None:
    for number in (1, 2):
        story.process(number, pid=100 + number, ppid=100)
        story.loader(number)
        story.iterator(process=number)
        story.batch(process=number)
        story.record(Kind.STEP, story.at, story.at + 5, number, a=1)
        story.at += 5
    assert [process.pid for process in story.features().processes] == [101, 102]
    story.iterator(grad=False)
    story.batch()
    assert [process.pid for process in story.features().processes] == [101, 102]
    story.step()
    assert [process.pid for process in story.features().processes] == [100, 101, 102]


def test_a_process_that_steps_for_its_callers_alone_trains_nothing(story) -> None:
    """A parameter server; who is called and has batches of its own is a trainer, and without any trainer it is one."""
    story.process(1, pid=101)
    story.record(Kind.STEP, story.at, story.at + 5, 1, a=1)
    story.at += 5
    story.note(1, n="process", serves=True)
    assert [process.pid for process in story.features().processes] == [101]
    story.iterator()
    story.batch()
    story.step()
    assert [process.pid for process in story.features().processes] == [100]
    story.note(n="process", serves=True)
    assert [process.pid for process in story.features().processes] == [100]


@pytest.mark.parametrize("loader", [False, True])
def test_a_pause_comes_as_often_as_it_was_set_to(story, loader) -> None:
    """At 0, 25, 50, 75 and 100 of 101 steps: five times, and every 25 steps."""
    story.note(n="site", id=1, where="train.py:9", what="torch.save")
    if loader:
        story.iterator()
    late = []  # of a loop without batches steps are told late, eight at a time
    for step in range(101):
        if step % 25 == 0:
            story.span(SpanCode.CHECKPOINT, 40, a=1)
        if loader:
            story.batch()
            story.step()
            continue
        story.at += 10
        late.append(story.at)
        if len(late) == 8:
            for at in late:
                story.record(Kind.STEP, at, at, a=1)
            late.clear()
    (process,) = story.features().processes
    assert [(place.count, place.every) for place in process.places] == [(5, 25)]


def test_the_ledger_adds_up_after_all_that_can_happen(story) -> None:
    story.iterator(took=3)
    story.epoch(5)
    story.span(SpanCode.CHECKPOINT, 30)
    story.batch(end=True)
    story.iterator(2, took=4)
    story.epoch(5, 2)
    story.span(SpanCode.EVALUATION, 25)
    (process,) = story.features(until=story.at + 50).processes
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert process.ledger["checkpoint"] == pytest.approx(0.030)


def test_arrays_that_are_saved_before_the_training_are_data(story) -> None:
    story.note(n="site", id=1, where="prepare.py:7", what="numpy.save")
    story.span(SpanCode.CHECKPOINT, 50, a=1)
    story.iterator()
    story.epoch(5)
    story.span(SpanCode.CHECKPOINT, 20, a=1)
    (process,) = story.features().processes
    assert process.inclusive["checkpoint"] == pytest.approx(0.020)


def test_what_lies_before_the_first_batch_or_after_the_last_is_not_in_the_loop(story) -> None:
    story.span(SpanCode.CHECKPOINT, 50)
    story.iterator()
    story.epoch(5)
    story.span(SpanCode.CHECKPOINT, 20)
    story.epoch(5)
    story.span(SpanCode.CHECKPOINT, 70)
    (process,) = story.features().processes
    assert process.in_loop["checkpoint"] == pytest.approx(0.020)
    assert process.inclusive["checkpoint"] == pytest.approx(0.140)


def test_syncing_what_was_just_saved_is_a_part_of_saving_it(story) -> None:
    story.note(n="site", id=5, where="train.py:70", what="torch.save")
    story.note(n="site", id=6, where="train.py:71", what="os.fsync")
    story.iterator()
    story.epoch(2)
    story.span(SpanCode.CHECKPOINT, 20, a=5)
    story.span(SpanCode.LOGGING, 30, a=6)
    (process,) = story.features().processes
    assert process.ledger["checkpoint"] == pytest.approx(0.050)
    assert "logging" not in process.ledger


def test_syncing_a_log_stays_logging(story) -> None:
    story.note(n="site", id=6, where="train.py:71", what="os.fsync")
    story.iterator()
    story.epoch(2)
    story.span(SpanCode.LOGGING, 30, a=6)
    (process,) = story.features().processes
    assert process.ledger["logging"] == pytest.approx(0.030)


@pytest.mark.parametrize(("apart", "one"), [(0.08, True), (0.12, False)])
def test_writes_that_follow_each_other_closely_are_one_pause_with_the_work_in_between(story, apart, one) -> None:
    story.iterator()
    story.epoch(2)
    for _ in range(3):
        story.span(SpanCode.LOGGING, 1)
        story.at += apart
    story.epoch(1)
    (process,) = story.features().processes
    expected = 0.003 + (2 * apart / 1000 if one else 0.0)
    assert process.ledger["logging"] == process.in_loop["logging"] == pytest.approx(expected)


def test_calls_that_were_told_together_count_at_both_their_places(story) -> None:
    story.note(n="site", id=5, where="train.py:70", what="print")
    story.note(n="site", id=6, where="train.py:71", what="os.fsync")
    story.iterator()
    story.epoch(2)
    for _ in range(3):
        story.span(SpanCode.LOGGING, 5, a=6, c=8, b=2_000_000, d=5 | 9 << 16)
        story.epoch(1)
    (process,) = story.features().processes
    places = [(p.what, p.count, round(p.seconds, 6)) for p in process.places if p.span == "logging"]
    assert places == [("os.fsync", 24, 0.009), ("print", 27, 0.006)]
    assert process.ledger["logging"] == pytest.approx(0.015)


def test_syncing_a_log_long_after_a_model_was_saved_stays_logging(story) -> None:
    story.note(n="site", id=6, where="train.py:71", what="os.fsync")
    story.iterator()
    story.epoch(2)
    story.span(SpanCode.CHECKPOINT, 20)
    for _ in range(2):
        story.epoch(1)
        story.span(SpanCode.LOGGING, 30, a=6)
    (process,) = story.features().processes
    assert process.ledger["logging"] == pytest.approx(0.060)


def test_what_lies_between_writes_of_two_kinds_or_with_a_step_in_between_is_none_of_theirs(story) -> None:
    story.iterator()
    story.epoch(2)
    story.span(SpanCode.LOGGING, 1)
    story.at += 0.05
    story.span(SpanCode.REPORTING, 1)
    story.step(0.05)
    story.span(SpanCode.REPORTING, 1)
    story.epoch(1)
    (process,) = story.features().processes
    assert (process.ledger["logging"], process.ledger["reporting"]) == (pytest.approx(0.001), pytest.approx(0.002))


def test_spans_of_other_threads_are_not_the_trainings(story) -> None:
    story.iterator()
    story.epoch(2)
    story.record(Kind.SPAN, story.at - 5, story.at, code=SpanCode.CHECKPOINT, e=4711)
    (process,) = story.features().processes
    assert "checkpoint" not in process.ledger


def test_places_say_where_and_how_often(story) -> None:
    story.note(n="site", id=5, where="train.py:70", what="torch.save")
    story.iterator()
    for _ in range(3):
        story.epoch(2)
        story.span(SpanCode.CHECKPOINT, 20, a=5)
    (place,) = story.features().processes[0].places
    assert (place.span, place.where, place.what, place.count) == ("checkpoint", "train.py:70", "torch.save", 3)
    assert place.seconds == pytest.approx(0.060)


def test_a_process_killed_in_next_has_waited_until_its_end(story) -> None:
    story.iterator()
    story.epoch(3)
    hung = story.at
    story.process(ended=hung + 500)
    story.open(Kind.BATCH, hung)
    (process,) = story.features(until=hung + 900).processes
    assert process.ledger["loader.wait"] == pytest.approx(0.503)
    assert process.wall == pytest.approx((hung + 500) / 1e3)


def test_a_process_killed_in_its_very_first_next_is_seen_to_wait(story) -> None:
    story.iterator()
    story.open(Kind.BATCH, story.at)
    (process,) = story.features(until=story.at + 200).processes
    assert process.ledger["loader.wait"] == pytest.approx(0.2)


def test_a_process_killed_while_it_saves_has_saved_until_its_end(story) -> None:
    story.iterator()
    story.epoch(3)
    story.open(Kind.SPAN, story.at, code=SpanCode.CHECKPOINT)
    (process,) = story.features(until=story.at + 200).processes
    assert process.ledger["checkpoint"] == pytest.approx(0.2)


def test_looking_while_a_batch_is_awaited_does_not_count_it_twice(story) -> None:
    story.iterator()
    story.epoch(3)
    for seen in (50, 100):
        story.open(Kind.BATCH, story.at)
        story.features(until=story.at + seen)
    story.batch(wait=200)
    (process,) = story.features().processes
    assert process.ledger["loader.wait"] == pytest.approx(0.203)
    assert process.inclusive["loader.wait"] == pytest.approx(0.203)


def test_an_evaluation_that_is_still_open_counts_as_one(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    story.epoch(3)
    began = story.at
    story.iterator(2, loader=2, grad=False)
    story.epoch(4, 2, step=5)
    story.open(0, 0, since=began)
    (process,) = story.features(until=story.at + 20).processes
    assert process.inclusive["evaluation"] == pytest.approx(story.at / 1e3 + 0.02 - began / 1e3)


def test_an_evaluation_that_a_script_ends_with_is_over_with_its_last_batch(story) -> None:
    story.loader(id=2, where="train.py:50")
    story.iterator()
    story.epoch(10)
    story.batch(end=True)
    began = story.at
    story.iterator(2, loader=2, grad=False)
    story.epoch(4, 2, step=5)
    story.open(0, 0, since=began)
    left = story.at
    story.process(ended=left + 900)
    story.batch(2)
    got = story.at
    (left_it,) = story.features(until=left + 1000, exit_code=0).processes
    assert left_it.inclusive["evaluation"] == pytest.approx((got - began) / 1e3)
    (killed,) = story.features(until=left + 1000, exit_code=137).processes  # in the middle of it, for all that is known
    assert killed.inclusive["evaluation"] == pytest.approx((left + 900 - began) / 1e3)
    story.batch(2, end=True)
    passed = story.at
    story.span(SpanCode.CHECKPOINT, 30)
    (process,) = story.features(until=left + 1000).processes
    assert process.inclusive["evaluation"] == pytest.approx((passed - began) / 1e3)
    assert process.ledger["teardown"] == pytest.approx((left + 900 - story.at) / 1e3)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)


def test_device_gaps_and_the_work_between_them_are_kept_of_what_is_warm(story) -> None:
    """The first step of 200 took an H100 0.67 s, while libraries were loaded: all others together took it 3 s."""
    story.iterator()
    story.epoch(2)
    for number in range(WARM_UP):
        story.record(Kind.GAP, story.at, story.at, a=400_000, b=667_600_000 >> number)
    story.record(Kind.GAP, story.at, story.at, a=2_000_000, b=8_000_000)
    (process,) = story.features().processes
    assert process.gaps == pytest.approx((0.002,))
    assert process.works == pytest.approx((0.008,))


def test_time_in_backward_passes_adds_up(story) -> None:
    for _ in range(3):
        story.batch()
        story.record(Kind.BACKWARD, story.at, story.at + 4)
        story.step()
    (process,) = story.features().processes
    assert process.backward == pytest.approx(0.012)


def test_time_before_the_first_module_call_leaves_spans_out(story) -> None:
    story.iterator()
    story.batch()
    got = story.at
    story.span(SpanCode.LOGGING, 4)
    story.record(Kind.FORWARD, got, got + 10)
    story.step(6)
    (process,) = story.features().processes
    assert process.before_forward == pytest.approx((0.006,))
    assert process.batch_gotten
    assert process.on_weights is None


def test_what_torch_did_to_the_weights_is_a_share_of_the_time_before_the_model(story) -> None:
    for took in (8, 2):
        story.step()
        stepped = story.at
        story.at += 10
        story.record(Kind.FORWARD, stepped, story.at, code=ForwardCode.NO_NEXT | ForwardCode.LOOKED, a=took * 1_000_000)
    story.step()
    story.record(Kind.FORWARD, story.at, story.at + 10, code=ForwardCode.NO_NEXT)
    (process,) = story.features().processes
    assert process.on_weights == pytest.approx(0.5)
    assert len(process.before_forward) == 3
    assert not process.batch_gotten


def test_the_first_steps_are_timed_from_one_to_the_next(story) -> None:
    for _ in range(60):
        story.step(25)
    (process,) = story.features().processes
    assert process.beats == pytest.approx((0.025,) * 29)


def test_a_training_that_no_guest_spoke_from_is_named_with_the_reason(empty) -> None:
    empty.process(3, pid=99, state="none", why="it was started with -I")
    (process,) = empty.features(until=1000).processes
    assert (process.pid, process.guest) == (99, "it was started with -I")
    assert process.ledger == pytest.approx({"step": 1.0})


def test_records_that_were_lost_are_counted(story) -> None:
    story.sample("loader.lost", 17)
    assert story.features().dropped == 17


def test_a_loop_that_updates_by_hand_is_told_by_its_backward_passes(story) -> None:
    for _ in range(WITHOUT_STEP + 40):
        story.at += 10
        story.record(Kind.BACKWARD, story.at - 4, story.at)
    (process,) = story.features().processes
    assert process.optimizer_steps == 40
    assert process.loop == pytest.approx(0.394)
    assert process.ledger["step"] == pytest.approx(0.474)  # from the first pass on
    story.step()  # one that comes late: the passes gathered their gradients for it
    assert story.features().processes[0].optimizer_steps == 1


def test_optimizers_that_step_in_turn_make_one_round(story) -> None:
    """An actor and its critic, without a DataLoader; one that is made anew for each round has no rounds of its own."""
    for number in range(60):
        story.step()
        story.at += 1
        story.record(Kind.STEP, story.at, story.at, a=2)
        if number % 2:
            story.record(Kind.STEP, story.at, story.at, a=3)
    assert story.features().processes[0].optimizer_steps == 60
    for number in range(4, 34):
        story.record(Kind.STEP, story.at, story.at, a=number)
    assert story.features().processes[0].optimizer_steps == 60 + 60 + 30 + 30


def test_backward_passes_are_no_steps_where_a_loader_gives_batches(story) -> None:
    story.iterator()
    for _ in range(30):
        story.batch()
        story.record(Kind.BACKWARD, story.at, story.at + 5)
        story.at += 5
    (process,) = story.features().processes
    assert (process.batches, process.optimizer_steps) == (30, 0)


def test_what_grew_in_a_short_loop_is_known_where_it_ended_for_want_of_memory(story) -> None:
    for second in range(5):
        story.sample("memory.main", 1e9 + second * 300e6, "100")
        story.epoch(10, step=99)
    (process,) = story.features().processes
    assert process.memory is None  # too few readings to say what will come
    assert process.rising is not None
    assert process.rising.last - process.rising.first == pytest.approx(1.2e9)
    assert process.rising.low * process.rising.seconds == pytest.approx(1.2e9, rel=0.01)


def test_a_training_of_which_most_records_were_lost_is_named_and_its_time_is_not(story) -> None:
    """A recorder that was stopped reads the last of a ring: what came before would be counted as start-up."""
    story.at = 60_000
    story.epoch(50, number=7)
    story.note(n="lost", records=20)
    story.note(n="lost", records=400)
    (process,) = story.features().processes
    assert process.guest == "the recorder came too late for 420 of the 520 records that it wrote"
    assert (process.batches, process.loop, process.loaders) == (0, 0.0, ())


def test_batches_of_an_iterator_whose_making_was_lost_are_those_of_the_only_loader(story) -> None:
    story.epoch(50, number=7)
    story.note(n="lost", records=3)
    assert story.features().processes[0].batches == 0
    story.epoch(50, number=7)
    (process,) = story.features().processes
    assert (process.guest, process.batches, len(process.loaders)) == ("ring", 50, 1)


def test_records_lost_by_one_recorder_after_the_other_are_added(story) -> None:
    for count in (3, 17, 0, 5):
        story.sample("loader.lost", count)
    assert story.features().dropped == 22
