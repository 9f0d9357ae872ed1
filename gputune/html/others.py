"""What lies in a folder that is no run of its own: a proof, or the sweeps of one script or several."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gputune.core import opening
from gputune.html.parts import MOST, proven
from gputune.proving import proof
from gputune.sweep import result
from gputune.sweep.result import Sweep


class Other(NamedTuple):
    """What is to be said of it, and its document."""

    words: str
    document: bytes


def read(folder: Path) -> Other | None:
    """Return what is said of a folder that is no run; None where it is nothing of ours."""
    made = proven(folder)
    if made is not None:
        return Other(proof.words(made), proof.to_json(made))
    found = sweeps(folder)
    if not found:
        return None
    words = "\n\n".join(result.words(sweep, name) for name, sweep in found.items())
    own = found.get(folder.name) if len(found) == 1 else None
    return Other(words, result.to_json(own) if own else msgspec.json.encode(found) + b"\n")


def sweeps(folder: Path) -> Mapping[str, Sweep]:
    """Return the sweeps in a folder by their names: its own, or those of several scripts."""
    own = _sweep(folder)
    if own is not None:
        return {folder.name: own}
    below = {each.name: _sweep(each) for each in sorted(_folders(folder))[:MOST]}
    return {name: found for name, found in below.items() if found is not None}


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return []


def _sweep(folder: Path) -> Sweep | None:
    try:
        return opening.document(folder / result.FILE, Sweep)
    except (OSError, msgspec.DecodeError):
        return None
