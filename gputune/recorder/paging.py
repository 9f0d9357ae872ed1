"""The process that writes a run's page once its verdict was said: nobody waits for it, and a training has ended."""

import os
import subprocess
from pathlib import Path

from gputune.isolation import own_python

CODE = "from gputune.html.writing import main; main(sys.argv[1:])"


def start(folder: str, typed: str) -> str:
    """Start it for a run folder, which one types as `typed`; return why that was not possible, "" where it was.

    It is in a session of its own: a Ctrl-C, or the end of the terminal, is none of its business.
    """
    try:
        subprocess.Popen(
            [*own_python(CODE), str(Path(folder).absolute()), typed],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"its page was not written ({error})"
    return ""
