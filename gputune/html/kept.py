"""The verdict that lies in a run folder; where there is none, the recording is judged."""

from pathlib import Path

import msgspec

from gputune import opening
from gputune.document import Verdict
from gputune.recording.folder import FINDINGS
from gputune.rejudging import rejudge


def verdict(folder: Path) -> Verdict:
    """Return it. Raises as `rejudge` where there is neither."""
    try:
        return opening.document(folder / FINDINGS, Verdict)
    except (OSError, msgspec.DecodeError):
        return rejudge(folder)
