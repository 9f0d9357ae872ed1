"""A trace of the worst minute for ui.perfetto.dev, or of another stretch of time.

Ranks, workers and counters on one axis, each batch tied to its making, in Chrome's trace format, gzip:
`RUN/perfetto.json.gz`, or `--out FILE`. docs/export.md says what stands where.
"""

import gzip
import heapq
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gputune import opening, replacing
from gputune.errors import BadUsage, GputuneError
from gputune.exporters import Sent, Wish
from gputune.exporters._minute import MINUTE, worst
from gputune.exporters._places import keep, seats
from gputune.exporters._trace import Seat
from gputune.exporters._tracks import Event, Tracks
from gputune.recording import stretch
from gputune.recording.folder import FINDINGS
from gputune.recording.stretch import Stretch

TAKES = frozenset({"out", "stretch"})
NEEDS: tuple[str, ...] = ()
FILE = "perfetto.json.gz"
LARGEST = 50_000_000  # B of the file: what Perfetto's page opens without ado
WAIT = "loader.wait"
US = 1_000_000


class _Startup(msgspec.Struct):
    """As much of `findings.json` as is used."""

    startup_s: float = 0.0


def export(wish: Wish) -> Sent:
    """Write the trace. Raises GputuneError where nothing lies in the stretch, or the file cannot be written."""
    why = replacing.unfit(str(wish.out)) if wish.out else ""
    if why:
        raise BadUsage(f"`--out {wish.out}` {why}", hint="name a file, like `--out trace.json.gz`")
    lost: dict[str, str] = {}
    parts = [Seat(folder, lost) for folder in seats(wish.run)]
    start = min(seat.start for seat in parts)
    chosen = _chosen(wish, parts, start, lost)
    data, ends = _written(parts, start, chosen)
    if ends is not None:
        wish.say(
            f"the trace ends at {(ends - start) / US:.0f} s: more is too much for one file; see `--from`, `--until`"
        )
    where = keep(wish, FILE, data)
    until = (min(chosen.until, ends or chosen.until) - start) / US
    return Sent(to="perfetto", where=str(where), from_s=(chosen.since - start) / US, to_s=until, lost=lost)


def _chosen(wish: Wish, parts: list[Seat], start: int, lost: dict[str, str]) -> Stretch:
    """Return what was asked for; where nothing was, a minute, and say which."""
    spans = [span for seat in parts if (span := stretch.span(seat.folder, lost)) is not None]
    if not spans:
        raise GputuneError(
            f"`{wish.typed}` holds no readings", hint="it ended before anything was read, or still begins"
        )
    ended = max(end for _, end in spans) + 1
    since, until = wish.since, wish.until
    if since is not None and start + since * US >= ended:
        says = f"`--from {since:g}` lies behind the end of the run, which lasted {(ended - start) / US:.1f} s"
        raise BadUsage(says, hint=f"`gputune export {wish.typed} --to perfetto` finds the worst minute itself")
    if since is None and until is None:
        return _worst(wish, parts, start, ended)
    begin = max(0.0, (until or 0.0) - MINUTE / US) if since is None else since
    end = begin + MINUTE / US if until is None else until
    return Stretch(start + round(begin * US), min(ended, start + round(end * US)))


def _worst(wish: Wish, parts: list[Seat], start: int, ended: int) -> Stretch:
    if ended - start <= MINUTE:
        return Stretch(start, ended)
    found = worst(heapq.merge(*(stretch.column(seat.folder, WAIT, seat.lost) for seat in parts)))
    begins = max(start, found.begins if found else start + round(_startup(wish.run) * US))
    told = (
        f"the minute with most {WAIT}, {found.waited:.0f} s of it" if found else "the first one after start-up: no wait"
    )
    wish.say(f"from {(begins - start) / US:.0f} s on: {told}; `--from` and `--until` take another")
    return Stretch(begins, min(ended, begins + MINUTE))


def _startup(run: Path) -> float:
    try:
        return opening.document(run / FINDINGS, _Startup).startup_s
    except (OSError, msgspec.DecodeError):
        return 0.0


def _written(parts: list[Seat], start: int, chosen: Stretch) -> tuple[bytes, int | None]:
    """Return the file, and up to when it goes (µs) where that is not all that was asked for."""
    raw = io.BytesIO()
    ends = None
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        first = True
        for events in _events(parts, start, chosen):
            file.write(b"" if first else b",\n")
            file.write(b",\n".join(map(msgspec.json.encode, events)))
            first = False
            if raw.tell() > LARGEST * 0.9:
                ends = start + max(event["ts"] for event in events)
                break
        file.write(b"]}\n")
    return raw.getvalue(), ends


def _events(parts: list[Seat], start: int, chosen: Stretch) -> Iterator[list[Event]]:
    tracks = Tracks()
    for seat in parts:
        yield from seat.events(tracks, start, chosen)
