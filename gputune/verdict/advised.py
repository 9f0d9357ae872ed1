"""What users type to name a finding: an advisor's id, and where that is not enough the place in their script."""

import difflib
import inspect

from gputune.core import plugins
from gputune.core.errors import BadUsage

ROOM = "gputune.advisors"
AT = "@"  # between the two


class NoSuchAdvisor(BadUsage):
    """An id was typed that no advisor has."""

    def __init__(self, asked: str, known: tuple[str, ...]) -> None:
        near = difflib.get_close_matches(asked, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "`gputune explain --list`"
        super().__init__(f"no advisor is named `{asked[:60]}`", hint=hint)


def advisor(asked: str) -> str:
    """Return the name of the module of the advisor whose id was typed. Raises NoSuchAdvisor."""
    name = asked.strip().lower().replace("-", "_")
    if name not in plugins.names(ROOM):
        raise NoSuchAdvisor(asked, tuple(map(plugins.identity, plugins.names(ROOM))))
    return name


def parted(asked: str) -> tuple[str, str]:
    """Return the id and the place of `few-workers@train.py:12`, the place empty where there is none."""
    identity, _, place = asked.strip().partition(AT)
    return identity.strip().lower(), place.strip()


def documentation(name: str) -> str:
    """Return an advisor's documentation, which is its module's docstring."""
    return inspect.getdoc(plugins.load(ROOM, name)) or ""
