"""The cards as the launcher sees them: one that is nearly full is read more often, for it may be full in a second."""

import time
from contextlib import closing
from itertools import pairwise

from simgpu import Device

from gputune.core.units import NS
from gputune.nvml import fields
from gputune.nvml.process import MEMORY, subscribe
from gputune.sharing.cards import NEARLY_FULL, SharedDevices

GB = 10**9
USED = "gpu.memory.used"
OFTEN = 0.6  # s between two readings, at most: else it is a second, and never less


def test_a_card_that_is_nearly_full_is_read_more_often(simgpu) -> None:
    simgpu().set(memory_total=20 * GB, memory_reserved=0)
    gpu = Device()
    gpu.alloc(round((NEARLY_FULL + 0.1) * 20) * GB)
    times: list[int] = []
    with closing(SharedDevices()) as cards, closing(subscribe()) as beside:
        deadline = time.monotonic() + 60.0
        while not any((later - earlier) / NS < OFTEN for earlier, later in pairwise(times)):
            assert time.monotonic() < deadline, times
            cards.poll()
            answers = [answer for answer in beside.read() if any(name == USED for name, *_ in answer.values)]
            times += [answer.t for answer in answers]
            time.sleep(0.01)
    gpu.close()


def test_the_field_that_is_asked_for_is_one_that_is_read() -> None:
    assert MEMORY in {field.name for field in fields.FIELDS}
