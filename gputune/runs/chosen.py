"""Runs of a list: those of one job, with one finding, with one label."""

from collections.abc import Iterable

from gputune.runs.rows import Row


def chosen(found: Iterable[Row], *, job: str | None, finding: str | None, label: str | None) -> list[Row]:
    """Return the rows that are all of what was asked for; None asks for nothing."""
    return [
        each
        for each in found
        if (job is None or each.job == job)
        and (finding is None or finding in each.findings)
        and (label is None or each.label == label)
    ]
