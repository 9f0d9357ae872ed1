"""What `watch --tune` or `--try` does to a loader: how far it is, what serves, and a row a setting that was tried."""

from gputune.tui import words
from gputune.tui.lines import Canvas, Line, fit, line, paragraph, titled
from gputune.verdict.document import Settings, TriedRow, Tuned

ROLES = {"kept": "good", "lost": "warn", "refused": "warn"}
OWN_SERVE = "the script's own settings serve"
IN_BETWEEN = "in the middle of it"


def tuned_lines(tuned: Tuned | None, look: Canvas, *, live: bool) -> list[Line]:
    """Return the section; nothing of a run that was not to be tuned. `live`: it goes on, and so may the tuning."""
    if tuned is None:
        return []
    title = " TUNING" if live and tuned.state in {"waiting", "trying"} else " TUNED"
    option = {"all": "--tune ", "try": "--try "}.get(tuned.mode, f"--tune={tuned.mode} ")
    lines = [titled(title, look.width, option)]
    lines += paragraph(_says(tuned, live=live), look.width - 1, ROLES.get(tuned.state, ""), " ")
    if tuned.differs and tuned.tries:
        lines += paragraph(tuned.differs, look.width - 1, "dim", " ")
    return [*lines, *_tries(tuned, look)] if tuned.tries else lines


def _says(tuned: Tuned, *, live: bool) -> str:
    """Return in a sentence how it stands."""
    if tuned.state == "kept" and tuned.now is not None:
        since = f" since {words.clock(tuned.since_s)}" if tuned.since_s is not None else ""
        return f"{_words(tuned.now)} serves at {tuned.where}{since}{_gain(tuned)}"
    ways = {
        "healthy": f"{OWN_SERVE}, and no others were tried: {tuned.why}",
        "refused": f"{OWN_SERVE}: {tuned.why}",
        "unchanged": f"{OWN_SERVE}: nothing that was tried surely pays",
        "tried": f"{OWN_SERVE} again; {_words(tuned.best)} at {tuned.where}{_gain(tuned)}" if tuned.best else OWN_SERVE,
        "lost": f"{OWN_SERVE} again: {tuned.why}",
        "trying": f"settings are being tried at {tuned.where}" if live else f"it ended, {tuned.why or IN_BETWEEN}",
    }
    return ways.get(tuned.state, "waits for batches enough" if live else "it ended before anything could be told")


def _gain(tuned: Tuned) -> str:
    gain = tuned.speedup
    if gain is None:
        return ""
    return f": {words.interval(gain.low, gain.likely, gain.high)} the script's own settings, measured in turn"


def _words(wanted: Settings) -> str:
    """Return settings as they are typed."""
    pairs = ((name, getattr(wanted, name)) for name in Settings.__struct_fields__)
    return " ".join(f"{name}={value}" for name, value in pairs if value is not None and value is not False)


def _tries(tuned: Tuned, look: Canvas) -> list[Line]:
    """Return what was tried, a row a setting, with samples/s."""
    head = " WORKERS PREFETCH PINNED PREDICTED  MEASURED"
    return [line((fit(head, look.width), "section")), *(_row(row, tuned.now, look) for row in tuned.tries)]


def _row(row: TriedRow, now: Settings | None, look: Canvas) -> Line:
    wanted = row.settings
    prefetch = "–" if wanted.prefetch_factor is None else str(wanted.prefetch_factor)
    pinned = "yes" if wanted.pin_memory else "no"
    text = f" {wanted.num_workers:>7} {prefetch:>8} {pinned:>6} {words.pace(row.predicted):>9} "
    if row.state != "ok":
        return line((text, ""), (fit(f"{row.state}: {row.why}", max(8, look.width - len(text))), "bad"))
    spread = f" ({words.pace(row.low)}–{words.pace(row.high)})" if row.low is not None and row.high is not None else ""
    measured = f"{words.pace(row.samples_per_s):>9}{spread}"
    return line((text + measured, ""), ("  serves" if wanted == now else "", "good"))
