"""The device runs below its clocks because something holds them down.

What it sees: NVML's clock event reasons and the SM clock while the device was busy, against its highest clock; the
power limit against the one that the device was built for.

Why it matters: kernels take longer by the ratio of the clocks, whatever the software does.

What to do: thermal reasons: airflow, fan curve, neighbours in the chassis. Power brake: the supply. A power limit that
was set lower than the device's own: `nvidia-smi -q -d POWER`, and whoever set it. Ask the operator with the reason and
the share named here.

When it is wrong: when the load is so uneven that clocks never settle; memory-bound kernels lose less than the clocks
say. A device at its own power limit runs below its highest clock all day, which is how it was built: of that nothing is
said, and where heat or the supply hold it down as well, part of what is promised is the power limit's.

Sources: NVML API reference, nvmlClocksEventReasons, nvmlDeviceGetPowerManagementDefaultLimit.
"""

from collections.abc import Iterator, Mapping

from gputune.core.figures import REASONS
from gputune.core.finding import Finding
from gputune.features import Device, Features
from gputune.model.prediction import interval
from gputune.model.workload import busy_of

OFTEN = 0.2  # of the busy readings with a reason: rarer ones are the clock's ordinary play
SLOWED = 0.9  # of the highest clock: small losses are the clock's ordinary play
LOWERED = 0.95  # of the default power limit: a card that is held to less is held there by a setting
UNSURE = 0.1  # relative: how far kernels follow the clock depends on what they are bound by
POWER_CAP = REASONS[0x4]


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        faults = _faults(device)
        share = max(faults.values(), default=0.0)
        if share < OFTEN or not device.clock or not device.clock_max or device.clock > SLOWED * device.clock_max:
            continue
        yield _finding(run, device, faults)


def _faults(device: Device) -> Mapping[str, float]:
    """Return the reasons that nobody wants: a device at its own power limit gives that one whenever it works hard."""
    if _lowered(device):
        return device.throttled
    return {reason: share for reason, share in device.throttled.items() if reason != POWER_CAP}


def _lowered(device: Device) -> bool:
    """Return whether the device is known to be held to less power than it was built for."""
    limit, default = device.power_limit, device.power_default
    return bool(limit and default and limit < LOWERED * default)


def _finding(run: Features, device: Device, faults: Mapping[str, float]) -> Finding:
    reason = max(faults, key=lambda name: faults[name])
    clock, most = device.clock or 0.0, device.clock_max or 1.0
    known = busy_of(run, device)
    busy = min(1.0, known if known is not None else 1.0)
    speedup = interval(1 / (1 - busy * (1 - clock / most)), UNSURE)
    limit, default = device.power_limit or 0.0, device.power_default or 0.0
    capped = reason == POWER_CAP
    return Finding(
        id="device-throttled",
        says=(
            f"GPU {device.index} ({device.name}) ran at {clock / 1e6:.0f} of {most / 1e6:.0f} MHz: "
            f"{reason} in {faults[reason]:.0%} of its busy readings"
            + (f", and it is held to {limit:.0f} of its {default:.0f} W" if capped else "")
        ),
        do=(
            f"find out who set the power limit to {limit:.0f} W (`nvidia-smi -q -d POWER`); its own is {default:.0f} W"
            if capped
            else f"find out why the device is held down ({reason}): cooling, power limit, supply"
        ),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="busy time shortened by the ratio of the clocks",
        falsified_by="the same samples/s once the clock is back",
        effect="identical",
        evidence={
            "clock_hz": clock,
            "clock_max_hz": most,
            "share_of_busy_readings": faults[reason],
            "busy": busy,
            "temperature_degc": device.temperature or 0.0,
            "power_w": device.power or 0.0,
            **({"power_limit_w": limit, "power_default_w": default} if limit and default else {}),
        },
    )
