"""A verdict in a few flat values, for whoever keeps a table of runs: a tracker, a trainer's log, a tuner's results."""

from gputune.core.events import AROUND_LOOP
from gputune.verdict.document import Verdict

NAMES = ("device_busy", "waiting", "samples_per_s", "batches", "finding", "speedup", "says", "do")
WAIT = "loader.wait"


def told_of(verdict: Verdict) -> dict[str, object]:
    """Return `NAMES` of a verdict: shares 0 to 1, the top finding and its likely gain; None for what is not known."""
    top = verdict.findings[0] if verdict.findings else None
    shares = {row.span: row.share for row in verdict.ledger}
    loop = 1.0 - sum(shares.get(span, 0.0) for span in AROUND_LOOP)
    return {
        "device_busy": verdict.device.busy,
        "waiting": shares.get(WAIT, 0.0) / loop if shares and loop > 0 else None,  # of the loop's time
        "samples_per_s": verdict.samples_per_s,
        "batches": verdict.batches,
        "finding": top.id if top is not None else None,
        "speedup": top.speedup.likely if top is not None else None,
        "says": top.says if top is not None else None,
        "do": top.do if top is not None else None,
    }
