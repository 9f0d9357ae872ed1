"""Rollouts: what a training that learns from what its policy does in environments is made of, beside learning."""

from collections import deque

from gputune.core.events import ENVIRONMENT_SPAN, POLICY_SPAN, RUNNERS, Record
from gputune.core.units import NS
from gputune.features import Acting
from gputune.gathering.ledger import Ledger

LEARNT_KEPT = 4096  # ends of steps and passes kept: one rollout is learnt from in fewer


class Acted:
    """Listens to one training process: steps of environments, and what lies between them.

    A stretch of them may be told before or after what was learnt behind it: times are compared, and not the order.
    """

    def __init__(self) -> None:
        self._learnt = deque[int](maxlen=LEARNT_KEPT)  # when something was learnt: ends of steps and of passes (ns)
        self._passes = deque[int](maxlen=LEARNT_KEPT)  # when passes began
        self._last = 0  # end of the last stretch
        self._waits = 0  # the same, while no pass has come after it
        self._calls = self._stepped = self._settled = 0
        self._many, self._processes, self._site = 1, 0, 0
        self._runners = False

    def learnt(self, t1: int) -> None:
        """Take the end of an optimizer's step at `t1` (ns)."""
        self._learnt.append(t1)

    def passed(self, record: Record) -> None:
        """Take a backward pass."""
        self._learnt.append(record.t1)
        self._passes.append(record.t0)
        if self._waits and record.t0 >= self._waits:
            self._settled += record.t0 - self._waits
            self._waits = 0

    def take(self, record: Record, ledger: Ledger) -> None:
        """Take a stretch of steps. What comes before it, since something was learnt, is the policy's as well."""
        since = next((t for t in reversed(self._learnt) if t <= record.t0), record.t0)
        ledger.parted(POLICY_SPAN, max(since, self._last), record.t1, {ENVIRONMENT_SPAN: record.a})
        passes = [t for t in self._passes if t >= record.t1]
        self._settled += passes[0] - record.t1 if passes else 0
        self._waits = 0 if passes else record.t1
        self._passes.clear()
        self._last = max(self._last, record.t1)
        self._calls += record.b
        self._stepped += record.a
        self._many, self._site = max(1, record.c), record.e
        self._processes, self._runners = record.code & ~RUNNERS, bool(record.code & RUNNERS)

    @property
    def site(self) -> int:
        """Return the id of the place that the latest steps were asked for at."""
        return self._site

    def told(self, where: str) -> Acting | None:
        """Return what is known of it, None where no environment was stepped."""
        if not self._calls:
            return None
        return Acting(
            calls=self._calls,
            environments=self._many,
            processes=self._processes,
            runners=self._runners,
            step=self._stepped / self._calls / NS,
            settling=self._settled / self._calls / NS,
            where=where,
        )
