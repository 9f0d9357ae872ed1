"""What `gputune watch --tune` or `--try` did, in a sentence or two: what serves, what it brings, what was tried."""

from gputune.core.hygiene import PHRASE, SENTENCE, clean
from gputune.launch.values import TRYING
from gputune.report.words import times
from gputune.verdict.document import Settings, Tuned, Verdict

LONGER = "; `gputune sweep-loader` starts a script as often as it needs"
IN_BETWEEN = "in the middle of it"


def sentence(verdict: Verdict) -> str:
    """Return it; nothing where nothing was to be tuned."""
    tuned = verdict.tuned
    if tuned is None:
        return ""
    if tuned.state == "kept":
        return _kept(tuned)
    why, tried = clean(tuned.why, SENTENCE), _tried(tuned)
    if tuned.state == "tried":
        return _measured(tuned)
    only_tried = tuned.mode == TRYING
    nothing, unfinished = ("nothing was tried", "not all was tried") if only_tried else ("not tuned", "not tuned")
    ends = {
        "healthy": f"{nothing}: {why}" if only_tried else f"not tuned, and nothing was tried: {why}",
        "refused": f"{nothing}: {why}{tried}",
        "lost": f"tuned, and given up: {why}; the script's own settings serve again",
        "unchanged": f"tuned: nothing is kept, for nothing surely pays{tried}",
        "trying": f"{unfinished}: {_ended(verdict)}, {why or IN_BETWEEN}{tried}{LONGER}",
    }
    return ends.get(tuned.state, f"{nothing}: {why or _too_short(verdict)}")


def settings(wanted: Settings, own: Settings | None = None) -> str:
    """Return settings as they are typed; with `own` only those that differ from these."""
    fields = {name: getattr(wanted, name) for name in Settings.__struct_fields__}
    if not wanted.num_workers:  # what only workers have goes with them
        fields.pop("persistent_workers")
    shown = {n: v for n, v in fields.items() if v is not None and (own is None or v != getattr(own, n))}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _kept(tuned: Tuned) -> str:
    if tuned.now is None or tuned.speedup is None:
        return ""
    since = "" if tuned.since_batch is None else f", since batch {tuned.since_batch:,}"
    said = (
        f"tuned: {settings(tuned.now, tuned.own)} at {clean(tuned.where, PHRASE)}{since}: {times(tuned.speedup)} "
        f"the script's own settings, measured in turn ({_number(tuned)} tried)"
    )
    return f"{said}; {clean(tuned.differs, SENTENCE)}" if tuned.differs else said


def _measured(tuned: Tuned) -> str:
    """Return what was measured by `--try`."""
    if tuned.best is None or tuned.speedup is None:
        return f"tried: nothing came of it{_tried(tuned)}"
    return (
        f"tried: {settings(tuned.best, tuned.own)} at {clean(tuned.where, PHRASE)}: {times(tuned.speedup)} "
        f"the script's own settings, measured in turn ({_number(tuned)} tried); its own serve again"
    )


def _tried(tuned: Tuned) -> str:
    """Return what was tried with what came of it, nothing where nothing was."""
    if not tuned.tries:
        return ""
    measured = [row for row in tuned.tries if row.state == "ok" and row.samples_per_s is not None]
    failed = [row for row in tuned.tries if row.state != "ok"]
    if not measured:
        first = f"{settings(failed[0].settings, tuned.own)} failed: {clean(failed[0].why, SENTENCE)}"
        return f"; {_number(tuned)} tried, and {first}"
    gain = f", the best at {times(tuned.speedup)}" if tuned.speedup is not None else ""
    return f"; {_number(tuned)} tried{gain}"


def _number(tuned: Tuned) -> str:
    count = len({settings(row.settings) for row in tuned.tries})
    return "1 setting" if count == 1 else f"{count} settings"


def _too_short(verdict: Verdict) -> str:
    if not any(loader.training for loader in verdict.loaders):
        return "no DataLoader was iterated for training"
    return f"{_ended(verdict)}, before anything could be told of its loader{LONGER}"


def _ended(verdict: Verdict) -> str:
    return f"it ended after {verdict.batches:,} batches"
