"""The page of processes: what a line says, its order, filter and tree, and how it is reached in 80 columns."""

from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from gputune.feeds.rows import TaskRow
from gputune.tui.lines import Canvas
from gputune.tui.pages.processes import BY, Listing, ProcessesPage, as_tree, order_at, process_key

Make = Callable[..., Any]
USUAL = Listing()


def task(pid: int, **changes: object) -> TaskRow:
    """Return a process of a run."""
    facts: dict[str, object] = {
        "pid": pid,
        "name": "python",
        "role": "worker",
        "run": "m8/run",
        "user": "ada",
        "age": 90.0,
    }
    facts |= {"cpu": 0.5, "memory": 1e9, "command": "train.py --lr 3", "parent": 1, "started": pid}
    return TaskRow(**{**facts, **changes})  # type: ignore[arg-type] # a test names the field it is about


TASKS = (
    task(20, role="main", device="0", device_memory=6e9, device_share=0.4, rank=1, cpu=1.0, parent=10),
    task(30, parent=20, cpu=0.25),
    task(31, parent=20, cpu=0.75),
    task(10, role="other", command="torchrun train.py", cpu=0.0),
    task(40, role="foreign", run="", user="root", command="backup /home", cpu=0.1, memory=5e9),
)


def page(node: Make, listing: Listing = USUAL, width: int = 79, tasks: tuple[TaskRow, ...] = TASKS) -> ProcessesPage:
    """Return the page of a node with these processes."""
    return ProcessesPage(node("m8", tasks=tasks), listing, Canvas(width, 24), process_key)


def pids(shown: ProcessesPage) -> list[int]:
    """Return the processes in their order."""
    keys = [shown.key(k) for k in range(len(shown))]
    return [int(key.removeprefix("process:").partition(".")[0]) for key in keys if key]


def test_in_80_columns_a_line_says_whose_what_and_how_much(node: Make) -> None:
    shown = page(node)
    text = [shown.line(k).text for k in range(len(shown))]
    assert text[0].split() == ["Σ", "100%", "1.86G", "2", "workers"]
    assert text[1].split() == ["20", "ada", "0", "40%", "5.59G", "100%", "954M", "90.0s", "train.py", "--lr", "3"]
    assert max(map(cell_len, text)) <= 80


def test_with_room_it_also_says_role_rank_and_run(node: Make) -> None:
    shown = page(node, width=159)
    for told in ("training", " 1 ", " run "):
        assert told in shown.line(1).text
    assert "ROLE" in shown.head[1].text


def test_each_column_sorts_and_again_the_other_way_round(node: Make) -> None:
    assert pids(page(node)) == [20, 31, 30, 10, 40]  # by role, then by use
    assert pids(page(node, Listing(by="m")))[0] == 40
    assert pids(page(node, Listing(by="c"))) == [20, 31, 30, 40, 10]
    assert pids(page(node, Listing(by="c", turned=True))) == [10, 40, 30, 31, 20]
    assert pids(page(node, Listing(by="x"))) == [20, 31, 30, 10, 40]  # what is not known comes last
    assert pids(page(node, Listing(by="n")))[0] == 40
    for key in BY:
        assert sorted(pids(page(node, Listing(by=key)))) == [10, 20, 30, 31, 40], key


def test_a_filter_looks_at_user_command_run_role_and_pid(node: Make) -> None:
    for text, found in (("root", [40]), ("torchrun", [10]), ("worker", [31, 30]), ("training 20", [20]), ("no", [])):
        assert pids(page(node, Listing(text=text))) == found, text
    assert "1 of 5" in page(node, Listing(text="root")).head[0].text


def test_a_tree_has_everybody_below_the_parent(node: Make) -> None:
    shown = page(node, Listing(tree=True))
    text = [shown.line(k).text for k in range(len(shown))]
    assert pids(shown) == [10, 20, 31, 30, 40]
    assert "torchrun" in text[0]
    assert " └─ train.py" in text[1]
    assert "    └─ train.py" in text[2]


@pytest.mark.parametrize("loop", [(task(1, parent=2), task(2, parent=1)), (task(1, parent=1),)])
def test_parents_in_a_circle_are_shown_once(loop: tuple[TaskRow, ...]) -> None:
    assert sorted(each.pid for each, _ in as_tree(loop)) == sorted(each.pid for each in loop)


def test_a_title_that_is_clicked_is_the_key_of_its_column(node: Make) -> None:
    shown = page(node)
    title = shown.head[1].text
    for name, key in (("USER", "u"), ("DEVMEM", "x"), ("CPU", "c"), ("COMMAND", "n")):
        assert order_at(shown.columns, title.index(name)) == key


def test_three_thousand_are_lines_only_where_they_are_seen(node: Make) -> None:
    many = tuple(task(k, command="\x1b[2J\u202e" + "x" * 4096) for k in range(1, 3001))
    shown = page(node, tasks=many)
    assert len(shown) == 3001
    assert cell_len(shown.line(2999).text) <= 80
