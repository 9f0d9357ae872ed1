"""Processes that begin once the verdict was said: nobody waits for them, and the training has ended."""

import os
import subprocess

from gputune.core.isolation import own_python


def begin(code: str, *arguments: str) -> str:
    """Run `code` with these arguments; return why that was not possible, "" where it was.

    It is in a session of its own: a Ctrl-C, or the end of the terminal, is none of its business.
    """
    try:
        subprocess.Popen(
            [*own_python(code), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return str(error)
    return ""
