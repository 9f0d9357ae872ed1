"""A packed run whose launcher was lost: its document says so from then on, and so do we; nobody else is left to."""

import signal
from pathlib import Path

from gputune.launch.link import Ended
from gputune.recording.folder import Folder
from gputune.verdict import packed
from gputune.verdict.document import to_json


def told(run: Path, ended: Ended) -> str:
    """Return what is to be said where a launcher has not told its end in its run folder, nothing where it has."""
    document = packed.read(run)
    if document is None or not document.running:
        return ""
    says = f"the launcher {_how(ended.code)}: its processes were ended with it"
    try:
        with Folder(run) as folder:
            folder.write(packed.FILE, to_json(packed.bereft(document, says, ended.code)))
    except OSError as error:
        return f"{says}, and `{packed.FILE}` does not say so ({error.strerror or error})"
    return says


def _how(code: int | None) -> str:
    if code is None:
        return "is gone"
    if code >= 0:
        return f"left with status {code} before its time"
    return f"was killed by signal {-code} ({signal.strsignal(-code)})"
