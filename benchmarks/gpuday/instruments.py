"""Part 2, the instruments: what events, launches and NVML cost from Python, and how host and device keep time."""

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from gpuday.check import Check, Failed, Step, told, truth
from gpuday.day import Day, last_json

ASSUMED = 1.5  # cycles a ns that gputune holds with until the first hold has told (gputune_guest/holding.py)
BOUNDED = "what a device passes between two looks keeps gputune's figure of the two within a step"  # device.py
MOST_LAUNCHES = 8192
STOOD_S = 0.005  # of one launch: from there on it stood in a full queue
ROUNDS, EACH = 40, 50
RESOLUTION = "least difference of events' times"
FLOAT_US = 1e-3  # of differences: below it they are rounding of the float32 that elapsed_time returns
NVML = """
import json, time, pynvml as n
n.nvmlInit(); d = n.nvmlDeviceGetHandleByIndex(0); took = []
reads = (n.nvmlDeviceGetUtilizationRates, n.nvmlDeviceGetMemoryInfo, n.nvmlDeviceGetPowerUsage,
         lambda d: n.nvmlDeviceGetClockInfo(d, n.NVML_CLOCK_SM), lambda d: n.nvmlDeviceGetTemperature(d, 0),
         n.nvmlDeviceGetComputeRunningProcesses)
for i in range(60):
    t = time.perf_counter()
    for read in reads:
        try: read(d)
        except n.NVMLError: pass
    took.append(time.perf_counter() - t); time.sleep(0.02)
clock = n.nvmlDeviceGetClockInfo(d, n.NVML_CLOCK_SM)
took.sort(); print(json.dumps({"median": took[30], "worst": took[-1], "clock": clock}))
"""


def each_us(call: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Return the us that a call takes: the median of rounds of calls."""
    rounds = []
    for _ in range(ROUNDS):
        before()
        began = time.perf_counter_ns()
        for _ in range(EACH):
            call()
        rounds.append((time.perf_counter_ns() - began) / EACH / 1e3)
    return statistics.median(rounds)


def events(_: Day) -> Iterator[Check]:
    """Say what events cost and how finely they tell the time."""
    import torch  # noqa: PLC0415 - as all of this part

    cuda = torch.cuda
    first, second = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    first.record()
    second.record()
    cuda.synchronize()
    yield told("Event.record", "µs", each_us(first.record, cuda.synchronize))
    second.record()
    cuda.synchronize()
    yield told("Event.query", "µs", each_us(second.query))
    yield told("Event.elapsed_time", "µs", each_us(lambda: first.elapsed_time(second)))
    yield told("Event(enable_timing=True)", "µs", each_us(lambda: cuda.Event(enable_timing=True)))
    marks = [cuda.Event(enable_timing=True) for _ in range(400)]
    for mark in marks:
        mark.record()
    cuda.synchronize()
    lengths = sorted({1e3 * before.elapsed_time(after) for before, after in pairwise(marks)})
    least = min(
        (after - before for before, after in pairwise(lengths) if after - before > FLOAT_US), default=float("nan")
    )
    yield told(RESOLUTION, "µs", least, f"{len(lengths)} different lengths of 399")


def sleeping(_: Day) -> Iterator[Check]:
    """Say how many cycles a ns `_sleep` counts, which gputune's holds rest on."""
    import torch  # noqa: PLC0415 - as all of this part

    slept_ns(torch, 1)  # CUDA loads a kernel where it is launched first: 12 ms on an H100
    rates = [cycles / slept_ns(torch, cycles) for cycles in (200_000, 2_000_000, 20_000_000) for _ in range(3)]
    rate = statistics.median(rates)
    first = f"gputune's first hold lasts {ASSUMED / rate:.2f} times what it means to"
    yield told("cycles a ns of torch.cuda._sleep", "1/ns", rate, f"{min(rates):.3f} to {max(rates):.3f}; {first}")
    spread = max(rates[3:]) / min(rates[3:]) - 1
    yield told("its spread from 1 to 10 ms on", "%", 100 * spread)


def slept_ns(torch: object, cycles: int) -> float:
    """Return the ns by the device's clock that `_sleep` of so many cycles lasts."""
    cuda = torch.cuda  # type: ignore[attr-defined]
    before, after = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    before.record()
    cuda._sleep(cycles)
    after.record()
    cuda.synchronize()
    return max(1.0, 1e6 * float(before.elapsed_time(after)))


def launches(_: Day) -> Iterator[Check]:
    """Say what a launch costs, how far the host runs ahead, and how it waits."""
    import torch  # noqa: PLC0415 - as all of this part

    cuda, x = torch.cuda, torch.zeros(16, device="cuda")
    yield told("one small kernel from Python", "µs", each_us(lambda: x.add_(1), cuda.synchronize))
    cycles_s = 20_000_000 / (slept_ns(torch, 20_000_000) / 1e9)
    cuda.synchronize()
    cuda._sleep(int(0.5 * cycles_s))
    depth = 0
    began = then = time.perf_counter()
    while depth < MOST_LAUNCHES and then - began <= STOOD_S:
        began = then
        x.add_(1)
        then = time.perf_counter()
        depth += 1
    more = "" if then - began > STOOD_S else "or more: none stood"
    cuda.synchronize()
    yield told("launches until the host stands", "1", depth, more)
    for name, event in (
        ("torch.cuda.synchronize", None),
        ("a blocking Event's synchronize", cuda.Event(blocking=True)),
    ):
        cuda._sleep(int(0.2 * cycles_s))
        wall, cpu = time.perf_counter(), time.thread_time()
        if event is None:
            cuda.synchronize()
        else:
            event.record()
            event.synchronize()
        share = (time.thread_time() - cpu) / (time.perf_counter() - wall)
        yield told(f"CPU that {name} takes", "%", 100 * share, "spins" if share > 0.5 else "sleeps")


def copies(_: Day) -> Iterator[Check]:
    """Say how quickly pinned and pageable memory reaches the device."""
    import torch  # noqa: PLC0415 - as all of this part

    size = 64 << 20
    target = torch.empty(size, dtype=torch.uint8, device="cuda")
    for name, source in (
        ("pinned", torch.ones(size, dtype=torch.uint8).pin_memory()),
        ("pageable", torch.ones(size, dtype=torch.uint8)),
    ):
        took = []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        yield told(f"host to device, {name}, 64 MiB", "GB/s", size / statistics.median(took[1:]) / 1e9)


def drift(day: Day) -> Iterator[Check]:
    """Say how far the clocks of host and device come apart while the part goes on, and what an NVML tick costs."""
    import torch  # noqa: PLC0415 - as all of this part

    base, host = placed(torch)
    if day.gputune:
        nvml = last_json(day.run([day.gputune[0], "-c", NVML]))
        yield told("NVML tick (six readings)", "µs", 1e6 * nvml["median"], f"{1e6 * nvml['worst']:.0f} at worst")
        yield told("SM clock of the idle card", "MHz", nvml["clock"])
    seconds = min(60.0, day.box.left() - 15)
    time.sleep(max(10.0, seconds - (time.perf_counter_ns() - host) / 1e9))
    last, then = placed(torch)
    passed = 1e6 * base.elapsed_time(last)
    ppm = 1e6 * (passed / (then - host) - 1)
    yield told("drift of the device's clock", "ppm", ppm, f"over {(then - host) / 1e9:.0f} s; {BOUNDED}")


def placed(torch: object) -> tuple[object, int]:
    """Return an event on the idle device and the host's ns for it: of many, the one that was placed best."""
    cuda = torch.cuda  # type: ignore[attr-defined]
    found = []
    for _ in range(200):
        cuda.synchronize()
        event, began = cuda.Event(enable_timing=True), time.perf_counter_ns()
        event.record()
        event.synchronize()
        ended = time.perf_counter_ns()
        found.append((ended - began, (began + ended) // 2, event))
    _, host, event = min(found, key=lambda one: one[:2])
    return event, host


def synchronizing(day: Day) -> Iterator[Check]:
    """Say whether the guest ever makes the host wait for the device."""
    _, _, printed = day.watched("no-synchronization", day.training("device", "--syncs"), GPU_DAY_SECONDS="4")
    said = last_json(printed)
    if not said["control"]:
        raise Failed("torch did not warn of a synchronization that was asked for: the check cannot see any")
    note = f"in {said['steps']} watched steps; and none of the steps under `error` failed"
    yield truth(
        "synchronizations by the guest", f"{said['synchronizations']}", note, right=not said["synchronizations"]
    )


EVENTS = ("Event.record", "Event.query", "Event.elapsed_time", "Event(enable_timing=True)")
STEPS = (
    Step((*EVENTS, RESOLUTION), 3, events),
    Step(("cycles a ns of torch.cuda._sleep", "its spread from 1 to 10 ms on"), 2, sleeping),
    Step(
        (
            "one small kernel from Python",
            "launches until the host stands",
            "CPU that torch.cuda.synchronize takes",
            "CPU that a blocking Event's synchronize takes",
        ),
        4,
        launches,
    ),
    Step(("host to device, pinned, 64 MiB", "host to device, pageable, 64 MiB"), 2, copies),
    Step(("synchronizations by the guest",), 10, synchronizing),
    Step(("NVML tick (six readings)", "SM clock of the idle card", "drift of the device's clock"), 15, drift),
)
