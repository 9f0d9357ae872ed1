"""The verdict on a run folder: the one that lies there, where it is ours, else the recording is judged."""

from pathlib import Path

import msgspec

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.recording.folder import FINDINGS
from gputune.report.judged import judged
from gputune.report.rejudging import rejudge
from gputune.verdict.document import Verdict


def verdict(folder: Path) -> Verdict:
    """Return it; of a recording that cannot be judged what was kept of it, whoever gave that. Raises as `rejudge`."""
    found = judged(folder)
    if found is not None:
        return found
    try:
        return rejudge(folder)
    except GputuneError:
        try:
            return opening.document(folder / FINDINGS, Verdict)
        except (OSError, msgspec.DecodeError):
            pass
        raise
