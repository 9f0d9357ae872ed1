"""The process that takes a run elsewhere once its verdict was said (`watch --export`)."""

from collections.abc import Sequence
from pathlib import Path

from gputune.recording.folder import EXPORTS
from gputune.watching.recorder import afterwards

CODE = "from gputune.exporters._apart import main; main(sys.argv[1:])"


def start(folder: str, typed: str, names: Sequence[str], *, paged: bool) -> tuple[list[str], str]:
    """Start it for a run folder; return why some of it cannot be, a sentence each, and where the rest is told of.

    With `paged` a page is being written meanwhile, which is to go along.
    """
    from gputune import exporters  # noqa: PLC0415 - only where something is exported

    lacking = {name: exporters.lacking(name) for name in names}
    missing = [exporters.Missing(name, package) for name, package in lacking.items() if package]
    troubles = [f"{each.args[0]} (`{each.hint}`)" for each in missing]
    there = [name for name, package in lacking.items() if not package]
    if not there:
        return troubles, ""
    why = afterwards.begin(CODE, str(Path(folder).absolute()), typed, "page" if paged else "", *there)
    if why:
        return [*troubles, f"it was not exported to {', '.join(there)} ({why})"], ""
    return troubles, f"export: {', '.join(there)}, in a moment; {typed}/{EXPORTS} says how it went"
