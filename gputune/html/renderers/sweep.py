"""The sweeps of one script or several: which settings of its loader are fastest."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gputune.core import opening
from gputune.html import engine
from gputune.html.parts import MOST
from gputune.sweep import result
from gputune.sweep.result import Sweep
from gputune.verdict.document import to_json


class SweptFolder(NamedTuple):
    """Sweeps by their names. `own`: the one that is the folder's own, and no script's of several."""

    named: Mapping[str, Sweep]
    own: Sweep | None = None


def read(folder: Path) -> SweptFolder | None:
    """Return the sweeps in a folder: its own, or those of several scripts; None where there are none."""
    own = _sweep(folder)
    if own is not None:
        return SweptFolder({folder.name: own}, own)
    below = {each.name: _sweep(each) for each in sorted(_folders(folder))[:MOST]}
    named = {name: found for name, found in below.items() if found is not None}
    return SweptFolder(named) if named else None


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


def words(found: SweptFolder) -> str:
    """Return what each came to."""
    return "\n\n".join(result.words(sweep, name) for name, sweep in found.named.items())


def document(found: SweptFolder) -> bytes:
    """Return the document of the folder's own sweep, or of all by the names of their scripts."""
    return msgspec.json.encode(found.named) + b"\n" if found.own is None else to_json(found.own)


def page(folder: Path, found: SweptFolder) -> bytes:
    """Return the page of all of them."""
    context = {
        "title": folder.name,
        "what": "sweep",
        "sweeps": [
            {
                "name": name,
                "where": sweep.where,
                "gained": sweep.speedup.low > 1,
                "best": result.best(sweep),
                "said": [line for line in result.sentences(sweep) if line != result.best(sweep)],
                "rows": result.cells(sweep),
            }
            for name, sweep in found.named.items()
        ],
        "head": result.HEAD,
    }
    return engine.render("sweep.html", context)
