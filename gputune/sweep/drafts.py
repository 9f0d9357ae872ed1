"""How a file is written anew: whole or not at all, the user's with the mode it had; behind a link the link stays."""

import os
from pathlib import Path


def write(file: Path, text: str, *, ours: bool = False) -> None:
    """Put a text into a file, in UTF-8 and with its line ends as they are. Raises OSError where it cannot.

    `ours`: it lies in a folder of a sweep, where files are 0600 and no link is followed.
    """
    file = file if ours else file.resolve()
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if ours:
            draft.touch(mode=0o600)
        draft.write_bytes(text.encode("utf-8"))
        if file.exists() and not ours:
            draft.chmod(file.stat().st_mode & 0o7777)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
