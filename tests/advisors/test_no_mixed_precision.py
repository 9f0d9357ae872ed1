"""no-mixed-precision speaks when tensor cores are there, the device works, and they do not."""

from dataclasses import replace

import pytest

from gputune.advisors.no_mixed_precision import advise
from gputune.features import Allocator, Features, Precision
from gputune.verdict.judging import judge

SINGLE = {"busy": 1.0, "capability": 9.0, "sm_active": 0.8, "tensor_active": 0.0, "dram_active": 0.4}


@pytest.mark.parametrize(
    "differs",
    [
        {"tensor_active": 0.2},
        {"tensor_active": None},  # no counters, and the guest told nothing
        {"sm_active": None},
        {"capability": None},
        {"capability": 6.1},
        {"capability": 7.5, "name": "NVIDIA GeForce GTX 1660"},
        {"busy": 0.3, "sm_active": 0.25},  # it idles: something else comes first
        {"sm_active": 0.1},  # small kernels: arithmetic does not hold them up
    ],
)
def test_is_silent_where_tensor_cores_work_are_missing_or_not_known(run, device, differs) -> None:
    assert list(advise(run(devices=(device(**{**SINGLE, **differs}),)))) == []


def test_names_what_idles_and_promises_an_honest_range(run, device) -> None:
    (finding,) = advise(run(devices=(device(**SINGLE),)))
    assert finding.id == "no-mixed-precision"
    assert (
        "its multiprocessors are active 80%, its tensor cores 0.0%: everything is computed in 32 bits" in finding.says
    )
    assert "autocast" in finding.do
    assert finding.effect == "changes-rounding"
    assert (finding.speedup.low, finding.speedup.likely) == pytest.approx((1.25 * 0.95, 2.0))


def test_only_the_busy_time_gets_shorter(run, device) -> None:
    (finding,) = advise(run(devices=(device(**{**SINGLE, "busy": 0.6, "sm_active": 0.5}),)))
    assert finding.speedup.likely == pytest.approx(1 / 0.7)


def test_a_stray_tensor_operation_is_no_half_precision(run, device) -> None:
    assert len(list(advise(run(devices=(device(**{**SINGLE, "tensor_active": 0.01}),))))) == 1


OLDER = {"busy": 0.95, "capability": 8.0}  # no performance counters
PLAIN = Precision(types=("torch.float32",), tf32=False, products=True)


def told(run: Features, precision: Precision, **differs: object) -> Features:
    """The run of which the guest told so."""
    return replace(run, processes=tuple(replace(p, precision=precision, **differs) for p in run.processes))


def test_without_counters_the_guest_is_believed(run, device) -> None:
    (finding,) = advise(told(run(devices=(device(**OLDER),)), PLAIN))
    assert "the model's weights have 32 bits, nothing runs under autocast" in finding.says
    assert "tensor_active" not in finding.evidence


@pytest.mark.parametrize(
    ("precision", "card"),
    [
        (replace(PLAIN, autocast=True), {}),
        (replace(PLAIN, types=("torch.bfloat16", "torch.float32")), {}),
        (replace(PLAIN, tf32=True), {}),
        (replace(PLAIN, tf32=None), {}),
        (replace(PLAIN, products=False), {}),
        (replace(PLAIN, convolutions=True), {}),  # cuDNN uses TF32 there by default
        (Precision(), {}),
        (PLAIN, {"busy": 0.6}),
        (PLAIN, {"capability": 6.0}),
        (replace(PLAIN, autocast=True), {**SINGLE}),  # whatever the counters say
    ],
)
def test_without_counters_any_doubt_is_silence(run, device, precision, card) -> None:
    assert list(advise(told(run(devices=(device(**{**OLDER, **card}),)), precision))) == []


def test_without_counters_wrappers_of_several_ranks_may_cast(run, device) -> None:
    assert list(advise(told(run(devices=(device(**OLDER),)), PLAIN, world_size=8))) == []


def test_before_tf32_convolutions_are_products_like_others(run, device) -> None:
    volta = device(busy=0.95, capability=7.0)
    assert len(list(advise(told(run(devices=(volta,)), replace(PLAIN, convolutions=True))))) == 1


@pytest.mark.parametrize(
    "precision",
    [
        replace(PLAIN, types=("torch.float64",)),
        replace(PLAIN, types=("torch.float32", "torch.float64")),
        replace(PLAIN, products=False),
    ],
)
def test_digits_that_are_wanted_and_work_without_matrices_are_left_alone_whatever_is_counted(
    run, device, precision
) -> None:
    assert list(advise(told(run(devices=(device(**SINGLE),)), precision))) == []


def test_what_the_guest_did_not_look_at_leaves_the_counters_their_word(run, device) -> None:
    assert len(list(advise(told(run(devices=(device(**SINGLE),)), Precision())))) == 1
    assert len(list(advise(told(run(devices=(device(**SINGLE),)), PLAIN)))) == 1


def test_what_all_devices_do_alike_is_said_once(run, device) -> None:
    cards = (device(**{**SINGLE, "busy": 0.8}), device(**SINGLE, index="1"))
    (finding,) = advise(run(devices=cards))
    assert finding.says.startswith("GPU 1 ")


def test_weights_that_are_sharded_over_ranks_may_be_flat_and_still_matrices(run, device) -> None:
    alone = told(run(devices=(device(**SINGLE),)), replace(PLAIN, products=False))
    sharded = replace(alone, processes=tuple(replace(process, world_size=2) for process in alone.processes))
    assert (len(list(advise(alone))), len(list(advise(sharded)))) == (0, 1)


TF32 = {**SINGLE, "tensor_active": 0.3}
THERE = replace(PLAIN, devices=("cuda",))


def test_tensor_cores_that_work_in_tf32_are_told_where_the_guest_knows(run, device) -> None:
    (finding,) = advise(told(run(devices=(device(**TF32),)), replace(THERE, convolutions=True)))
    assert "its tensor cores compute in TF32, at half of what they do in 16 bits" in finding.says
    assert finding.speedup.at_least


@pytest.mark.parametrize(
    ("precision", "card"),
    [
        (replace(THERE, autocast=True), {}),
        (replace(THERE, products=False), {}),
        (Precision(), {}),
        (PLAIN, {}),  # what it knows the precision of is computed elsewhere
        (replace(PLAIN, devices=("cpu",)), {"jobs_busy": 0.9}),
        (THERE, {"busy": 0.6}),
        (THERE, {"capability": 7.5}),  # it has no TF32: something computes in 16 bits
    ],
)
def test_tensor_cores_that_work_are_believed_wherever_that_is_not_sure(run, device, precision, card) -> None:
    assert list(advise(told(run(devices=(device(**{**TF32, **card}),)), precision))) == []


def test_tensor_cores_that_work_for_several_ranks_are_believed(run, device) -> None:
    assert list(advise(told(run(devices=(device(**TF32),)), THERE, world_size=2))) == []


def found(run: Features) -> bool:
    return "no-mixed-precision" in [finding.id for finding in judge(run)]


@pytest.mark.parametrize("where", [{"built": ""}, {"precision": replace(PLAIN, devices=("cpu",))}])
def test_a_device_that_the_training_does_not_use_is_none_of_its_matter(run, device, where) -> None:
    """A neighbour works on it: torch is built for the CPU, or the parameters lie in the host's memory."""
    others = run(devices=(device(**SINGLE),))
    assert found(told(others, PLAIN, built="13.0"))
    assert not found(told(others, **{"precision": PLAIN, **where}))


def test_a_device_on_which_the_job_was_seen_counts_wherever_its_parameters_lie(run, device) -> None:
    kept = replace(PLAIN, devices=("cpu",))
    assert found(told(run(devices=(device(**SINGLE, jobs_busy=0.9),)), kept))
    assert found(told(run(devices=(device(**SINGLE, jobs_memory=2**30),)), kept))
    pool = Allocator(index="0", live=None, last=0, least=0, peak=1, reserved=1)
    assert found(told(run(devices=(device(**SINGLE),)), kept, allocators=(pool,)))


def test_a_torch_for_the_cpu_casts_nothing_whoever_of_the_job_is_on_the_device(run, device) -> None:
    seen = run(devices=(device(**SINGLE, jobs_busy=0.9, jobs_memory=2**30),))
    assert found(told(seen, PLAIN, built="13.0"))
    assert not found(told(seen, PLAIN, built=""))


def test_older_tensor_cores_are_offered_what_they_have(run, device) -> None:
    (finding,) = advise(run(devices=(device(**{**SINGLE, "capability": 7.0}),)))
    assert "dtype=torch.float16) with a torch.amp.GradScaler" in finding.do
    (finding,) = advise(run(devices=(device(**SINGLE),)))
    assert "dtype=torch.bfloat16), and" in finding.do


def test_what_the_devices_clock_says_bounds_it_and_not_what_nvml_calls_busy(run, device, clocked) -> None:
    (finding,) = advise(clocked(run(devices=(device(**SINGLE),)), 0.3))
    assert finding.evidence["busy"] == pytest.approx(0.3)
    assert finding.speedup.likely == pytest.approx(1 / (1 - 0.3 / 2))
