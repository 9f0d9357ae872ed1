"""`share.json` of a run folder to the rows of a screen: the processes of `gputune share`, while they run and after."""

from contextlib import suppress
from pathlib import Path

from gputune.feeds.endings import last_words
from gputune.feeds.rows import RunState, ShareRow, harmless
from gputune.verdict.packed import FILE, SCHEMA_VERSION, Packed, ProcRow, read

__all__ = ["FILE", "load", "rows", "words"]

PHASES = {
    "alone": "the first runs alone: its pace and its needs are measured",
    "trying": "copies are tried, to find out how many do most in all",
    "clearing": "the trial copies are ended",
}
ENDED = "ended"
UNKNOWN = "unknown"  # how a process is whose launcher has not told its end
NEVER = "waiting"  # at the end of a run: it was not started
GONE = "the launcher is gone: nobody saw how these ended"


def load(folder: Path) -> Packed | None:
    """Return the document of a run, None where it has none that this gputune understands."""
    found = read(folder)
    return found if found is not None and found.schema_version <= SCHEMA_VERSION else None


def rows(document: Packed, state: RunState) -> tuple[ShareRow, ...]:
    """Return a row a process, of a run in this state."""
    return harmless(tuple(_row(one, state) for one in document.procs))


def _row(one: ProcRow, state: RunState) -> ShareRow:
    known = state == "live" or one.state == ENDED or (one.state == NEVER and state == "ended")
    recent = one.recent if state == "live" and one.state != ENDED else None
    return ShareRow(
        index=one.index,
        name=one.name,
        pid=one.pid or None,
        state="trial" if one.trial and one.state == "running" else one.state if known else UNKNOWN,
        exit_code=one.exit_code if one.state == ENDED else None,
        why=_why(one),
        rate=one.samples_per_s if recent is None else recent,
        unit=one.unit,
        share=one.device_share,
        memory=one.device_memory,
        host_memory=one.host_memory,
        log=_typed(one.log),
    )


def _why(one: ProcRow) -> str:
    """Return what is known of its end: of one that failed also the last line that it has written."""
    failed = one.state == ENDED and one.exit_code not in {None, 0} and bool(one.log)
    last = "".join(last_words(Path(one.log), 1)) if failed else ""
    return " · ".join(filter(None, (one.why, last if last not in one.why else "")))


def _typed(log: str) -> str:
    """Return the path of a log as it would be typed from here."""
    with suppress(ValueError, OSError):
        return str(Path(log).relative_to(Path.cwd()))
    return log


def words(document: Packed, state: RunState) -> str:
    """Return a sentence: what the tasks do now or, once they have ended, what they did together."""
    if document.verdict:
        return harmless(document.verdict)
    if state == "live":
        return PHASES.get(document.phase, "")
    return GONE if document.running else ""
