"""Samples that are pulled: each row once, whatever fails on the way."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gputune.core.sample import Metric, Sample
from gputune.wire.address import Address
from gputune.wire.client import AgentFailed, Pulled, TickSamples
from gputune.wire.keeping import RunReader, keepers
from gputune.wire.messages import CursorFields

CORES = Metric("cpu.busy", "cores", "Cores in use.")
M8 = Address("m8", path="/none")


class Answers:
    """An agent with `rows` rows, ten an answer, of which every third fails after it was made."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.chance = random.Random(3)

    def pull(self, run: str, since: CursorFields, only: Any = ()) -> Pulled:
        if self.chance.random() < 0.3:
            raise AgentFailed(M8, "down", "did not answer in time")
        end = min(self.rows, since.row + 10)
        said: Any = SimpleNamespace(
            anew=since.known == 0, next=CursorFields(1, end, 1, "frames"), more=end < self.rows, missed=False, clocks=0
        )
        columns = {0: (CORES, "")} if since.known == 0 else {}
        return Pulled(said, columns, [TickSamples(k, [(0, k / 2), (9, 1.0)]) for k in range(since.row, end)])


def test_every_row_comes_once_however_many_answers_fail() -> None:
    answers: Any = Answers(95)
    reader, found = RunReader(answers), list[Any]()
    more = True
    while more:
        try:
            ticks, more = reader.step()
        except AgentFailed:
            continue
        found += ticks
    assert [tick[0].t for tick in found] == list(range(95))
    assert found[4] == [Sample(CORES, 4, 2.0)]  # a column that nobody declared is left out
    assert reader.rows == 95


def test_each_node_has_a_folder_of_its_own_and_no_name_leads_out() -> None:
    names = ["m8", "../x", "a/b", "\x1b", "..", "."]
    found = keepers([Address(name, path="/none") for name in names], None, Path("/kept"))
    folders = [keeper._folder for keeper in found]
    assert all(folder.parent == Path("/kept") and folder.name not in {"", ".", ".."} for folder in folders)
