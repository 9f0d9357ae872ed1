"""A file of frames that was cut or damaged anywhere gives every frame that was not hit, and nothing else."""

import random

from gputune.recording.frames import HEADER, RecordedFrame, frame, whole

PAYLOADS = [bytes([n]) * (n * 7 % 40) for n in range(24)]
DATA = b"".join(frame(n % 5 + 1, payload) for n, payload in enumerate(PAYLOADS))
ENDS = [end for *_, end in whole(DATA)]


def test_frames_come_back_in_order() -> None:
    assert [f.payload for f in whole(DATA)] == PAYLOADS
    assert ENDS[-1] == len(DATA)
    assert list(whole(b"")) == []


def test_cut_at_every_byte_all_that_were_whole_by_then_come_back() -> None:
    for size in range(len(DATA)):
        assert [f.end for f in whole(DATA[:size])] == [end for end in ENDS if end <= size]


def test_a_flipped_bit_costs_the_frame_it_is_in_and_no_other() -> None:
    chance = random.Random(4)
    for _ in range(4000):
        bit = chance.randrange(len(DATA) * 8)
        torn = bytearray(DATA)
        torn[bit // 8] ^= 1 << bit % 8
        hit = next(n for n, end in enumerate(ENDS) if bit // 8 < end)
        assert [f.payload for f in whole(bytes(torn))] == PAYLOADS[:hit] + PAYLOADS[hit + 1 :]


def test_a_payload_that_looks_like_a_frame_is_not_taken_for_one_while_its_own_is_whole() -> None:
    inner = frame(2, b"inside")
    outer = frame(1, inner)
    assert list(whole(outer)) == [RecordedFrame(1, inner, HEADER + len(inner))]


def test_a_frame_that_a_disk_has_written_twice_counts_once() -> None:
    assert [f.payload for f in whole(DATA + DATA[: ENDS[5]])] == PAYLOADS
    assert [f.payload for f in whole(DATA[: ENDS[5]] + DATA)] == PAYLOADS


def test_noise_holds_no_frame() -> None:
    noise = random.Random(5).randbytes(100_000).replace(b"GPT", b"...") + b"\x89GPT" * 50
    assert list(whole(noise)) == []
