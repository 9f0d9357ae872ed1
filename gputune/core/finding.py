"""One conclusion of one advisor."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

Effect = Literal[
    "identical", "same-order", "changes-order", "changes-rounding", "changes-learning", "may-duplicate", "unknown"
]
Setting = int | float | bool | str
# What can be set as a DataLoader is built, without an edit of the script; every other change is one of the script.
WITHOUT_EDIT = frozenset(
    {"num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size", "in_order"}
)
TOGETHER = frozenset({"threads"})  # what is set in the script, and without which the rest of a change may harm
ERROR = 0.05  # the model's own error, and what two runs of one training differ by (docs/evidence.md)
MOST_TIMES = 100.0  # times as fast: beyond it, what was left out of the model sets the pace
LEAST_TIMES = 0.01  # likewise, where a change would be that much slower
AROUND = frozenset({"busy-host"})  # makes every second longer: it takes none from the cause that is in the run itself


class Severity(Enum):
    """How much a cause costs, or how soon a risk comes true: never a share alone."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Predicted samples/s after the change over samples/s before it, as an interval (ratios, 1 = no change).

    `steady` is the low end if steps keep the pace that they have, where that is higher: that CPUs are now fast, now
    slow, or that rounds between saved models are not those of a run without, makes the comparison of two runs less
    sure, and the cause no less so. `at_least` says that nothing in the run tells
    more than the low end: the others are what such changes have brought elsewhere, and no prediction.
    """

    low: float
    likely: float
    high: float
    steady: float = 0.0
    at_least: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.likely <= self.high:
            raise ValueError(f"not an interval: {self.low} {self.likely} {self.high}")

    @property
    def sure(self) -> float:
        """Return the gain by which it is decided whether to speak."""
        return max(self.low, self.steady)

    @property
    def promised(self) -> bool:
        """Return whether it stands as a promise: worth saying if steps keep their pace, and in no case a loss."""
        return self.sure >= WORTH_SAYING and self.low >= 1

    def down_to(self, least: "Speedup") -> "Speedup":
        """Return it with the low ends of another one, where those are lower."""
        return replace(self, low=min(self.low, least.low), steady=min(self.sure, least.sure))


def interval(likely: float, width: float, unsteady: float = 0.0) -> Speedup:
    """Return a speed-up with a relative half-width, widened by what the machine was unsteady."""
    likely = min(max(likely, LEAST_TIMES), MOST_TIMES)
    low, steady = (max(LEAST_TIMES, likely * (1 - wide)) for wide in (width + unsteady, width))
    return Speedup(low=low, likely=likely, high=likely * (1 + width + unsteady), steady=steady)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conclusion, in words a person can act on, with the numbers it rests on.

    A finding knows nothing of terminals, files or thresholds. The advisor decides whether to speak, the
    report and the screen decide how it looks. `share_lost` is the share of the training's wall time that
    the change would give back. `basis` says how the speed-up was computed, `falsified_by` what would prove
    the finding wrong, `effect` what the change does to the training's results, and `because` on what of this run that
    rests, where it does (docs/effects.md).

    Not every finding is about speed. `risk` is what will happen and when, in words with numbers, and `due` the same
    in s from the end of what was measured: 0 once it has happened, None where it hangs on the data and not on time.
    `offer` is what could be had although nothing is wrong. Either may leave the speed as it is (`NO_CHANGE`).

    Of a `change` of which a part is one of the script, `part` is what its settings bring by themselves that can be
    set without an edit: None where that is not known.
    """

    id: str
    says: str
    do: str
    share_lost: float
    speedup: Speedup
    basis: str
    falsified_by: str
    effect: Effect
    because: str = ""
    evidence: Mapping[str, float]
    where: str = ""
    risk: str = ""
    due: float | None = None
    offer: str = ""
    change: Mapping[str, Setting] = field(default_factory=dict)
    part: Speedup | None = None

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"a finding without a number is an opinion: {self.says!r}")
        if self.risk and self.offer:
            raise ValueError(f"a risk is nothing to offer: {self.says!r}")

    @property
    def settable(self) -> Mapping[str, Setting]:
        """Return what of the change can be set as a loader is built; nothing where that is no good by itself."""
        if TOGETHER & self.change.keys():
            return {}
        return {name: value for name, value in self.change.items() if name in WITHOUT_EDIT}

    @property
    def severity(self) -> Severity:
        """Return the severity that the predicted gain deserves, or a risk by how soon it comes true."""
        if self.risk:
            return _by_due(self.due)
        if self.speedup.likely >= SEVERE:
            return Severity.HIGH
        return Severity.MEDIUM if self.speedup.likely >= NOTABLE else Severity.LOW


def _by_due(due: float | None) -> Severity:
    if due is None:
        return Severity.MEDIUM
    return Severity.HIGH if due <= SOON else Severity.MEDIUM if due <= TODAY else Severity.LOW


NO_CHANGE = Speedup(low=1.0, likely=1.0, high=1.0)  # of a risk or an offer that leaves the pace of the run as it is
WAITING = 0.05  # of the loop in next(): below it no change to a loader can give back what is worth saying
WORTH_SAYING = 1.05  # predicted samples/s at the low end: below five percent, noise and effort eat the gain
HALF = 0.5  # of what a change is for: so much is surely gone with it, where nobody has measured how much
UNUSED = 0.02  # busy share: below it the job does not compute on this device, or a display server alone does
SOON = 3600.0  # s: nobody may be looking again before then
TODAY = 86400.0  # s: of what comes later there will be another verdict in time
SEVERE = 1.25  # a quarter more samples/s is worth stopping a running training for
NOTABLE = 1.08  # below it, worth changing only before the next run
