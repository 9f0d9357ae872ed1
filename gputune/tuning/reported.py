"""What is told of the tuning of one run, at any moment: the part `tuned` of the document."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gputune.core.finding import Speedup
from gputune.experiment.starting import State
from gputune.sweep.choosing import SettingStats
from gputune.sweep.search import Found
from gputune.sweep.settings import LoaderSetting
from gputune.tuning.draws import Draws
from gputune.verdict.document import Settings, SpeedupRow, TriedRow, Tuned, alike

WAITING = "waiting"  # too little is known yet
HEALTHY = "healthy"  # nothing needs to be tried, and nothing was
TRYING = "trying"  # settings are being measured
KEPT = "kept"  # better settings serve
UNCHANGED = "unchanged"  # nothing that was tried pays: the script's own settings serve
TRIED = "tried"  # something was measured that was not to be kept: the script's own settings serve again
REFUSED = "refused"  # it cannot be tuned
LOST = "lost"  # better settings served, and had to be given up


@dataclass(slots=True)
class TuningStory:
    """What has happened so far; `document` may be asked for by another thread."""

    mode: str
    state: str = WAITING
    why: str = ""
    where: str = ""
    own: LoaderSetting | None = None
    now: LoaderSetting | None = None
    best: LoaderSetting | None = None  # of those that were tried
    gain: Speedup | None = None  # of that one
    measuring: LoaderSetting | None = None  # while settings are tried
    since: float | None = None  # s of the run
    tried_from: float | None = None  # likewise
    batch: int | None = None
    differs: str = ""
    draws: list[str] = field(default_factory=list)
    tries: tuple[TriedRow, ...] = ()

    def drawn(self, draws: Draws) -> None:
        """Learn of random numbers that samples draw."""
        self.draws = sorted(draws.of)

    def found(self, found: Found) -> None:
        """Learn what was measured so far."""
        measured = [_measured(stats, found.predicted) for s, stats in found.all_stats.items() if s != self.own]
        failed = [
            _tried(wanted, found.predicted, state="failed", why=outcome.why or "too few batches came")
            for wanted, outcome in found.failed.items()
        ]
        self.tries = (*measured, *failed)

    @property
    def _doing(self) -> str:
        """Return what is under way, in words; nothing where nothing is."""
        if self.state != TRYING or self.measuring is None:
            return ""
        return f"measuring {replace(self.measuring, batch_size=None).words()}"

    def document(self) -> Tuned:
        """Return it as it stands."""
        gain = self.gain
        return alike(
            Tuned,
            self,
            why=self.why or self._doing,
            own=None if self.own is None else alike(Settings, self.own),
            now=None if self.now is None else alike(Settings, self.now),
            best=None if self.best is None else alike(Settings, self.best),
            speedup=None if gain is None else alike(SpeedupRow, gain),
            tries=list(self.tries),
            since_s=self.since,
            since_batch=self.batch,
            tried_from_s=self.tried_from,
        )


def _settings(wanted: LoaderSetting) -> Settings:
    return alike(Settings, wanted)


def _measured(stats: SettingStats, predicted: Mapping[LoaderSetting, float]) -> TriedRow:
    return _tried(stats.setting, predicted, rate=stats.rate, low=stats.low, high=stats.high)


def _tried(  # noqa: PLR0913 - one parameter a field
    wanted: LoaderSetting,
    predicted: Mapping[LoaderSetting, float],
    *,
    rate: float | None = None,
    low: float | None = None,
    high: float | None = None,
    state: str = State.OK.value,
    why: str = "",
) -> TriedRow:
    return TriedRow(
        settings=_settings(wanted),
        predicted=predicted.get(wanted),
        samples_per_s=rate,
        low=low,
        high=high,
        state=state,
        why=why,
    )
