"""What is measured of a loop that waits for no batch, in the words and numbers of a finding."""

from collections.abc import Mapping
from dataclasses import replace

from gputune.core.figures import mean
from gputune.core.finding import Finding
from gputune.model.prediction import Outlook


def with_ceiling(outlook: Outlook, found: Finding) -> Finding:
    """Return a finding on batches that come too late, with what none of them can exceed, where that was measured."""
    ceiling = outlook.ceiling
    if ceiling is None:
        return found
    rounds = outlook.loader.filled
    measured: Mapping[str, float] = {
        "ceiling": ceiling.likely,
        "ready_round_s": mean(rounds),
        "ready_rounds": float(len(rounds)),
    }
    return replace(
        found,
        basis=(
            f"{found.basis}; {len(rounds)} rounds whose batch lay ready took {mean(rounds) * 1e3:.3g} ms each: with no "
            f"wait at all it is x{ceiling.likely:.2f} (measured)"
        ),
        evidence={**found.evidence, **measured},
    )
