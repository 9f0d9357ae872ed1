"""`live.json`, written while a run goes on, and read by screens, lists and trackers: one description for all."""

import msgspec

from gputune.verdict.document import SCHEMA_VERSION, Verdict


class LiveDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `window` is of the last `window_s` seconds; both it and `whole` are as `findings.json` is.

    `updated_s` and `judged_s` are s from the run's start; at the latter the findings were made, or the run was found to
    be as it was when they were. Null: nothing was judged yet.
    """

    schema_version: int = SCHEMA_VERSION
    updated_s: float
    judged_s: float | None
    window_s: float
    whole: Verdict
    window: Verdict


def decoded(document: bytes) -> LiveDocument:
    """Return what a `live.json` says. Raises msgspec.DecodeError where it says something else, or is of a newer one."""
    try:
        found = msgspec.json.decode(document, type=LiveDocument)
    except RecursionError:
        raise msgspec.DecodeError("it is nested without end") from None
    if found.schema_version > SCHEMA_VERSION:
        raise msgspec.DecodeError(f"it is of version {found.schema_version}, which this gputune does not know")
    return found
