"""Devices that were read in a part of the loop only, or never as far as their use goes: what is promised beside them.

One that is lost in the first seconds, or hangs, leaves means of these seconds. No advisor is shown them as those of
the loop, and of a gain beside such a device no more than the low end is said: what it did meanwhile nobody has seen.
"""

from dataclasses import replace

from gputune.core.finding import Finding
from gputune.features import Device, Features
from gputune.verdict import arbitration


def as_read(run: Features) -> Features:
    """Return the run with nothing said of devices that is only known of a part of the loop."""
    if all(device.throughout for device in run.devices):
        return run
    return replace(run, devices=tuple(d if d.throughout else _unknown(d) for d in run.devices))


def _unknown(device: Device) -> Device:
    """Return the device without means over the loop; what it is, what it holds and what broke stay."""
    return replace(
        device,
        busy=None,
        jobs_busy=None,
        clock=None,
        throttled={},
        power=None,
        others={},
        memory=None,
        sm_active=None,
        tensor_active=None,
        dram_active=None,
        received=None,
        sent=None,
    )


def unread(run: Features, finding: Finding, seen: Features) -> Finding:
    """Return the finding with no more than its low end, where a device may hide its gain whose use is not known.

    `run` is what advisors were shown of it, `seen` what was read: the part that was covered bounds the low end.
    """
    if not _is_hidden(finding) or all(device.busy is not None for device in run.devices) or _clocked(run):
        return finding
    gain = finding.speedup
    sure = arbitration.uncovered(seen, finding).speedup
    low = min(gain.low, sure.low)
    least = replace(gain, low=low, likely=low, steady=min(gain.steady, sure.steady), at_least=True)
    basis = f"{finding.basis}; how busy the device was is not known: no more than the low end is promised"
    return replace(finding, speedup=least, share_lost=max(0.0, 1 - 1 / max(1.0, low)), basis=basis)


def _is_hidden(finding: Finding) -> bool:
    """Return whether what a device does meanwhile decides over a gain."""
    group = arbitration.group_of(finding.id)
    return group is not None and group.hidden and not finding.speedup.at_least


def _clocked(run: Features) -> bool:
    """Return whether the work of the devices is known by their own clock, in all processes that train."""
    loops = [process for process in run.processes if process.loop > 0]
    return bool(loops) and all(process.works or process.kernels is not None for process in loops)
