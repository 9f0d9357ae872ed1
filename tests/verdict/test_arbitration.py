"""Of several causes for the same seconds the best speaks, and no second is claimed twice."""

from dataclasses import replace

import pytest

from gputune.core.finding import NO_CHANGE, Finding, Speedup
from gputune.features import Device, DeviceStep, Epoch, Features, Loader, Machine, Process, SyncRound
from gputune.verdict.arbitration import CLOSE, GROUPS, ceiling, claimed, settle, uncovered


def run(
    *,
    devices: tuple[Device, ...] = (),
    works: tuple[float, ...] = (),
    gaps: tuple[float, ...] = (),
    waits: tuple[float, ...] = (60.0,),
    **ledger: float,
) -> Features:
    """A loop of 100 s whose seconds are `ledger` (the rest is step), with a loader at line 0, 1, … for each wait."""
    spent = {name.replace("_", "."): s for name, s in ledger.items()}
    spent["step"] = 100.0 - sum(spent.values())
    loaders = tuple(
        Loader(
            where=f"t.py:{n}",
            num_workers=0,
            prefetch_factor=None,
            pin_memory=False,
            persistent_workers=False,
            batch_size=8,
            wait_total=wait,
        )
        for n, wait in enumerate(waits)
    )
    process = Process(
        pid=1,
        rank=None,
        wall=110.0,
        ledger={"startup": 10.0, **spent},
        inclusive={},
        loop=100.0,
        batches=100,
        samples=800,
        optimizer_steps=100,
        loaders=loaders,
        works=works,
        gaps=gaps,
    )
    machine = Machine(cpus=2, cpus_seen=2)
    return Features(command=("t",), wall=110.0, machine=machine, processes=(process,), devices=devices)


def finding(name: str, likely: float, *, where: str = "t.py:0", spread: float = 0.05, **more: object) -> Finding:
    """A finding that claims what its gain would give back."""
    return Finding(
        **{
            "id": name,
            "says": f"{name} at {where}",
            "do": "do",
            "share_lost": 1 - 1 / likely,
            "speedup": Speedup(low=likely * (1 - spread), likely=likely, high=likely * (1 + spread)),
            "basis": "b",
            "falsified_by": "f",
            "effect": "identical",
            "evidence": {"n": 1.0},
            "where": where,
            **more,
        }
    )


WAITING = run(loader_wait=60.0)
EVEN = 2.0  # a gain of a rival, and one that is about as good
NEARLY = 2.0 * CLOSE - 0.01
FAR = 2.0 * CLOSE + 0.01


@pytest.mark.parametrize("group", GROUPS)
def test_no_cause_stands_in_two_groups(group) -> None:
    others = [name for other in GROUPS if other is not group for name in other.ids]
    assert not set(group.ids) & set(others)


@pytest.mark.parametrize(
    ("found", "speaks", "instead"),
    [
        ((("few-workers", EVEN), ("heavy-collate", NEARLY)), "few-workers", {"instead.heavy-collate": NEARLY}),
        ((("few-workers", EVEN), ("heavy-collate", FAR)), "heavy-collate", {"instead.few-workers": EVEN}),
        ((("host-bound", EVEN), ("sync-every-step", EVEN)), "sync-every-step", {"instead.host-bound": EVEN}),
        ((("slow-link", EVEN), ("device-throttled", EVEN)), "device-throttled", {"instead.slow-link": EVEN}),
        ((("uneven-shards", EVEN), ("straggling-rank", EVEN)), "straggling-rank", {"instead.uneven-shards": EVEN}),
    ],
)
def test_of_rivals_one_speaks_and_names_the_others(found, speaks, instead) -> None:
    busy = run(loader_wait=30.0, collective=30.0)
    (spoken,) = settle(busy, [finding(name, likely) for name, likely in found])
    assert spoken.id == speaks
    assert {name: value for name, value in spoken.evidence.items() if name != "n"} == pytest.approx(instead)


def test_two_loaders_in_one_loop_are_two_cases() -> None:
    both = run(loader_wait=80.0, waits=(50.0, 30.0))
    found = [finding("few-workers", 1.9), finding("low-prefetch", 1.4, where="t.py:1")]
    assert [f.id for f in settle(both, found)] == ["few-workers", "low-prefetch"]


def test_a_cause_that_names_no_loader_is_about_the_one_most_waited_for() -> None:
    both = run(loader_wait=80.0, waits=(30.0, 50.0))
    found = [finding("few-workers", 1.9, where="t.py:1"), finding("slow-storage", 1.5, where="")]
    assert [f.id for f in settle(both, found)] == ["few-workers"]


def test_the_same_of_another_device_is_no_rival_and_claims_nothing_more() -> None:
    found = [finding("device-throttled", 2.0, where="", says=f"GPU {n}") for n in range(4)]
    assert len(settle(WAITING, found)) == 4


def test_findings_about_different_seconds_all_speak_with_all_they_claim() -> None:
    found = [finding("few-workers", 2.0), finding("frequent-checkpoint", 1.2), finding("host-bound", 1.1)]
    settled = settle(run(loader_wait=55.0, checkpoint=18.0), found)
    assert [(f.id, f.share_lost) for f in settled] == [(f.id, pytest.approx(f.share_lost)) for f in found]


def test_no_second_is_claimed_twice_and_who_comes_too_late_is_mentioned() -> None:
    found = [finding("shared-device", 3.0), finding("host-bound", 1.5), finding("frequent-logging", 1.3)]
    settled = settle(run(logging=25.0), found)
    assert [f.id for f in settled] == ["shared-device", "frequent-logging"]
    assert settled[0].evidence["instead.host-bound"] == 1.5
    assert sum(f.share_lost for f in settled) <= 1.0


def test_who_comes_too_late_for_a_small_part_claims_the_rest_and_predicts_the_same() -> None:
    found = [finding("few-workers", 2.5), finding("host-bound", 2.0)]
    first, second = settle(run(loader_wait=55.0), found)
    assert (first.share_lost, second.share_lost) == pytest.approx((0.6, 0.4))
    assert second.speedup == found[1].speedup


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("few-workers", "loader.wait", "step"),
        ("worker-restart", "loader.start", "step"),
        ("blocking-copy", "copy.h2d", "sync"),
        ("frequent-logging", "logging", "step"),
    ],
)
def test_each_cause_claims_the_seconds_nearest_to_it_first(name: str, first: str, last: str) -> None:
    assert (claimed(name)[0], claimed(name)[-1]) == (first, last)
    assert len(set(claimed(name))) == len(claimed(name))
    assert claimed("something-new") == ()


def test_a_risk_claims_no_seconds_and_has_no_rival() -> None:
    risk = finding("slow-storage", 1.0, spread=0.0, speedup=NO_CHANGE, share_lost=0.0, risk="full in an hour")
    found = [finding("few-workers", 2.0), risk]
    assert settle(WAITING, found) == found


GPU = Device(index="0", name="A", busy=0.8)


@pytest.mark.parametrize(
    ("about", "most"),
    [
        (run(), float("inf")),
        (run(devices=(GPU,)), 1 / 0.8),
        (run(devices=(replace(GPU, jobs_busy=0.5),)), 2.0),
        (run(devices=(GPU, replace(GPU, busy=0.4))), 2.5),
        (run(devices=(GPU,), works=(0.09,) * 20, gaps=(0.01,) * 20), 1 / 0.9),
        (run(devices=(replace(GPU, busy=None),)), float("inf")),
    ],
)
def test_nothing_makes_a_device_busier_than_busy(about, most) -> None:
    assert ceiling(about) == pytest.approx(most)


def test_steps_that_were_timed_work_as_long_as_others_and_need_not_wait_as_long() -> None:
    timed = DeviceStep(
        timed=20, whole=0.1, starved=0.01, copying=0.0, compute=0.08, read_waits=0.0, copy_waits=0.0, mean=0.2
    )
    about = run(devices=(GPU,), works=(0.09,) * 20, gaps=(0.01,) * 20)
    about = replace(about, processes=tuple(replace(p, device_step=timed) for p in about.processes))
    assert ceiling(about) == pytest.approx(0.2 / 0.09)


def test_a_mean_of_all_steps_has_first_waits_in_it_already() -> None:
    timed = DeviceStep(
        timed=20, whole=0.1, starved=0.01, copying=0.0, compute=0.08, read_waits=0.0, copy_waits=0.0, mean=0.2
    )
    epoch = Epoch(began=0.0, start=2.0, first_wait=10.0, shutdown=1.0, batches=50, seconds=90.0, complete=True)
    idle, epochs = replace(GPU, busy=0.1), (epoch,)
    about = run(devices=(idle,), works=(0.09,) * 20, gaps=(0.01,) * 20)
    (process,) = about.processes
    loaders = tuple(replace(loader, epochs=epochs, training=True) for loader in process.loaders)
    about = replace(about, processes=(replace(process, device_step=timed, loaders=loaders),))
    assert loaders
    assert ceiling(about) == pytest.approx(1 / (0.09 / 0.2 * (1 - 2.0 / process.loop)))


def test_a_busy_machine_takes_no_seconds_from_what_is_wrong_with_the_run() -> None:
    crowd = finding("busy-host", 3.0, where="")
    told = settle(WAITING, [crowd, finding("few-workers", 2.0)])
    assert [f.id for f in told] == ["busy-host", "few-workers"]
    assert [
        f.id for f in settle(WAITING, [replace(crowd, speedup=Speedup(low=1.1, likely=1.2, high=1.3)), told[1]])
    ] == [
        "few-workers",
        "busy-host",
    ]


def test_a_larger_batch_may_bring_more_than_the_devices_idle_time() -> None:
    busy = run(devices=(replace(GPU, busy=0.5),), works=(0.5,) * 20, gaps=(0.5,) * 20)
    larger = finding("small-batch", 4.0)
    assert uncovered(busy, larger) is larger
    assert uncovered(busy, finding("host-bound", 4.0)).speedup.likely == pytest.approx(2.0)


def test_kernels_that_go_with_their_launches_leave_a_device_less_to_do() -> None:
    busy = run(devices=(replace(GPU, busy=0.5),))
    fused = finding("host-bound", 4.0, evidence={"merged_s": 0.1, "step_s": 1.0})
    assert uncovered(busy, fused).speedup.likely == pytest.approx(1 / 0.4)


def test_to_read_a_number_less_often_is_the_cheapest_of_equal_changes() -> None:
    found = [finding("preprocessing-in-loop", 1.5), finding("sync-every-step", 1.45)]
    assert [f.id for f in settle(run(), found)] == ["sync-every-step"]


def test_what_a_device_idles_inside_of_steps_is_for_the_host_to_mend_and_not_for_the_loader() -> None:
    """Its clock is read between steps: from there it was never idle; NVML saw it busy for half of the time."""
    about = run(devices=(replace(GPU, busy=0.5),), works=(0.099,) * 20, gaps=(0.001,) * 20, sync=60.0)
    assert uncovered(about, finding("sync-every-step", 1.7)).speedup.likely == pytest.approx(1.7)
    assert uncovered(about, finding("few-workers", 1.7)).speedup.likely == pytest.approx(1 / 0.99)


def test_between_short_passes_a_device_idles_though_its_clock_is_not_read_there() -> None:
    """Ten passes of ten steps: 5 of each 10 s go to starting and ending workers."""
    about = run(works=(0.495,) * 90, gaps=(0.005,) * 90, loader_start=40.0, loader_wait=10.0)
    epoch = Epoch(began=0.0, start=3.0, first_wait=1.0, shutdown=1.0, batches=10, seconds=10.0, complete=True)
    (process,) = about.processes
    loader = replace(process.loaders[0], epochs=(epoch,) * 10)
    about = replace(about, processes=(replace(process, loaders=(loader,)),))
    assert ceiling(about) == pytest.approx(1 / (0.99 * 0.5))
    restarts = finding("worker-restart", 1.8)
    assert uncovered(about, restarts) == restarts
    busy = replace(about, devices=(replace(GPU, busy=0.98),))  # it works off what was queued before
    assert uncovered(busy, restarts).speedup.likely == pytest.approx(1 / 0.98)


def test_a_wait_that_the_device_does_not_notice_gains_nothing() -> None:
    hidden = run(loader_wait=40.0, works=(0.099,) * 50, gaps=(0.001,) * 50)
    cut = uncovered(hidden, finding("few-workers", 1.6))
    assert cut.speedup.low < 1.05
    assert cut.share_lost == pytest.approx(1 - 1 / cut.speedup.likely)
    assert "idle time" in cut.basis
    free = finding("device-throttled", 1.6)
    assert uncovered(hidden, free) == free


@pytest.mark.parametrize(
    ("input_s", "speakers"), [(0.018, ["straggling-rank"]), (0.001, ["straggling-rank", "few-workers"])]
)
def test_where_one_ranks_input_is_late_the_loaders_settings_are_not_to_blame(input_s: float, speakers: list) -> None:
    evidence = {"own_s": 0.030, "others_s": 0.010, "more_input_s": input_s}
    late = finding("straggling-rank", 1.8, where="", evidence=evidence)
    told = settle(run(collective=50.0, loader_wait=45.0), [finding("few-workers", 1.7), late])
    assert [f.id for f in told] == speakers
    assert ("instead.few-workers" in told[0].evidence) == (len(speakers) == 1)


def test_more_workers_that_promise_much_more_than_the_late_rank_speak_for_themselves() -> None:
    evidence = {"own_s": 0.030, "others_s": 0.010, "more_input_s": 0.020}
    late = finding("straggling-rank", 1.3, where="", evidence=evidence)
    told = settle(run(collective=30.0, loader_wait=60.0), [finding("few-workers", 2.2), late])
    assert told[0].id == "few-workers"


def spent(wait: float, apart: float, step: float) -> dict[str, float]:
    """The s of a round under the ledger's words."""
    return {"loader.wait": wait, "collective": apart, "step": step}


def job(*waits: float, step: float = 0.010, rounds: int = 50) -> Features:
    """A job whose ranks wait so many s a round for batches, and then compute for as long as each other."""
    owns = [step + wait for wait in waits]
    loop = rounds * max(owns)
    processes = tuple(
        Process(
            pid=10 + rank, rank=rank, world_size=len(waits), wall=loop, inclusive={}, loop=loop, batches=rounds,
            samples=rounds, optimizer_steps=rounds, in_loop={"loader.wait": rounds * waits[rank]},
            ledger={name: rounds * s for name, s in spent(waits[rank], max(owns) - own, step).items()},
            meetings=tuple(
                SyncRound(number=k, own=own, apart=max(owns) - own, ranks=len(waits)) for k in range(rounds)
            ),
        )
        for rank, own in enumerate(owns)
    )  # fmt: skip
    return Features(command=("t",), wall=loop, machine=Machine(cpus=8, cpus_seen=8), processes=processes)


@pytest.mark.parametrize(
    ("waits", "speaks"),
    [
        ((0.002, 0.040), "straggling-rank"),
        ((0.019, 0.040), "straggling-rank"),
        ((0.021, 0.040), "few-workers"),
        ((0.030, 0.040), "few-workers"),
        ((0.002, 0.003, 0.002, 0.040), "straggling-rank"),
        ((0.002, 0.002, 0.040, 0.040), "straggling-rank"),
        ((0.002, 0.030, 0.030, 0.040), "few-workers"),
    ],
)
def test_a_rank_that_waits_alone_is_named_however_much_more_workers_promise(waits: tuple, speaks: str) -> None:
    evidence = {"own_s": 0.050, "others_s": 0.012, "more_input_s": 0.038}
    late = finding("straggling-rank", 4.6, where="", evidence=evidence)
    first = settle(job(*waits), [finding("few-workers", 6.2, do="set num_workers=4"), late])[0]
    assert first.id == speaks
    if speaks == "straggling-rank":
        assert first.do == "do; or, on all ranks, set num_workers=4"
        assert first.evidence["instead.few-workers"] == 6.2


def test_where_no_ranks_input_is_late_the_loader_speaks_as_before() -> None:
    found = [finding("few-workers", 6.2)]
    assert settle(job(0.040, 0.040), found)[0].id == "few-workers"
    evidence = {"own_s": 0.050, "others_s": 0.012, "more_input_s": 0.001}
    late = finding("straggling-rank", 4.6, where="", evidence=evidence)
    assert settle(job(0.002, 0.040), [*found, late])[0].id == "few-workers"


@pytest.mark.parametrize("cause", ["no-mixed-precision", "small-batch", "communication-bound"])
def test_what_makes_the_device_quicker_may_claim_what_the_host_stands_for_it_in_launches(cause: str) -> None:
    (kept,) = settle(run(launch_wait=80.0), [finding(cause, 2.0)])
    assert kept.share_lost == pytest.approx(0.5)
    assert "launch.wait" in claimed(cause)
