"""Rows from elsewhere: every string in them made harmless, and what needs nothing left as it is."""

import msgspec

from gputune.feeds.rows import DeviceRow, Node, RunRow, TaskRow, Update, harmless

EVIL = "\x1b]52;c;cm0gLXJmIC8=\x07"


def strings(value: object) -> list[str]:
    """Return every string in a row, however deep."""
    found = msgspec.to_builtins(value)
    pending, said = [found], []
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            said.append(each)
        elif isinstance(each, dict):
            pending += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            pending += each
    return said


def test_every_string_of_a_row_is_made_harmless() -> None:
    node = Node(
        name=EVIL, rack=EVIL, job=EVIL, why=EVIL, finding=EVIL, runs=(EVIL,), unavailable={EVIL: EVIL},
        devices=(DeviceRow(index=EVIL, name=EVIL, held=EVIL, job=EVIL),),
        tasks=(TaskRow(pid=1, name=EVIL, role=EVIL, run=EVIL, device=EVIL),),
    )  # fmt: skip
    run = RunRow(id=EVIL, node=EVIL, name=EVIL, folder=EVIL, why=EVIL, command=("python", EVIL))
    update = harmless(Update(until=1, nodes=(node,), runs=(run,), gone=(EVIL,), note=EVIL))
    assert len(strings(update)) > 20
    assert [text for text in strings(update) if not text.isprintable()] == []


def test_a_row_that_is_harmless_stays_the_same_object() -> None:
    node = Node(name="m8", devices=(DeviceRow(index="0", name="H200", busy=0.5),), cores=(0.5, 0.1))
    assert harmless(node) is node
    assert harmless(node) is node


def test_what_all_devices_come_to() -> None:
    devices = (
        DeviceRow(index="0", busy=0.5, power=100.0, memory_used=10.0, memory_total=40.0),
        DeviceRow(index="1", busy=1.0, power=300.0, memory_used=30.0, memory_total=40.0),
        DeviceRow(index="2"),
    )
    node = Node(name="m8", devices=devices)
    assert (node.busy, node.power, node.filled) == (0.75, 400.0, 0.5)
    assert (Node(name="m9").busy, Node(name="m9").power, Node(name="m9").filled) == (None, None, None)


def test_rows_go_through_json_and_back() -> None:
    update = Update(
        until=3, nodes=(Node(name="m8", link="down"),), runs=(RunRow(id="m8/run", node="m8", name="train"),)
    )
    assert msgspec.json.decode(msgspec.json.encode(update), type=Update) == update
