"""What a Parquet file says of itself has a checksum: no flipped bit in it gives a column another's name or unit."""

import re

import pyarrow.parquet as pq
import pytest

from gputune.recording import parquet, seal


def test_no_flipped_bit_of_a_footer_goes_unseen(finished) -> None:
    data = (finished(2) / "samples" / "00001.parquet").read_bytes()
    sound = parquet.decode(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for bit in range(start * 8, len(data) * 8):
        torn = bytearray(data)
        torn[bit // 8] ^= 1 << bit % 8
        try:
            found = parquet.decode(bytes(torn))
        except Exception:  # noqa: BLE001 - pyarrow's words for nonsense are many
            continue
        assert found.equals(sound)
        assert found.schema.metadata == sound.schema.metadata or seal.KEY not in bytes(torn)


def test_other_readers_of_parquet_see_a_key_more(finished) -> None:
    file = finished(1) / "batches" / "00001.parquet"
    assert re.fullmatch(rb"[0-9a-f]{8}", pq.read_metadata(file).metadata[seal.KEY])
    assert seal.KEY not in (parquet.decode(file.read_bytes()).schema.metadata or {})


def test_one_without_a_checksum_is_of_an_older_gputune_and_read(finished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "closed", lambda data: data.replace(seal.KEY, b"x" * len(seal.KEY)))
    data = (finished(1) / "batches" / "00001.parquet").read_bytes()
    assert len(parquet.decode(data)) > 0
