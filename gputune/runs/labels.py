"""What a person has called a run: a line in a file of its own, since the recorder writes `run.json` anew as it goes."""

import os
from pathlib import Path

from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.recording.folder import Folder
from gputune.runs.found import is_run

FILE = "label"
LONGEST = 60  # characters: a column of a list


class NotKept(GputuneError):  # noqa: N818 - named for what happened
    """The label could not be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"`{clean(str(folder))}` takes no label: {error.strerror or error}",
            hint="look at whose it is, and its rights",
        )


def label(folder: Path) -> str:
    """Return a run's label, made fit to be shown; "" where it has none."""
    try:
        return clean(opening.read(folder / FILE, most=1 << 12).decode(errors="replace").strip(), LONGEST)
    except OSError:
        return ""


def give(folder: Path, text: str) -> None:
    """Call a run so; an empty text takes its label away. Raises BadUsage and NotKept."""
    if not is_run(folder):
        raise BadUsage(f"`{clean(str(folder))}` is no run folder", hint="`gputune runs` lists those that there are")
    if text.strip() != clean(text.strip(), LONGEST):
        raise BadUsage(f"a label is one line of up to {LONGEST} characters", hint='like `--set-label RUN "before AMP"`')
    try:
        with Folder(folder) as opened:
            opened.remove(FILE)
            if text.strip():
                opened.write(FILE, os.fsencode(f"{text.strip()}\n"))
    except OSError as error:
        raise NotKept(folder, error) from None
