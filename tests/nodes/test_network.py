"""What a measured link says of the exchanges of runs, and what of it nobody can know."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from gputune.core.errors import BadUsage
from gputune.features import Features, Machine, Process, SyncRound
from gputune.feeds.rows import RunRow
from gputune.nodes import network
from gputune.nodes.network import Exchange, between, compared
from gputune.verdict.document import DeviceTotals, FindingRow, Overhead, ProcessRow, SpeedupRow, Verdict
from gputune.wire.address import Address
from gputune.wire.messages import LinkRate

LINK = LinkRate(
    sent=100e6, sent_at_least=False, received=120e6, received_at_least=False, answer=2e-4, answer_least=1e-4, streams=4
)
M8, M9 = Address("m8", "m8", 7070), Address("m9", "m9", 7070)


def exchange(took: float) -> Exchange:
    """Return what two ranks exchange: 10 MB in one message, for which a ring over `LINK` needs 100.2 ms."""
    return Exchange(run="train", ranks=2, size=10e6, messages=1, took=took)


@pytest.mark.parametrize(
    ("took", "told", "words"),
    [
        (0.150, "link", "100 ms: it is the link that they wait for"),
        (0.501, "slower", "5 times less: it is not the link that holds them up"),
        (0.020, "faster", "they do not go over it"),
    ],
)
def test_an_exchange_is_held_against_a_ring_over_the_slower_way(took: float, told: str, words: str) -> None:
    found = compared(exchange(took), LINK)
    assert found.needs == pytest.approx(0.1002)
    assert found.told == told
    assert words in found.says
    assert found.says.startswith("2 ranks exchange 10 MB in 1 message, which takes them")


def test_a_link_whose_pace_was_not_reached_excuses_nobody_and_accuses_nobody() -> None:
    link = changed(LINK, received_at_least=True)
    assert compared(exchange(0.15), link).told == "unknown"
    assert compared(exchange(0.02), link).told == "unknown"
    assert compared(exchange(0.5), link).told == "slower"  # a quicker link would excuse it even less


def features(hosts: list[str], rounds: int = 100) -> Features:
    """Return a job with a rank on each of these hosts, which exchanges 10 MB in 120 ms, 20 ms of them hidden."""
    processes = tuple(
        Process(
            pid=rank, rank=rank, wall=30.0, ledger={"step": 30.0}, inclusive={}, in_loop={}, loop=30.0, batches=rounds,
            samples=rounds, optimizer_steps=rounds, host=host,
            meetings=tuple(
                SyncRound(number=k, own=0.2, apart=0.1, size=10_000_000, ranks=len(hosts), hidden=0.02)
                for k in range(rounds)
            ),
        )
        for rank, host in enumerate(hosts)
    )  # fmt: skip
    return Features(command=("x",), wall=30.0, machine=Machine(cpus=8, cpus_seen=8), processes=processes)


@pytest.mark.parametrize(
    ("hosts", "rounds", "note"),
    [
        (["m8", "m9"], 100, ""),
        (["", ""], 100, "all on one machine"),
        (["m8", "m9"], 5, "met each other often enough"),
        (["m8"], 100, "met each other often enough"),
    ],
)
def test_a_recorded_run_counts_where_its_ranks_are_on_several_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hosts: list[str], rounds: int, note: str
) -> None:
    monkeypatch.setattr(network, "relive", lambda _folder: (features(hosts, rounds), []))
    found, why = network._recorded(tmp_path / "train")
    assert note in why
    if not note:
        assert found == Exchange(run="train", ranks=2, size=10e6, messages=1, took=pytest.approx(0.12))


class Pretended:
    """Agents that measure `LINK` and show nothing."""

    def __init__(self, address: Address, _known: object) -> None:
        self.address = address

    def link(self, to: str, _seconds: float) -> LinkRate:
        assert (self.address, to) == (M8, "m9:7070")
        return LINK

    def close(self) -> None:
        pass


def test_what_was_named_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(network, "AgentClient", Pretended)
    monkeypatch.setattr(
        network, "relive", lambda folder: (features(["m8", "m9"] if folder.name == "a" else ["", ""]), [])
    )
    report = between(M8, M9, None, [tmp_path / "a", tmp_path / "b"])
    assert (report.source, report.target, report.link) == ("m8", "m9", LINK)
    assert [(each.exchange.run, each.told) for each in report.exchanges] == [("a", "link")]
    assert report.notes == ["b: its ranks are all on one machine, and exchange nothing over this link"]


def test_a_run_that_an_agent_shows_counts_where_it_waits_for_its_exchange() -> None:
    process: Any = ProcessRow(
        pid=1, rank=0, seen=True, why="", wall_s=1, startup_s=0, loop_s=1, batches=1, optimizer_steps=1,
        samples_per_s=None, host="m8", apart_s=0.3,
    )  # fmt: skip
    finding = FindingRow(
        id="communication-bound", severity="high", share_lost=0.5, speedup=SpeedupRow(low=1, likely=2, high=3), says="",
        do="", where="", change={}, basis="", falsified_by="", effect="identical",
        evidence={"ranks": 2.0, "size_B": 10e6, "messages": 1.0, "exchange_s": 0.1, "hidden_s": 0.02},
    )  # fmt: skip
    verdict = Verdict(
        command=[], exit_code=None, wall_s=1, samples_per_s=None, batches=1, device=DeviceTotals(name=None, busy=None),
        loaders=[], ledger=[], findings=[finding], overhead=Overhead(), unavailable=[],
        processes=[process, changed(process, host="m9", rank=1, apart_s=0.1)],
    )  # fmt: skip
    run = RunRow(id="m8/train", node="m8", name="train.py", verdict=verdict)
    assert list(network._of(run)) == [Exchange(run="train", ranks=2, size=10e6, messages=1, took=pytest.approx(0.12))]
    alone = changed(verdict, processes=[process, changed(process, rank=1)])
    assert list(network._of(changed(run, verdict=alone))) == []
    assert list(network._of(changed(run, verdict=changed(verdict, findings=[])))) == []
    assert list(network._of(changed(run, verdict=None))) == []


@pytest.mark.parametrize(
    ("target", "why"), [(M8, "was named twice"), (Address("m9", path="/run/a.sock"), "through a Unix socket")]
)
def test_what_is_no_link_is_refused_before_anything_is_measured(target: Address, why: str) -> None:
    with pytest.raises(BadUsage, match=why):
        between(M8, target, None, [])
