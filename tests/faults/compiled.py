"""The C parts of the rows, compiled once for each state of their source."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.faults.row import NotHere


def shared(source: Path, *flags: str, include: str = "") -> Path:
    """Return the shared object of a C file."""
    text = source.read_bytes() + " ".join((*flags, include)).encode()
    folder = Path(tempfile.gettempdir()) / f"faults-c-{os.getuid()}" / hashlib.sha256(text).hexdigest()[:16]
    made = folder / f"{source.stem}.so"
    if not made.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f"part-{os.getpid()}"
        includes = (f"-I{include}",) if include else ()
        command = (
            os.environ.get("CC", "cc"),
            "-O1",
            "-g",
            "-fPIC",
            "-shared",
            *flags,
            *includes,
            "-o",
            str(part),
            str(source),
        )
        try:
            done = subprocess.run((*command, "-ldl"), check=False, capture_output=True, text=True, timeout=300)
        except FileNotFoundError:
            raise NotHere("there is no C compiler") from None
        if done.returncode:
            raise RuntimeError(done.stderr)
        part.rename(made)  # whole or not at all
    return made
