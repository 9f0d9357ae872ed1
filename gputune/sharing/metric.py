"""The pattern by which a task's own number for its pace is found in its log."""

import re

from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean


def metric(text: str) -> "re.Pattern[str]":
    """Return the pattern of `--metric-regex`. Raises BadUsage unless it is one, and has a group with the number."""
    hint = r"a group holds the number, like `--metric-regex 'samples/s: ([\d.]+)'`"
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise BadUsage(f"`--metric-regex {clean(text, 80)}` is no regular expression: {error}", hint=hint) from None
    if not pattern.groups:
        raise BadUsage(f"`--metric-regex {clean(text, 80)}` has no group", hint=hint)
    return pattern
