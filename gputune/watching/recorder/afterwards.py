"""Processes that begin once the verdict was said: nobody waits for them, and the training has ended.

One writes the run's page, one takes the run elsewhere (`watch --export`).
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gputune.core.isolation import own_python
from gputune.recording.folder import EXPORTS

PAGE = "from gputune.html.writing import main; main(sys.argv[1:])"
EXPORT = "from gputune.exporters._apart import main; main(sys.argv[1:])"


def write_page(folder: str, typed: str) -> str:
    """Have the page of a run folder written, which one types as `typed`; return why that was not possible, "" else."""
    why = begin(PAGE, str(Path(folder).absolute()), typed)
    return f"its page was not written ({why})" if why else ""


def export(folder: str, typed: str, names: Sequence[str], *, paged: bool) -> tuple[list[str], str]:
    """Have a run taken to all of these; return why some of it cannot be, and where the rest is told of.

    With `paged` a page is being written meanwhile, which is to go along.
    """
    from gputune import exporters  # noqa: PLC0415 - only where something is exported

    lacking = {name: exporters.lacking(name) for name in names}
    missing = [exporters.Missing(name, package) for name, package in lacking.items() if package]
    troubles = [f"{each.args[0]} (`{each.hint}`)" for each in missing]
    there = [name for name, package in lacking.items() if not package]
    if not there:
        return troubles, ""
    why = begin(EXPORT, str(Path(folder).absolute()), typed, "page" if paged else "", *there)
    if why:
        return [*troubles, f"it was not exported to {', '.join(there)} ({why})"], ""
    return troubles, f"export: {', '.join(there)}, in a moment; {typed}/{EXPORTS} says how it went"


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
