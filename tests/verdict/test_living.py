"""What a `live.json` says: the same to all who read it, and nothing that is guessed at."""

import msgspec
import pytest

from gputune.features import Features, Machine
from gputune.verdict.building import Overhead, build
from gputune.verdict.living import LiveDocument, decoded

RUN = Features(command=("python", "train.py"), wall=60.0, machine=Machine(cpus=2, cpus_seen=2))
VERDICT = build(RUN, [], overhead=Overhead())
LIVE = LiveDocument(updated_s=60.0, judged_s=None, window_s=30.0, whole=VERDICT, window=VERDICT)


def test_what_was_written_is_read() -> None:
    assert decoded(msgspec.json.encode(LIVE)) == LIVE


@pytest.mark.parametrize(
    "document",
    [
        msgspec.json.encode(msgspec.structs.replace(LIVE, schema_version=99)),
        b"[" * 100_000,
        b'{"schema_version": 1, "updated_s": "soon"}',
        b"",
    ],
    ids=["newer", "nested", "other", "empty"],
)
def test_what_is_of_a_newer_version_or_nonsense_is_no_verdict(document: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded(document)
