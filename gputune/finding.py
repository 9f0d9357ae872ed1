"""One conclusion of one advisor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Effect = Literal["identical", "same-order", "changes-order", "changes-learning", "may-duplicate"]
Setting = int | float | bool | str


class Severity(Enum):
    """How much a cause costs: it follows the predicted gain, never a share alone."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Predicted samples/s after the change over samples/s before it, as an interval (ratios, 1 = no change)."""

    low: float
    likely: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.likely <= self.high:
            raise ValueError(f"not an interval: {self.low} {self.likely} {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conclusion, in words a person can act on, with the numbers it rests on.

    A finding knows nothing of terminals, files or thresholds. The advisor decides whether to speak, the
    report and the screen decide how it looks. `share_lost` is the share of the training's wall time that
    the change would give back. `basis` says how the speed-up was computed, `falsified_by` what would prove
    the finding wrong, `effect` what the change does to the training's results.
    """

    id: str
    says: str
    do: str
    share_lost: float
    speedup: Speedup
    basis: str
    falsified_by: str
    effect: Effect
    evidence: Mapping[str, float]
    where: str = ""
    change: Mapping[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"a finding without a number is an opinion: {self.says!r}")

    @property
    def severity(self) -> Severity:
        """Return the severity that the predicted gain deserves."""
        if self.speedup.likely >= SEVERE:
            return Severity.HIGH
        return Severity.MEDIUM if self.speedup.likely >= NOTABLE else Severity.LOW


SEVERE = 1.25  # a quarter more samples/s is worth stopping a running training for
NOTABLE = 1.08  # below it, worth changing only before the next run
