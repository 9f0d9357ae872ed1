"""What a run takes of its devices: device-seconds, joules and money, and how much of it while nothing was computed.

A device is paid for from the run's start to its end, start-up included, so that is what is counted here; findings are
about the training loop alone.
"""

from dataclasses import dataclass

from gputune.features import Features
from gputune.features.waiting import waited

HOUR = 3600.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpending:
    """Of all devices together. None: not measured, or no price was given. `price` is of one device for an hour.

    `by` says who was found waiting: the `device` (no kernel ran on it), or where none can be read the `training` (it
    waited for batches or wrote something, as `gputune/features/waiting.py` has it).
    """

    by: str
    devices: int
    device_s: float
    waiting_s: float | None
    energy_j: float | None = None
    waiting_j: float | None = None
    samples_per_j: float | None = None
    price: float | None = None

    @property
    def cost(self) -> float | None:
        """Return what the run cost so far, in the currency of the price."""
        return None if self.price is None else self.price * self.device_s / HOUR

    @property
    def waiting_cost(self) -> float | None:
        """Return how much of the cost was for waiting."""
        return None if self.price is None or self.waiting_s is None else self.price * self.waiting_s / HOUR


def spending(run: Features, *, price: float | None = None, samples_per_s: float | None = None) -> DeviceSpending | None:
    """Return what was spent; None where no device was read and nothing is known of its price.

    Energy while waiting is the idle seconds at the power that an idle device drew. Samples per joule are those of the
    training loop, at its mean power. Nothing of it is said where a device was read in a part of the loop only.
    """
    devices = [d for d in run.devices if d.idle is not None]
    if not devices:
        return None if price is None else _of_training(run, price)
    energies = [d.energy for d in devices if d.energy is not None]
    throughout = all(d.throughout for d in devices)  # else they are those of a part of the loop
    drawn = sum(energies) if throughout and len(energies) == len(devices) else None
    idle = [min(d.energy, (d.idle or 0.0) * d.idle_power) for d in devices if d.energy is not None and d.idle_power]
    watts = [d.power for d in devices if d.power]
    every = len(watts) == len(devices)
    return DeviceSpending(
        by="device",
        devices=len(devices),
        device_s=run.wall * len(devices),
        waiting_s=sum(min(run.wall, d.idle or 0.0) for d in devices) if throughout else None,
        energy_j=drawn,
        waiting_j=sum(idle) if throughout and len(idle) == len(devices) else None,
        samples_per_j=samples_per_s / sum(watts) if samples_per_s and every and throughout else None,
        price=price,
    )


def _of_training(run: Features, price: float) -> DeviceSpending:
    """Return what is known where no device can be read: how many there are is not, so the price is the machine's."""
    return DeviceSpending(by="training", devices=1, device_s=run.wall, waiting_s=waited(run), price=price)
