"""The device runs below its clocks because something holds them down.

What it sees: NVML's clock event reasons and the SM clock while the device was busy, against its highest clock.

Why it matters: kernels take longer by the ratio of the clocks, whatever the software does.

What to do: thermal reasons: airflow, fan curve, neighbours in the chassis. Power brake or cap: the power limit
(`nvidia-smi -q -d POWER`) and the supply. Ask the operator with the reason and the share named here.

When it is wrong: when the load is so uneven that clocks never settle; memory-bound kernels lose less than the clocks
say.

Sources: NVML API reference, nvmlClocksEventReasons.
"""

from collections.abc import Iterator

from gputune.features import Device, Features
from gputune.finding import Finding
from gputune.prediction import interval

OFTEN = 0.2  # of the busy readings with a reason: rarer ones are the clock's ordinary play
SLOWED = 0.9  # of the highest clock: a card at its power cap loses some percent, and that is how it was built
UNSURE = 0.1  # relative: how far kernels follow the clock depends on what they are bound by


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        share = max(device.throttled.values(), default=0.0)
        if share < OFTEN or not device.clock or not device.clock_max or device.clock > SLOWED * device.clock_max:
            continue
        yield _finding(device, share)


def _finding(device: Device, share: float) -> Finding:
    reason = max(device.throttled, key=lambda name: device.throttled[name])
    clock, most = device.clock or 0.0, device.clock_max or 1.0
    busy = min(1.0, device.busy if device.busy is not None else 1.0)
    speedup = interval(1 / (1 - busy * (1 - clock / most)), UNSURE)
    return Finding(
        id="device-throttled",
        says=(
            f"GPU {device.index} ({device.name}) ran at {clock / 1e6:.0f} of {most / 1e6:.0f} MHz: "
            f"{reason} in {share:.0%} of its busy readings"
        ),
        do=f"find out why the device is held down ({reason}): cooling, power limit, supply",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="busy time shortened by the ratio of the clocks",
        falsified_by="the same samples/s once the clock is back",
        effect="identical",
        evidence={
            "clock_hz": clock,
            "clock_max_hz": most,
            "share_of_busy_readings": share,
            "busy": busy,
            "temperature_degc": device.temperature or 0.0,
            "power_w": device.power or 0.0,
        },
    )
