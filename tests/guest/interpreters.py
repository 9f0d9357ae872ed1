"""The Pythons of this machine that start. One that is there and starts nothing is none.

A shim of pyenv's is on PATH for every version that was ever installed, and leaves with 127 where that version is not
the chosen one.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PATIENCE = 60.0  # s for one that starts to say its version
ASKED = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"


@cache
def found(version: str) -> tuple[str, str]:
    """Return the first Python of a version (`3.9`) that starts, or "", and why there is none."""
    return first_to_start(version, _places(version))


def first_to_start(version: str, places: Iterable[Path]) -> tuple[str, str]:
    """Return the first of the files that starts as a Python of this version, or "", and why none does."""
    refused: list[str] = []
    for place in places:
        why = _refuses(place, version)
        if not why:
            return str(place), ""
        refused.append(f"`{place}` {why}")
    return "", "; ".join(refused) or f"no Python {version} on PATH or under pyenv"


def _places(version: str) -> Iterator[Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(root.glob(f"{version}.*/bin/python"))
    for folder in os.get_exec_path():
        file = Path(folder, f"python{version}")
        if file.is_file() and os.access(file, os.X_OK):
            yield file


def _refuses(python: Path, version: str) -> str:
    """Return why a file is no Python of this version; nothing where it is one."""
    try:
        done = subprocess.run(
            [python, "-c", ASKED],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {error}"
    if done.returncode:
        return f"starts nothing: status {done.returncode}"
    return "" if done.stdout == version else f"is no Python {version}: it says {done.stdout[:20]!r}"
