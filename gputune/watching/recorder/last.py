"""The document of a run whose recorder was lost, for whoever waits for the file of `--json`."""

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from gputune.core import opening
from gputune.core.hygiene import mask
from gputune.core.sample import now
from gputune.core.units import NS
from gputune.features import Features, Machine
from gputune.launch.link import Ended
from gputune.launch.run import restored
from gputune.recording.folder import FINDINGS, LIVE, Folder
from gputune.verdict import living
from gputune.verdict.building import Overhead, Verdict, build, to_json
from gputune.verdict.document import RECORDER
from gputune.watching.recorder.outcome import RunOutcome


def hand(fields: "dict[str, object]", ended: Ended, why: str) -> None:
    """Write what is known: the verdict so far where one was made, how the command ended, and why there is no more.

    A document that a recorder has written since the command's end stays: it had said all but the words.
    """
    run = restored(dict(fields))
    run.folder, folder = "", run.folder  # what the recording has to tell, `gputune report` tells
    wanted = bool(run.json) and (run.json == "-" or not _written_since(str(run.json), ended))
    keeps = bool(folder) and not Path(folder, FINDINGS).exists()
    if not (wanted or keeps):
        return
    outcome = RunOutcome(run, ended, alone=False)
    known = _so_far(folder) or _nothing(mask(run.command), why)
    row = build(_features(known.command, why), [], overhead=Overhead()).unavailable
    code = outcome.exit_code
    found = msgspec.structs.replace(known, exit_code=code, unavailable=[*known.unavailable, *row])
    if keeps:
        _keep(Path(folder), found)
    if wanted:
        outcome.hand(found)
        outcome.speak(None, outcome.troubles)


def _keep(folder: Path, found: Verdict) -> None:
    """Leave it beside the recording as well, for whoever judges that again; without one there is none to judge."""
    with suppress(OSError), Folder(folder) as opened:
        opened.write(FINDINGS, to_json(found))


def _written_since(file: str, ended: Ended) -> bool:
    try:
        return Path(file).stat().st_mtime >= time.time() - (now() - ended.t) / NS
    except OSError:
        return False


def _so_far(folder: str) -> Verdict | None:
    """Return the verdict that was kept up to date while it ran, None where there is none that can be read."""
    try:
        return living.decoded(opening.read(Path(folder, LIVE))).whole if folder else None
    except (OSError, msgspec.DecodeError):
        return None


def _nothing(command: tuple[str, ...], why: str) -> Verdict:
    verdict = build(_features(command, why), [], overhead=Overhead())
    return msgspec.structs.replace(verdict, abstained=why, unavailable=[])


def _features(command: "tuple[str, ...] | list[str]", why: str) -> Features:
    cpus = len(os.sched_getaffinity(0))
    machine = Machine(cpus=cpus, cpus_seen=os.cpu_count() or cpus)
    return Features(command=tuple(command), wall=0.0, machine=machine, unavailable={RECORDER: why})
