"""How a file of the user's is written anew: whole or not at all, with the mode it had; behind a link the link stays."""

import os
from pathlib import Path


def write(file: Path, text: str) -> None:
    """Put a text into a file, in UTF-8 and with its line ends as they are. Raises OSError where it cannot."""
    file = file.resolve()
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(text.encode("utf-8"))
        if file.exists():
            draft.chmod(file.stat().st_mode & 0o7777)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
