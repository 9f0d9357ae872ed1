"""A row for each run, and the document of `gputune runs --json`. docs/compare.md describes it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gputune.core.errors import GputuneError
from gputune.core.hygiene import as_text, clean
from gputune.runs.jobs import job_of
from gputune.runs.labels import label
from gputune.runs.one import GOES_ON, KILLED, KeptRun, kept
from gputune.runs.size import taken
from gputune.runs.whereabouts import live_runs
from gputune.verdict.document import Verdict

UNREADABLE = "unreadable"  # of a newer version, damaged, or somebody else's: `why` says it


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `started` and `changed` (of the last file that was written) are s of Unix time.

    `state` is live, ended, killed (nobody told how it ended) or unreadable, for the reason in `why`. `finding` is the
    best of `findings`, with its likely `gain`; null and empty where there is none, or no verdict was kept.
    """

    name: str
    folder: str
    state: str
    why: str = ""
    started: float | None = None
    changed: float
    wall_s: float | None = None
    exit_code: int | None = None
    samples_per_s: float | None = None
    finding: str = ""
    gain: float | None = None
    findings: list[str] = []
    label: str = ""
    job: str = ""
    bytes: int
    foreign: bool = False


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The document."""

    schema_version: int = 1
    runs: list[Row]


def rows(folders: Iterable[Path]) -> list[Row]:
    """Return a row for each of these runs, the oldest first."""
    live = {folder.resolve() for folder in live_runs()}
    found = [row(folder, live) for folder in folders]
    return sorted(found, key=lambda each: (each.started or each.changed, each.name))


def row(folder: Path, live: Iterable[Path] = ()) -> Row:
    """Return the row of one run; `live` are those whose recorders are known to be at work."""
    size = taken(folder)
    blank = Row(
        name=clean(folder.resolve().name, 80),  # characters of a name
        folder=as_text(str(folder)),
        state=UNREADABLE,
        label=label(folder),
        changed=size.changed,
        bytes=size.bytes,
        foreign=bool(size.foreign),
    )
    try:
        one = kept(folder)
        told = _told(one, one.told())
    except GputuneError as error:
        return replace(blank, why=clean(str(error.args[0])))
    state = GOES_ON if one.state == KILLED and folder.resolve() in live else one.state
    return replace(blank, **told, state=state, started=one.started, job=_job(one))


def _job(one: KeptRun) -> str:
    """Return what its batch system or launcher calls the job."""
    said = one.about.get("job")
    return clean(str(said.get("id") or "")) if isinstance(said, dict) else job_of(one.about, one.place, ())


def _told(one: KeptRun, verdict: Verdict | None) -> dict[str, object]:
    """Return what its verdict says; without one, how it ended."""
    if verdict is None:
        code = one.about.get("exit_code")
        return {"exit_code": code if isinstance(code, int) else None}
    best = verdict.findings[0] if verdict.findings else None
    return {
        "wall_s": verdict.wall_s,
        "exit_code": verdict.exit_code,
        "samples_per_s": verdict.samples_per_s,
        "finding": clean(best.id) if best else "",
        "gain": best.speedup.likely if best else None,
        "findings": [clean(each.id) for each in verdict.findings],
    }
