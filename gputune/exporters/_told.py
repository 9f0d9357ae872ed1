"""What trackers are told of a run, and which of their runs it belongs to."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.exporters import ExportRequest
from gputune.exporters._places import seats
from gputune.recording.about import read
from gputune.recording.folder import FINDINGS, REPORT
from gputune.report.kept import decoded
from gputune.report.rejudging import Way, rejudge
from gputune.report.told import told_of
from gputune.verdict.building import to_json
from gputune.verdict.document import SpeedupRow, Verdict

KEY = "gputune"  # in front of every name that a tracker gets
HEAD = ("finding", "severity", "share_lost", "low", "likely", "high", "says", "do", "where", "effect", "basis")


@dataclass(frozen=True, slots=True)
class ExportedVerdict:
    """A verdict: as it is kept, in flat values (None left out), and its findings as a table."""

    verdict: Verdict
    document: bytes
    page: Path | None

    @property
    def summary(self) -> dict[str, float | str]:
        """Return the flat values by the names that a tracker gets."""
        found = {f"{KEY}/{name}": value for name, value in told_of(self.verdict).items()}
        return {
            name: value if isinstance(value, str) else float(str(value))
            for name, value in found.items()
            if value is not None
        }

    @property
    def rows(self) -> list[list[str | float]]:
        """Return a row of `HEAD` for each finding."""
        return [
            [f.id, f.severity, f.share_lost, *_gain(f.speedup), f.says, f.do, f.where, f.effect, f.basis]
            for f in self.verdict.findings
        ]

    @contextlib.contextmanager
    def files(self) -> Iterator[list[Path]]:
        """Give the files that go along: the verdict, and the page where there is one."""
        with tempfile.TemporaryDirectory(prefix="gputune-export-") as folder:
            file = Path(folder, FINDINGS)
            file.write_bytes(self.document)
            yield [file, *([self.page] if self.page is not None else [])]


def _gain(speedup: SpeedupRow) -> tuple[float, float, float]:
    return speedup.low, speedup.likely, speedup.high


def told(wish: ExportRequest, lost: dict[str, str]) -> ExportedVerdict:
    """Return the verdict at the end of a run, as it was given; of one without it, what can be said by now."""
    page = wish.run / REPORT
    page_there = page if page.is_file() and not page.is_symlink() else None
    with contextlib.suppress(OSError, msgspec.DecodeError):
        document = opening.read(wish.run / FINDINGS)
        return ExportedVerdict(decoded(document, wish.run), document, page_there)
    verdict = rejudge(wish.run, way=Way(lost=lost))
    if verdict.exit_code is None:
        wish.say("the run goes on, or was cut off: this is its verdict so far")
    return ExportedVerdict(verdict, to_json(verdict), page_there)


def noted(wish: ExportRequest, kind: str) -> dict[str, Any] | None:
    """Return what was noted of the run that the script logs to, by the lowest rank; None where it logs to none."""
    found = [note for seat in seats(wish.run) for note in _notes(seat) if note.get("kind") == kind]
    if len(found) > 1:
        wish.say(
            f"the script logs to {len(found)} runs of {kind}: the first is told, `{clean(str(found[0].get('id')))}`"
        )
    return found[0] if found else None


def _notes(seat: Path) -> list[dict[str, Any]]:
    """Return the notes on trackers of one recording, those of the lowest rank first."""
    processes = read(seat).get("processes")
    known = [p for p in processes if isinstance(p, dict)] if isinstance(processes, list) else []
    notes: list[tuple[int, dict[str, Any]]] = []
    for process in known:
        said = process.get("notes")
        of = [note for note in said if isinstance(note, dict)] if isinstance(said, list) else []
        ranks = [note["rank"] for note in of if note.get("n") == "process" and isinstance(note.get("rank"), int)]
        notes += [(int(str(ranks[-1])) if ranks else 0, note) for note in of if note.get("n") == "tracker"]
    return [note for _, note in sorted(notes, key=lambda note: note[0])]


def check_address(wish: ExportRequest, name: str, address: str, here: tuple[str, str]) -> None:
    """Raise Elsewhere where a run would be told at a place that somebody else may have written into its folder.

    `here`: the variable that says where a tracker is, and what it, or the tracker's settings, say now. Who is asked
    for a run gets a key or a password of the user's; so another place is named by the user alone.
    """
    variable, configured = here
    if wish.own or address.rstrip("/") == configured.rstrip("/"):
        return
    scheme, sign, rest = address.partition("://")
    local = Path(rest if sign else address)
    if sign and scheme not in {"file", "sqlite"}:
        raise Elsewhere(name, f"`{clean(address)}`, and not where this gputune looks", f"{variable}={address}", wish)
    if not opening.is_mine(local):
        raise Elsewhere(name, f"`{clean(str(local))}`, which is not there, or not yours", f"{variable}={address}", wish)


class Elsewhere(GputuneError):  # noqa: N818 - named for what happened
    """The script's run is at a place that the user has not named."""

    def __init__(self, name: str, where: str, setting: str, wish: ExportRequest) -> None:
        hint = f"if that is right: `{clean(setting)} gputune export {clean(wish.typed)} --to {name}`"
        super().__init__(f"the script's run of {name} is at {where}", hint=hint)


class TrackerRefused(GputuneError):  # noqa: N818 - named for what happened
    """A tracker would not take it."""

    def __init__(self, name: str, error: BaseException, hint: str) -> None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        super().__init__(f"{name} was not told: {clean(lines[0] if lines else type(error).__name__, 300)}", hint=hint)


@contextlib.contextmanager
def asking(name: str, hint: str) -> Iterator[None]:
    """Do what a tracker's own package does: it prints to stderr, and what it raises is one sentence."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except GputuneError:
        raise
    except Exception as error:  # each package has errors of many kinds, and the network more
        raise TrackerRefused(name, error, hint) from error
