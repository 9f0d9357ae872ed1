"""Pages: what stands on them, that they fit, and that no name can do harm from them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from gputune.feeds.rows import NetRow, Node, ShareRow, TaskRow, Update
from gputune.tui.lines import Canvas, Page
from gputune.tui.pages.finding import finding_page
from gputune.tui.pages.keys import keys_page
from gputune.tui.pages.node import TASKS, node_page
from gputune.tui.pages.nodes import NodesPage, Shown, order_at
from gputune.tui.pages.run import next_commands, run_page
from gputune.tui.pages.share import share_page
from gputune.tui.pages.signals import question, signals_page, task_key, task_of
from gputune.tui.store import Store
from gputune.verdict.document import ErrorRow, LedgerRow, Settings, SpeedupRow, TriedRow, Tuned

Make = Callable[..., Any]


def text(page: Page) -> str:
    """Return a whole page as text."""
    return "\n".join([each.text for each in page.head] + [page.line(k).text for k in range(len(page))])


def stored(*nodes: Any, runs: tuple[Any, ...] = ()) -> Store:
    """Return a store that knows these nodes and runs."""
    store = Store()
    store.take(Update(until=1, nodes=nodes, runs=runs))
    return store


def every(node: Any, run: Any, look: Canvas, finding: Any) -> dict[str, Page]:
    """Return every page."""
    return {
        "nodes": NodesPage(stored(node, runs=(run,)), Shown(group="rack"), look),
        "node": node_page(node, [run], look),
        "run": run_page(run, look),
        "then": run_page(run, look, cursor=12.0, window=True),
        "share": share_page(run, look),
        "signals": signals_page(node.tasks[0], run, look),
        "finding": finding_page(run, finding, look),
        "keys": keys_page(look),
    }


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("width", [79, 99, 120, 159, 240, 400])
def test_no_line_is_wider_than_the_screen(rows: SimpleNamespace, width: int, plain: bool) -> None:
    ranks = rows.run(verdict=rows.verdict(ranks=4, tuned=tuned()), procs=rows.procs())
    for name, page in every(rows.node(), ranks, Canvas(width, 24, plain), rows.finding()).items():
        wide = [each for each in text(page).split("\n") if cell_len(each.rstrip()) > width]
        assert wide == [], name


def test_a_node_is_one_line_with_what_holds_it_up(node: Make) -> None:
    page = NodesPage(stored(node("m8"), node("m9", link="down", why="connection refused")), Shown(), Canvas(100, 24))
    assert page.head[0].text.startswith(" 2 nodes · 16 devices · 57% busy · ")
    assert "1 not reached" in page.head[0].text
    up, down = page.line(0).text, page.line(1).text
    for told in ("m8", "▃▄▄▄▅▅▆▆", "57%", "43%", "3360W", "57%", "855", "×2.2 few-workers"):
        assert told in up
    assert "down: connection refused" in down
    assert (page.key(0), page.find("node:m9")) == ("node:m8", 1)


def test_a_title_sorts_by_its_column(node: Make) -> None:
    page = NodesPage(stored(node()), Shown(), Canvas(100, 24))
    title = page.head[1].text
    for name, order in (("NODE", "name"), ("BUSY", "busy"), ("SMP/S", "pace"), ("FINDING", "finding")):
        assert order_at(page.columns, title.index(name)) == order
    assert "NODE▾" in title


def test_groups_have_a_line_of_their_own(node: Make) -> None:
    nodes = [node("a", rack="r2"), node("b", rack="r1"), node("c", rack="r2")]
    page = NodesPage(stored(*nodes), Shown(group="rack"), Canvas())
    assert [page.line(k).text.split()[0] for k in range(len(page))] == ["r1", "●", "r2", "●", "●"]
    assert page.key(0) == ""


def test_a_thousand_nodes_are_drawn_as_they_are_seen(node: Make) -> None:
    store = stored(*(node(f"n{k:04}") for k in range(1000)))
    page = NodesPage(store, Shown("name", turned=True), Canvas())
    assert (len(page), page.line(0).text[2:7], page.find("node:n0000")) == (1000, "n0999", 999)


def test_the_ledger_adds_to_a_hundred(run: Make, verdict: Make) -> None:
    lines = text(run_page(run(), Canvas(100, 40)))
    for told in ("loader.wait 57%", "step 36%", "startup 4%", "checkpoint 2%", "other 1%"):
        assert told in lines
    thirds = verdict(ledger=[LedgerRow(span=name, seconds=1.0, share=1 / 3) for name in ("step", "sync", "startup")])
    percents = [
        int(word[:-1]) for word in text(run_page(run(verdict=thirds), Canvas())).split() if word in {"33%", "34%"}
    ]
    assert sorted(percents)[-3:] == [33, 33, 34]


def test_a_run_says_how_it_went_what_was_found_and_what_to_type(run: Make) -> None:
    lines = text(run_page(run(), Canvas(100, 40)))
    for told in (
        "train.py", "ended", "855 samples/s", "3,100 batches", "NVIDIA H200 41% busy", "device busy", "loader wait",
        "samples/s", "few-workers", "×2.2 (1.9–2.3)", "train.py:41", "gputune prove gputune-runs/run few-workers",
        "gputune explain few-workers",
    ):  # fmt: skip
        assert told in lines
    assert "batches ready" not in lines  # nothing is known of it


def test_the_slowest_rank_is_marked(run: Make, verdict: Make) -> None:
    lines = text(run_page(run(verdict=verdict(ranks=4)), Canvas(120, 40))).split("\n")
    (slowest,) = [each for each in lines if "slowest" in each]
    assert slowest.split()[0] == "2"
    assert "slowest" not in text(run_page(run(verdict=verdict(ranks=2)), Canvas(120, 40)))


def test_a_moment_is_read_where_the_cursor_stands(run: Make) -> None:
    page = run_page(run(at=12.0), Canvas(100, 40), cursor=12.0)
    assert page.head[1].text.startswith(" at 0:12 of 1:01 · judged as of then")
    assert "│" in text(page)
    judging = run_page(run(), Canvas(100, 40), cursor=12.0)
    assert "judging as of then" in judging.head[1].text


def test_a_run_without_a_verdict_says_so(run: Make) -> None:
    assert "no verdict yet" in text(run_page(run(verdict=None, state="live"), Canvas()))


def test_a_command_with_a_space_is_quoted_and_a_secret_place_is_none(run: Make) -> None:
    assert next_commands(run(folder="my runs/x"))[0] == "gputune prove 'my runs/x' few-workers"
    assert not any(each.startswith("gputune prove") for each in next_commands(run(state="live")))
    assert next_commands(run(folder="", verdict=None)) == []


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (("python3", "train.py", "--x", "a b"), "gputune sweep-loader train.py --x 'a b'"),
        (("/opt/bin/python", "-m", "package.train"), "gputune sweep-loader -m package.train"),
        (
            ("torchrun", "--nproc-per-node", "2", "train.py"),
            "gputune sweep-loader -- torchrun --nproc-per-node 2 train.py",
        ),
        (("python", "train.py", "--token", "***"), None),
    ],
)
def test_the_sweep_of_a_run_is_typed_as_the_run_was(run: Make, command: tuple[str, ...], typed: str | None) -> None:
    found = [each for each in next_commands(run(command=command)) if "sweep" in each]
    assert found == ([typed] if typed else [])


def test_a_finding_says_what_would_prove_it_wrong(run: Make, finding: Make) -> None:
    lines = text(finding_page(run(), finding(), Canvas()))
    for told in ("set num_workers=6", "replay of the measured times", "below 1,600", "waiting", "0.57", "What it sees"):
        assert told in lines
    assert "has no advisor `../../x`" in text(finding_page(run(), finding(id="../../x"), Canvas()))


def test_a_finding_says_on_what_its_effect_rests(run: Make, finding: Make) -> None:
    effects = {"changes-order": "the order of the samples may change", "unknown": "not known, compare the loss"}
    for effect, told in effects.items():
        assert f"{told} (it draws)" in text(finding_page(run(), finding(effect=effect, because="it draws"), Canvas()))


def test_a_node_shows_devices_host_and_processes_by_role(node: Make, run: Make, device: Make) -> None:
    held = replace(node(), devices=(device(0, held="power cap", temperature=90.0), device(1, busy=None)))
    lines = text(node_page(held, [run()], Canvas(120, 40)))
    for told in (
        "held by power cap",
        "90°C",
        "12.5 of 64 in use",
        "for storage 20%",
        "nvme0n1",
        "training",
        "worker",
        "backup",
    ):
        assert told in lines
    assert "60.5G/141G" in lines


def test_processes_of_a_role_come_to_a_line_that_is_none_of_them(node: Make) -> None:
    lines = text(node_page(node(), [], Canvas(100, 40))).split("\n")
    (summed,) = [each for each in lines if "Σ" in each]
    assert summed.split() == ["Σ", "170%", "1.86G", "2", "workers"]
    assert "sum " in text(node_page(node(), [], Canvas(100, 40, plain=True)))


def test_more_processes_than_there_is_room_for_are_counted(node: Make) -> None:
    many = tuple(TaskRow(pid=k + 1, name="python", role="worker", run="m8/run") for k in range(TASKS + 3))
    lines = text(node_page(node(tasks=many), [], Canvas(100, 40)))
    assert "       3 more, which use less" in lines


def test_a_share_is_a_row_a_process(run: Make, procs: Make) -> None:
    lines = text(share_page(run(procs=procs(), verdict=None), Canvas(100, 24)))
    assert "1 failed" in lines
    assert "logs/2.log" in lines
    assert lines.count("30%") == 3


def test_a_share_says_who_runs_how_they_end_and_what_they_do_together(run: Make, procs: Make) -> None:
    first, second, third = procs()
    rows = (
        replace(first, exit_code=-9, why="out of memory"),
        replace(second, state="running", unit="samples/s", host_memory=2e9),
        replace(third, state="waiting", rate=None, pid=None, name="fold1"),
    )
    shown = run(procs=rows, verdict=None, state="live", packed="3 at once did 160 samples/s")
    lines = text(share_page(shown, Canvas(100, 24)))
    for told in ("3 processes", "80.0 samples/s in all", "1 ended", "1 failed", "SIGKILL", "out of memory"):
        assert told in lines
    for told in ("running", "waiting", "fold1", "1.86G", "3 at once did 160 samples/s", "pace in samples/s"):
        assert told in lines
    assert "as they are now" in text(run_page(shown, Canvas(100, 24), cursor=12.0))


def test_disks_and_networks_take_the_lines_that_they_need(node: Make) -> None:
    nets = tuple(NetRow(name=f"eth{k}", received=1e6, sent=2e6) for k in range(5))
    lines = text(node_page(node(nets=nets), [], Canvas(79, 24))).split("\n")
    assert sum("MB/s in" in each for each in lines) > 1
    assert all(any(f"eth{k} 1.00MB/s in 2.00MB/s out" in each for each in lines) for k in range(5))


def test_only_processes_of_runs_on_this_machine_can_be_chosen(node: Make, run: Make) -> None:
    tasks = tuple(replace(task, started=7) for task in node().tasks)
    here, away = node(link="local", tasks=tasks), node(link="up", tasks=tasks)
    page = node_page(here, [run()], Canvas(100, 40), task_key)
    keys = [page.key(k) for k in range(len(page)) if page.key(k)]
    assert keys == ["run:m8/run", "task:4711.7", "task:4712.7", "task:4713.7"]
    assert not any(
        page.key(k).startswith("task") for page in [node_page(away, [], Canvas(), task_key)] for k in range(len(page))
    )
    for other in (node_page(away, [], Canvas(), task_key), node_page(here, [], Canvas())):
        assert not any(other.key(k) for k in range(len(other)))
    assert task_of(here, "4711.7") == tasks[0]
    assert task_of(here, "4711.8") is None
    assert task_of(here, "99.7") is None


def test_a_signal_is_explained_and_asked_about(node: Make, run: Make) -> None:
    task = node().tasks[0]
    page = signals_page(task, run(), Canvas(80, 24))
    assert [page.key(k) for k in range(len(page)) if page.key(k)] == [
        f"signal:{n}" for n in ("TERM", "KILL", "STOP", "CONT")
    ]
    assert "this process trains" in text(page)
    assert question(task, "KILL").startswith("send SIGKILL to 4711 (python)?  y sends it")


def test_ten_thousand_names_do_no_harm(rows: SimpleNamespace, names: Any) -> None:
    while names.count < 10_000:
        node, run = rows.evil(names)
        finding = run.verdict.findings[0]
        for name, page in every(node, run, Canvas(names.chance.choice([79, 120]), 24), finding).items():
            shown = text(page).replace("\n", "")
            assert rows.harm(shown) == [], (name, shown)


def tuned(**changes: Any) -> Tuned:
    """A tuning that keeps four workers; two failed to begin with more."""
    own, four, eight = (Settings(num_workers=n, prefetch_factor=2 if n else None, **OFF) for n in (0, 4, 8))
    facts: dict[str, Any] = {
        "mode": "all", "state": "kept", "where": "train.py:41", "own": own, "now": four, "since_s": 42.0,
        "speedup": SpeedupRow(low=3.7, likely=3.8, high=3.9),
        "tries": [
            TriedRow(settings=four, predicted=2210.0, samples_per_s=2180.0, low=2150.0, high=2200.0, state="ok"),
            TriedRow(
                settings=eight, predicted=2300.0, samples_per_s=None, low=None, high=None, state="failed",
                why="its workers cannot be started",
            ),
        ],
    }  # fmt: skip
    return Tuned(**{**facts, **changes})


OFF = {"pin_memory": False, "persistent_workers": False}


def test_what_was_tuned_stands_below_the_loaders(run: Make, verdict: Make) -> None:
    shown = text(run_page(run(verdict=verdict(tuned=tuned(differs="other random numbers"))), Canvas(100, 24)))
    below = shown[shown.index(" LOADER ") :]
    assert " num_workers=4 prefetch_factor=2 serves at train.py:41 since 0:42: ×3.8 (3.7–3.9) the script's own" in below
    assert " other random numbers" in below
    assert "       4        2     no     2,210     2,180 (2,150–2,200)  serves\n" in below
    assert "       8        2     no     2,300 failed: its workers cannot be started" in below


@pytest.mark.parametrize(
    ("state", "live", "says"),
    [
        ("waiting", True, "waits for batches enough"),
        ("waiting", False, "it ended before anything could be told"),
        ("trying", True, "settings are being tried at train.py:41"),
        ("trying", False, "it ended, it waits 1% of the time"),
        ("healthy", True, "the script's own settings serve, and no others were tried: it waits 1% of the time"),
        ("refused", True, "the script's own settings serve: it waits 1% of the time"),
        ("unchanged", True, "the script's own settings serve: nothing that was tried surely pays"),
        ("lost", True, "the script's own settings serve again: it waits 1% of the time"),
    ],
)
def test_how_a_tuning_stands_is_said(run: Make, verdict: Make, state: str, live: bool, says: str) -> None:
    stands = tuned(state=state, now=None, tries=[], why="it waits 1% of the time")
    shown = text(run_page(run(state="live" if live else "ended", verdict=verdict(tuned=stands)), Canvas(100, 24)))
    assert f" {says}\n" in shown
    assert (" TUNING " if live and state in {"waiting", "trying"} else " TUNED ") in shown
    assert "PREDICTED" not in shown


def test_a_run_that_was_not_to_be_tuned_says_nothing_of_it(run: Make) -> None:
    assert "TUN" not in text(run_page(run(), Canvas(100, 24)))


def test_a_run_that_failed_says_so_first_with_its_last_lines_and_its_log(run: Make, verdict: Make) -> None:
    error = ErrorRow(
        pid=7, rank=None, what="RuntimeError: the disk is full", where="train.py:22", trained=True, others=0
    )
    failed = run(exit_code=1, log="runs/run.log", last=("Traceback", "RuntimeError: the disk is full"),
                 verdict=verdict(exit_code=1, error=error))  # fmt: skip
    page = run_page(failed, Canvas(80, 24))
    shown = [each.text.rstrip() for each in page.head] + [page.line(k).text.rstrip() for k in range(8)]
    assert shown[0].startswith(" train.py status 1 1:01")
    assert shown[2:7] == [
        " FAILED · status 1",
        "  RuntimeError: the disk is full, at train.py:22",
        "  | Traceback",
        "  | RuntimeError: the disk is full",
        "  all of its output: runs/run.log",
    ]
    assert page.key(4) == "copy:runs/run.log"
    assert "RuntimeError" in text(node_page(Node(name="m8"), [failed], Canvas(100, 24)))
    assert "FAILED" not in text(run_page(run(exit_code=0), Canvas(80, 24)))


@pytest.mark.parametrize(
    ("code", "told"), [(1, "status 1"), (-9, "SIGKILL"), (137, "status 137 (SIGKILL)"), (-200, "signal 200")]
)
def test_a_signal_is_called_by_its_name(run: Make, code: int, told: str) -> None:
    assert told in text(run_page(run(exit_code=code), Canvas(120, 24)))
    row = ShareRow(index=0, exit_code=code, why="RuntimeError: x")
    assert (told if code < 0 else f"ended {code}")[:8] in text(share_page(run(procs=(row,)), Canvas(120, 24)))
