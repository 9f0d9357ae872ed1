"""A trace of the worst minute for ui.perfetto.dev, or of another stretch of time.

Ranks, workers and counters on one axis, each batch tied to its making, in Chrome's trace format, gzip:
`RUN/perfetto.json.gz`, or `--out FILE`. docs/export.md says what stands where.
"""

import gzip
import heapq
import io
from pathlib import Path

import msgspec

from gputune.core import opening, replacing
from gputune.core.errors import BadUsage
from gputune.core.units import US
from gputune.exporters import ExportRequest, Sent
from gputune.exporters._minute import MINUTE, WAIT, worst
from gputune.exporters._places import EVER, asked, empty, keep, lasted, seats
from gputune.exporters._trace import Seat
from gputune.exporters._tracks import Tracks
from gputune.recording.folder import FINDINGS
from gputune.recording.stretch import Stretch

TAKES = frozenset({"out", "stretch"})
NEEDS: tuple[str, ...] = ()
FILE = "perfetto.json.gz"
FILE_B = 50_000_000  # B of the file: what Perfetto's page opens without ado


class _Startup(msgspec.Struct):
    """As much of `findings.json` as is used."""

    startup_s: float = 0.0


def export(wish: ExportRequest) -> Sent:
    """Write the trace. Raises GputuneError where nothing lies in the stretch, or the file cannot be written."""
    why = replacing.unfit(str(wish.out)) if wish.out else ""
    if why:
        raise BadUsage(f"`--out {wish.out}` {why}", hint="name a file, like `--out trace.json.gz`")
    lost: dict[str, str] = {}
    parts = [Seat(folder, lost) for folder in seats(wish.run)]
    whole = lasted(wish, lost)
    start = whole.since
    chosen = _chosen(wish, parts, whole, lost)
    data, ends = _written(parts, start, chosen)
    if not data:
        raise empty(wish, lost)
    if ends is not None:
        wish.say(
            f"the trace ends at {(ends - start) / US:.0f} s: more is too much for one file; see `--from`, `--until`"
        )
    where = keep(wish, FILE, data)
    until = min(chosen.until, whole.until, ends or whole.until)
    begins = max(chosen.since, start)
    return Sent(to="perfetto", where=str(where), from_s=(begins - start) / US, to_s=(until - start) / US, lost=lost)


def _chosen(wish: ExportRequest, parts: list[Seat], whole: Stretch, lost: dict[str, str]) -> Stretch:
    """Return what was asked for; where nothing was, a minute, and say which."""
    if (wish.since, wish.until) != (None, None):
        return asked(wish, whole, MINUTE)
    if whole.until - whole.since <= MINUTE * US:
        return EVER
    found = [(one, seat) for seat in parts if (one := worst(seat.folder, seat.length, lost)) is not None]
    if found:
        (at, waited), seat = max(found, key=lambda one: one[0].waited)
        begins, told = seat.start + round(at * US), f"it has most {WAIT}, {waited:.0f} s"
    else:
        begins = whole.since + round(_startup(wish.run) * US)
        told = f"the first after start-up: there is no {WAIT}"
    begins = max(whole.since, min(begins, whole.until - MINUTE * US))
    wish.say(f"the minute from {(begins - whole.since) / US:.0f} s on ({told}); `--from` and `--until` take another")
    return Stretch(begins, begins + MINUTE * US)


def _startup(run: Path) -> float:
    try:
        return opening.document(run / FINDINGS, _Startup).startup_s
    except (OSError, msgspec.DecodeError):
        return 0.0


def _written(parts: list[Seat], start: int, chosen: Stretch) -> tuple[bytes, int | None]:
    """Return the file, and up to when it goes (µs) where that is not all of it; no byte without an event."""
    raw, tracks = io.BytesIO(), Tracks()
    told = 0
    # of several recordings what comes first is written first: a trace that is cut off has all ranks
    blocks = heapq.merge(*(seat.events(tracks, start, chosen) for seat in parts), key=lambda block: block.at)
    # Level 5 of gzip: 9 takes four times as long for 6 %
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=5, mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for block in blocks:
            # 0.9 of the largest file: from there on no other segment is begun
            if block.begins and raw.tell() > FILE_B * 0.9:
                ends: int | None = start + told
                break
            file.write((b",\n" if told else b"") + b",\n".join(map(msgspec.json.encode, block.events)))
            file.flush()
            told = max(told, *(event["ts"] for event in block.events))
        else:
            ends = None
        file.write(b"]}\n")
    return raw.getvalue() if told else b"", ends
