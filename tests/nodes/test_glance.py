"""Machines at one glance: a line a device, what its processes are, and what their runs wait for."""

import unicodedata

import pytest

from gputune.feeds.rows import DeviceRow, Node, Present, RunRow, TaskRow
from gputune.nodes.glance import ProcessColumns, render
from gputune.verdict.document import DeviceTotals as Devices
from gputune.verdict.document import FindingRow, LedgerRow, Overhead, SpeedupRow, Verdict

CARD = DeviceRow(
    index="0", name="NVIDIA H200", busy=0.87, memory_used=60.5 * 2**30, memory_total=141.0 * 2**30, power=420.4,
    power_limit=700.0, temperature=61.0,
)  # fmt: skip
MAIN = TaskRow(
    pid=4711, name="python", role="main", run="m8/run", user="ada", command="train.py --lr 3", device="0",
    device_memory=60.0 * 2**30, cpu=1.0, memory=4e9,
)  # fmt: skip
WORKER = TaskRow(pid=4712, name="python", role="worker", run="m8/run", user="ada", cpu=0.5)
NODE = Node(
    name="m8", devices=(CARD,), tasks=(MAIN, WORKER), cpus=64.0, cpu=12.5, runs=("m8/run",), wait=0.57, rate=10930.0
)
VERDICT = Verdict(
    command=["python", "train.py"], exit_code=None, wall_s=60.0, samples_per_s=800.0, batches=100, loaders=[],
    device=Devices(name="NVIDIA H200", busy=0.4, count=1), overhead=Overhead(), unavailable=[],
    ledger=[LedgerRow(span="loader.wait", seconds=30.0, share=0.5)],
    findings=[FindingRow(
        id="few-workers", severity="high", share_lost=0.5, speedup=SpeedupRow(low=1.9, likely=2.2, high=2.3), says="",
        do="", where="", change={}, evidence={}, basis="", falsified_by="", effect="same-order",
    )],
)  # fmt: skip
USUAL = ProcessColumns()
RUN = RunRow(id="m8/run", node="m8", name="train.py", verdict=VERDICT)


def lines(node: Node, wishes: ProcessColumns = USUAL, *runs: RunRow) -> list[str]:
    """Return what is printed of a node."""
    return render([node], runs or [RUN], wishes).split("\n")


def test_a_device_is_a_line_with_its_users_and_what_their_run_waits_for() -> None:
    head, card = lines(NODE)
    assert head.startswith("m8  ")
    assert "CPUs 12.5 of 64" in head
    assert head.endswith("waits 57%  10,930 samples/s")
    assert card == (
        "[0] NVIDIA H200      |  61°C,  87% |  60.5 / 141.0 GiB | 420 / 700 W "
        "| ada(60.0G) [waits 50%, few-workers x2.2]"
    )


def test_commands_stand_below_with_user_and_pid_as_asked() -> None:
    assert (
        lines(NODE, ProcessColumns(command=True, user=True, pid=True))[2]
        .strip()
        .startswith("ada:train.py --lr 3/4711(60.0G)")
    )
    assert lines(NODE, ProcessColumns(command=True))[2].strip().startswith("train.py --lr 3(60.0G)")
    assert lines(NODE, ProcessColumns(pid=True))[1].rpartition("| ")[2].startswith("4711(60.0G)")


def test_the_waits_of_now_count_where_they_are_known() -> None:
    run = RunRow(id="m8/run", node="m8", name="train.py", verdict=VERDICT, present=Present(at=9.0, wait=0.07))
    assert "[waits 7%, few-workers x2.2]" in lines(NODE, ProcessColumns(), run)[1]
    ended = RunRow(id="m8/run", node="m8", name="train.py", verdict=VERDICT, state="ended")
    assert "[" not in lines(NODE, ProcessColumns(), ended)[1].partition("|")[2]


def test_a_node_without_a_card_has_its_cpus_and_the_runs_on_them() -> None:
    bare = Node(
        name="m9", tasks=(TaskRow(pid=1, name="python", role="main", run="m8/run", user="ada", cpu=1.02, memory=2e9),),
        cpus=64.0, cpu=12.5, memory_used=2.0 * 2**30, memory_total=512.0 * 2**30, iowait=0.02,
        unavailable={"nvml": "no driver"},
    )  # fmt: skip
    _, cpus, why = lines(bare)
    assert cpus.startswith(
        "[-] CPUs 12.5 of 64,  20% | memory 2.0 / 512.0 GiB | 2% idle for storage | ada(1.9G, 1.0 CPU)"
    )
    assert cpus.endswith("[waits 50%, few-workers x2.2]")
    assert why == "    no device: no driver"


def test_what_is_not_known_is_a_dash_and_who_does_not_answer_says_why() -> None:
    assert "|   -°C,    - |         - / - GiB |   - W" in lines(Node(name="m8", devices=(DeviceRow(index="0"),)))[1]
    assert "down: connection refused" in lines(Node(name="m9", link="down", why="connection refused"))[0]


@pytest.mark.parametrize("colour", [False, True])
def test_nothing_but_our_own_colours_is_written(colour: bool) -> None:
    evil = "\x1b]52;c;eA==\x07\u202e\r\n" + "x" * 4096
    task = TaskRow(pid=1, name=evil, command=evil, user=evil, device="0", device_memory=1.0)
    node = Node(name=evil, devices=(DeviceRow(index="0", name=evil, held=evil),), tasks=(task,), why=evil, link="late")
    text = render([node], [], ProcessColumns(command=True, user=True, pid=True, colour=colour))
    for code in ("\x1b[0m", *(f"\x1b[{k}m" for k in (1, 2, 31, 32, 33, 35, 36))):
        text = text.replace(code, "") if colour else text
    assert not [c for c in text.replace("\n", "") if unicodedata.category(c) in {"Cc", "Cf"}]
    assert max(map(len, text.split("\n"))) < 400
