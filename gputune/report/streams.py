"""What a stream takes: colour where it is wanted, and no letters but those that it has."""

import os
import shutil
import sys
from collections.abc import Mapping

PLAIN = str.maketrans({"×": "x", "–": "-", "·": "|", "█": "#", "▓": "=", "▒": "-", "░": ".", "µ": "u", "→": ">"})


def colour_wanted(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether colour may be written: to a terminal that is not dumb, and NO_COLOR is unset or empty."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def columns() -> int | None:
    """Return how many columns stdout has, None where nobody says: what is piped is not cut or broken."""
    told = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if told else None


def encodable(text: str, encoding: str | None) -> str:
    """Return `text` with plain letters for what `encoding` (a stream's) cannot hold: a verdict never fails to print."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(PLAIN).encode("ascii", "replace").decode("ascii")
    return text
