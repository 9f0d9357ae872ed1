"""A finding in words that stand beside what its advisor says: what it is worth, and what it does to the results."""

from gputune.core.hygiene import clean
from gputune.report.words import likely, times
from gputune.verdict.arbitration import CLOSE, INSTEAD
from gputune.verdict.document import TRIED, FindingRow, Verdict

NAME, TEXT = 60, 300  # characters of any one name, and text, from outside
EFFECTS = {
    "identical": "",
    "same-order": "same order of samples, other randomness in augmentation",
    "changes-order": "the order of the samples may change",
    "changes-rounding": "numbers are rounded differently, compare the loss",
    "changes-learning": "the training learns differently, check the learning rate",
    "may-duplicate": "samples may come twice unless the dataset shards itself",
    "unknown": "not known, compare the loss",
}


def worth(finding: FindingRow) -> str:
    """Return the predicted gain, and what else the finding is; of a risk or an offer without a gain that alone."""
    kind = "risk" if finding.risk else "offer" if finding.offer else ""
    if kind and finding.speedup.likely <= 1:
        return kind
    said = times(finding.speedup, finding.steady)
    return f"{said}{', measured' if TRIED in finding.evidence else ''}{kind and f', {kind}'}"


def alternative(finding: FindingRow) -> str:
    """Return the best of the silent rivals that promise about as much, or more: another change may suit better."""
    rivals = {n.removeprefix(INSTEAD): gain for n, gain in finding.evidence.items() if n.startswith(INSTEAD)}
    best = max(rivals, key=lambda name: rivals[name], default="")
    if not best or rivals[best] * CLOSE < finding.speedup.likely:
        return ""
    return f"; or instead {clean(best, NAME)} {likely(rivals[best])}"


def perhaps(verdict: Verdict) -> str:
    """Return the best of what may help without being sure to."""
    if not verdict.perhaps:
        return ""
    best = verdict.perhaps[0]
    where = f" at {clean(best.where, NAME)}" if best.where else ""
    return f"perhaps {clean(best.id, NAME)}, {worth(best)}{where}: {clean(best.do, TEXT)}; not sure until it is tried"


def results(finding: FindingRow) -> str:
    """Return what the change does to the training's results; nothing where they stay as they are."""
    said, why = EFFECTS.get(finding.effect, finding.effect), clean(finding.because, TEXT)
    return f"{said} ({why})" if said and why else said or why
