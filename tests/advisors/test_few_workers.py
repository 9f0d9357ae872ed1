"""few-workers speaks when more workers would help, and only then."""

from dataclasses import replace

import pytest

from gputune.advisors.few_workers import advise
from gputune.core.finding import Finding
from gputune.features import Features, Fetch
from gputune.features.concurrent_loaders import Company


def test_is_silent_while_data_arrives_in_time(run) -> None:
    assert list(advise(run(num_workers=4, blocked=0.020, step=0.010))) == []


def test_is_silent_when_the_wait_is_below_five_percent(run) -> None:
    assert list(advise(run(num_workers=0, blocked=0.0004, step=0.010))) == []


def test_is_silent_with_too_few_batches_to_judge(run) -> None:
    assert list(advise(run(num_workers=0, blocked=0.050, batches=7, kept=7))) == []


def test_is_silent_when_the_cpus_cannot_feed_more_workers(run) -> None:
    assert list(advise(run(num_workers=2, cpu=0.040, step=0.001, cpus=2))) == []


def test_is_silent_about_a_loader_that_only_evaluates(run) -> None:
    assert list(advise(run(num_workers=0, blocked=0.050, training=False))) == []


def test_promises_nothing_where_a_busy_device_hides_the_wait(run, device) -> None:
    hidden = run(num_workers=0, blocked=0.010, step=0.010, devices=(device(busy=0.99),))
    assert all(finding.speedup.likely < 1.05 for finding in advise(hidden))


def test_leaves_batches_that_are_held_up_to_straggling_worker(run) -> None:
    """Four workers make a batch in 23 ms on average, enough for steps of 10 ms, but each eightieth takes 1.2 s."""
    fetches = [(0.0, 0.008)] * 40 + [(0.0, 1.200)] + [(0.0, 0.008)] * 39
    waits = [0.0005] * 40 + [1.100] + [0.0005] * 39
    held_up = run(num_workers=4, fetches=fetches, waits=waits, step=0.010, early=[0] * 41 + [7] * 3, kept=400)
    assert list(advise(held_up)) == []
    assert list(advise(run(num_workers=4, fetches=fetches, waits=waits, step=0.010, kept=400))) != []


def test_is_not_sure_where_one_worker_has_a_slow_part_of_an_iterable_dataset(run) -> None:
    """More workers may leave it whole: then a pass takes as long as before."""
    told = run(num_workers=3, step=0.005, waits=[0.095, 0.0005, 0.0005], iterable=True)
    process = told.processes[0]
    loader = process.loaders[0]
    makers = ((0, 0.040), (1, 0.110), (2, 0.040))
    made = [Fetch(wall=s, cpu=0.003, queued=0.0, collate=0.0, samples=1, worker=w) for w, s in makers] * 60
    loader = replace(loader, fetches=tuple(made))
    unsure = replace(told, processes=(replace(process, loaders=(loader,)),))
    assert all(finding.speedup.sure < 1.05 < finding.speedup.likely for finding in advise(unsure))
    indexed = replace(told, processes=(replace(process, loaders=(replace(loader, iterable=False),)),))
    (finding,) = advise(indexed)
    assert finding.speedup.sure > 1.05


def test_names_a_number_that_covers_the_making_of_a_batch(run) -> None:
    (finding,) = advise(run(num_workers=0, blocked=0.050, step=0.010))
    assert finding.id == "few-workers"
    assert 5 <= finding.change["num_workers"] <= 8
    assert finding.speedup.likely == pytest.approx(0.060 / 0.0111, rel=0.05)
    assert finding.share_lost == pytest.approx(1 - 1 / finding.speedup.likely)
    assert finding.severity.value == "high"
    assert finding.where == "train.py:41"
    assert finding.evidence["waiting"] == pytest.approx(5 / 6)
    assert finding.evidence["batch_s"] == pytest.approx(0.050)


def test_the_numbers_in_the_sentence_carry_units(run) -> None:
    (finding,) = advise(run(num_workers=1, blocked=0.050, step=0.010))
    assert "50 ms" in finding.says
    assert "10 ms" in finding.says
    assert "80%" in finding.says
    assert "num_workers is 1" in finding.says


def test_takes_the_cpus_of_this_job_as_the_ceiling(run) -> None:
    (finding,) = advise(run(num_workers=1, cpu=0.040, step=0.001, cpus=3))
    assert finding.change["num_workers"] <= 3


def test_shares_the_cpus_out_among_the_ranks(run) -> None:
    assert all(f.change["num_workers"] <= 2 for f in advise(run(num_workers=1, cpu=0.080, step=0.001, cpus=8, ranks=4)))


def test_a_worker_that_waits_for_the_network_needs_no_cpu_of_its_own(run) -> None:
    (finding,) = advise(run(num_workers=2, cpu=0.001, blocked=0.080, step=0.010, cpus=2))
    assert 8 <= finding.change["num_workers"] <= 10


def test_stays_within_the_room_in_shared_memory(run) -> None:
    full = run(num_workers=1, blocked=0.080, step=0.010, batch_bytes=10_000_000, shm_free=100_000_000)
    assert all(f.change["num_workers"] <= 4 for f in advise(full))


def test_going_from_no_workers_to_some_changes_the_order(run) -> None:
    (finding,) = advise(run(num_workers=0, blocked=0.050))
    assert finding.effect == "changes-order"


def test_more_workers_than_some_keep_the_order(run) -> None:
    (finding,) = advise(run(num_workers=1, blocked=0.050))
    assert finding.effect == "same-order"


def test_an_iterable_dataset_may_return_its_samples_twice(run) -> None:
    (finding,) = advise(run(num_workers=1, blocked=0.050, iterable=True))
    assert finding.effect == "may-duplicate"


def test_short_epochs_call_for_workers_that_persist(run) -> None:
    (finding,) = advise(run(num_workers=0, blocked=0.050, step=0.010, batches=400, epochs=40))
    assert finding.change.get("persistent_workers") is True
    assert "persistent_workers=True" in finding.do


SEQUENTIAL = ("Prefetch", "BatchV2", "Map", "Range")


def test_is_silent_about_a_pipeline_of_tensorflow_that_keeps_up(tensorflow) -> None:
    assert list(advise(tensorflow(*SEQUENTIAL, slowest=2, making=0.008, step=0.010))) == []


def test_is_silent_where_tensorflow_has_made_the_map_parallel(tensorflow) -> None:
    busy = tensorflow("MapAndBatch", "Range", making=0.080, cpu=0.080, at_once=8, most=8, step=0.001)
    assert list(advise(busy)) == []


def test_is_silent_where_python_computes_in_the_map(tensorflow) -> None:
    assert list(advise(tensorflow(*SEQUENTIAL, slowest=2, making=0.040, cpu=0.040, python=True))) == []


def test_is_silent_where_another_stage_than_a_map_is_slow(tensorflow) -> None:
    assert list(advise(tensorflow("Prefetch", "BatchV2", "FlatMap", "Generator", slowest=3))) == []


def test_is_silent_about_a_pipeline_of_which_little_is_known(tensorflow) -> None:
    assert list(advise(tensorflow(*SEQUENTIAL, slowest=2, readings=2))) == []
    assert list(advise(tensorflow(*SEQUENTIAL, slowest=2, training=False))) == []


def test_speaks_of_parallel_calls_in_the_words_of_tensorflow(tensorflow) -> None:
    """Making takes 40 ms of CPU, a step 10: four cores make a batch in time."""
    (finding,) = advise(tensorflow(*SEQUENTIAL, slowest=2, making=0.040, cpu=0.040, step=0.010, cpus=8))
    assert finding.do == "map(..., num_parallel_calls=tf.data.AUTOTUNE)"
    assert "num_workers" not in finding.says
    assert "40 ms" in finding.says
    assert finding.speedup.likely == pytest.approx(4.0, rel=0.1)
    assert finding.effect == "same-order"


def test_names_a_pool_where_more_calls_wait_than_there_are_cpus(tensorflow) -> None:
    (finding,) = advise(tensorflow(*SEQUENTIAL, slowest=2, making=0.080, cpu=0.001, step=0.010, cpus=2))
    threads = finding.change["private_threadpool_size"]
    assert 8 <= threads <= 16
    assert f"options.threading.private_threadpool_size={threads}" in finding.do
    assert finding.speedup.likely == pytest.approx(8.0, rel=0.1)


def test_names_no_pool_where_others_crowd_the_cpus(tensorflow) -> None:
    """What looks like waiting for storage may be waiting for a CPU."""
    crowd = tensorflow(*SEQUENTIAL, slowest=2, making=0.080, cpu=0.001, step=0.010, cpus=2, others=1.8)
    assert all("private_threadpool_size" not in finding.change for finding in advise(crowd))


def test_promises_of_python_no_more_than_it_computes_one_by_one(tensorflow) -> None:
    busy = tensorflow(*SEQUENTIAL, slowest=2, making=0.080, cpu=0.010, step=0.004, cpus=8, python=True)
    (finding,) = advise(busy)
    assert finding.speedup.high <= 8.0 + 1e-6


def test_promises_no_more_than_the_other_stages_allow(tensorflow) -> None:
    (finding,) = advise(tensorflow(*SEQUENTIAL, slowest=2, making=0.080, slow=0.060, cpu=0.001, step=0.001))
    assert finding.speedup.high <= 4.0 + 1e-6


def test_loaders_of_one_line_that_live_at_once_get_what_fits_them_all(run) -> None:
    """There is room for 16 batches: for six workers of one loader, and for four of each of two."""
    tight = {"num_workers": 1, "blocked": 0.060, "step": 0.010, "batch_bytes": 1_000_000, "shm_free": 20_000_000}
    (alone,) = advise(run(**tight))
    (two,) = advise(run(**tight, company=Company(built=2, iterated=2)))
    assert alone.change["num_workers"] > two.change["num_workers"] == 4
    assert "each of them" not in alone.do
    assert "2 loaders that live at once: each of them gets as many" in two.do


def test_where_one_loader_of_a_line_is_waited_for_it_is_named_and_gets_them_alone(run) -> None:
    """Two are drawn from side by side on two CPUs: one makes a batch in 24 ms, the other has it ready."""
    told = run(num_workers=0, cpu=0.024, step=0.006, cpus=2, company=Company(built=2, iterated=2, training=2))
    process = told.processes[0]
    slow = replace(process.loaders[0], dataset="Pictures")

    def beside(**other: object) -> Features:
        return replace(told, processes=(replace(process, loaders=(slow, replace(slow, **other))),))

    def advised(**other: object) -> Finding:
        return next(iter(advise(beside(**other))))

    quiet = {"wait_total": 0.05 * slow.wait_total, "num_workers": 1, "waits": (0.0005,) * 200}
    alone = advised(**quiet)
    assert alone.change["num_workers"] == 2
    assert "for one of the 2 loaders of that line, the one with num_workers=0;" in alone.do
    assert "with a dataset of Pictures;" in advised(**quiet, dataset="Texts").do
    alike = advised(**{**quiet, "num_workers": 0})
    assert "for one of the 2 loaders of that line; the others" in alike.do
    both = advised(num_workers=1)
    assert both.change["num_workers"] == 1
    assert "each of them gets as many" in both.do
    assert both.speedup.likely < alone.speedup.likely


def test_what_a_round_waits_for_another_loader_is_not_called_a_step(run) -> None:
    """Two that are drawn from side by side take 18 ms each; of 24 ms between two batches of one, 6 are the step."""
    told = run(num_workers=0, blocked=0.018, step=0.024)
    process = told.processes[0]
    loader = process.loaders[0]

    def said(**other: object) -> str:
        loaders = (loader, replace(loader, where="train.py:42", **other))
        return next(iter(advise(replace(told, processes=(replace(process, loaders=loaders),))))).says

    beside = said()
    assert "a step 6 ms beside 18 ms of waiting for the loader at train.py:42, and num_workers is 0" in beside
    after = tuple(replace(epoch, began=epoch.began + loader.seconds) for epoch in loader.epochs)
    assert "a step 24 ms, and num_workers is 0" in said(epochs=after)
    assert "a step 24 ms, and num_workers is 0" in said(training=False)


def test_one_worker_that_waits_has_shown_nothing_of_several(run) -> None:
    """That they wait beside each other is only an assumption then, and the advice says so; CPUs are known."""
    (waits,) = advise(run(num_workers=1, blocked=0.060, step=0.010))
    assert waits.do.endswith(", if what they wait for serves so many at a time")
    (computes,) = advise(run(num_workers=1, cpu=0.060, step=0.010))
    (several,) = advise(run(num_workers=2, blocked=0.060, step=0.010))
    assert "serves" not in computes.do + several.do


def test_batches_that_are_made_on_a_gpu_are_to_be_copied_in_the_loop_first(run) -> None:
    """With workers as they are, the script would end in `Cannot re-initialize CUDA in forked subprocess`."""
    (process,) = (plain := run(num_workers=0, blocked=0.050)).processes
    (loader,) = process.loaders

    def told(**differs: object) -> Finding:
        there = replace(process, loaders=(replace(loader, batch_on_device=True, **differs),))
        (finding,) = advise(replace(plain, processes=(there,)))
        return finding

    assert told().do.startswith("copy batches to the GPU in the loop, not in the dataset or collate_fn (no forked")
    assert "and set num_workers=" in told().do
    assert told().change == {}  # which would be tried on the script as it is
    assert told(start_method="spawn").do.startswith("set num_workers=")
    (usual,) = advise(plain)
    assert usual.do.startswith("set num_workers=")
