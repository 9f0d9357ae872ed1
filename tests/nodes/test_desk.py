"""What an agent serves, and what it does not, whatever somebody asks for."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gputune.feeds.rows import History, Node, RunRow, Update
from gputune.nodes import desk as desks
from gputune.nodes.desk import Desk, NoSuchRun
from gputune.recording import Recording
from gputune.verdict.document import DeviceTotals, Overhead, Verdict
from gputune.wire.messages import LARGEST_ANSWER, MACHINE, Ask, Since


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with nothing measured."""
    Recording.create(tmp_path / "run", {"command": ["x"]}).close()
    return tmp_path / "run"


def told(desk: Desk, since: Since) -> tuple[list[str], list[str], Since]:
    """Return the names of what is new, and what to ask with next time."""
    news = desk.news(since)
    update = msgspec.json.decode(news.update, type=Update)
    rows = [node.name for node in update.nodes], [run.id for run in update.runs]
    return *rows, Since(until=update.until, life=news.life)


def test_only_changed_rows_are_news(folder: Path) -> None:
    desk = Desk("m8", folder)
    desk.put(Update(until=0, nodes=(Node(name="a"), Node(name="b")), runs=(RunRow(id="a/1", node="a", name="x"),)))
    nodes, runs, since = told(desk, Since())
    assert (nodes, runs) == (["a", "b"], ["a/1"])
    desk.put(Update(until=0, nodes=(Node(name="a"), Node(name="b", cpu=1.0))))
    assert told(desk, since)[:2] == (["b"], [])
    assert told(desk, Since(until=since.until, life="x"))[0] == ["a", "b"]
    assert told(desk, Since(until=10**6, life=since.life))[0] == ["a", "b"]
    desk.close()


def test_what_does_not_go_into_one_answer_comes_with_the_next() -> None:
    desk = Desk("rack", None)
    ids = [f"a/{number}" for number in range(300)]
    wide = ("x" * 300,) * 100
    desk.put(
        Update(
            until=0,
            nodes=(Node(name="a"),),
            runs=tuple(RunRow(id=name, node="a", name="x", command=wide) for name in ids),
        )
    )
    desk.put(Update(until=0, nodes=(Node(name="a", cpu=1.0),)))  # changed after all of its runs
    pieces, since = list[Update](), Since()
    while not pieces or pieces[-1].more:
        news = desk.news(since)
        assert len(news.update) < LARGEST_ANSWER
        assert news.whole is not bool(pieces)
        pieces.append(msgspec.json.decode(news.update, type=Update))
        since = Since(until=pieces[-1].until, life=news.life)
    assert len(pieces) > 1
    assert [run.id for piece in pieces for run in piece.runs] == ids
    assert [node.cpu for piece in pieces for node in piece.nodes] == [1.0]
    assert told(desk, since)[:2] == ([], [])
    desk.close()


def verdict(batches: int) -> Verdict:
    return Verdict(
        command=["x"],
        exit_code=None,
        wall_s=60.0,
        samples_per_s=None,
        batches=batches,
        device=DeviceTotals(name=None, busy=None),
        loaders=[],
        ledger=[],
        findings=[],
        overhead=Overhead(),
        unavailable=[],
    )


LIVE = RunRow(id="a/1", node="a", name="x", verdict=verdict(5), history=History(busy=(0.5,) * 200))


def asked(desk: Desk, since: Since) -> tuple[Update, int]:
    """Return what is new, and how many B it took to say."""
    news = desk.news(since)
    return msgspec.json.decode(news.update, type=Update), len(news.update)


def test_verdicts_and_histories_go_out_when_they_change(folder: Path) -> None:
    desk = Desk("m8", folder)
    desk.put(Update(until=0, nodes=(Node(name="a"),), runs=(LIVE,)))
    first, much = asked(desk, Since())
    assert first.runs == (LIVE,)
    life = desk.hello().life

    desk.put(Update(until=0, runs=(replace(LIVE, at=1.0),)))
    later, little = asked(desk, Since(until=first.until, life=life, parts=True))
    assert later.same == {"a/1": ("verdict", "recent", "history")}
    assert later.runs == (RunRow(id="a/1", node="a", name="x", at=1.0),)
    assert little < much / 2
    older, _ = asked(desk, Since(until=first.until, life=life))  # a screen that knows nothing of parts
    assert (older.runs, older.same) == ((replace(LIVE, at=1.0),), {})

    judged = replace(LIVE, at=2.0, verdict=verdict(7))
    desk.put(Update(until=0, runs=(judged,)))
    latest, _ = asked(desk, Since(until=later.until, life=life, parts=True))
    assert latest.runs == (replace(judged, history=History()),)
    missed, _ = asked(desk, Since(until=first.until, life=life, parts=True))
    assert missed.runs == latest.runs
    assert asked(desk, Since())[0].runs == (judged,)
    desk.close()


def test_documents_and_samples_are_of_runs_that_are_told_of(folder: Path) -> None:
    desk = Desk("m8", folder)
    with pytest.raises(NoSuchRun):
        desk.document("a/1", "run.json")
    desk.put(Update(until=0, runs=(RunRow(id="a/1", node="a", name="x", folder=str(folder)),)))
    assert desk.hello().runs == (MACHINE, "a/1")
    assert b"schema_version" in desk.document("a/1", "run.json")
    assert desk.pull(Ask(run="a/1"))[1].rows == 0
    with pytest.raises(NoSuchRun):
        desk.document("a/1", "live.json")
    desk.put(Update(until=0, runs_gone=("a/1",)))
    assert desk.hello().runs == (MACHINE,)
    with pytest.raises(NoSuchRun):
        desk.pull(Ask(run="a/1"))
    desk.close()


def test_a_relay_opens_no_folder_that_others_name(folder: Path) -> None:
    desk = Desk("rack", None)
    desk.put(Update(until=0, runs=(RunRow(id="a/1", node="a", name="x", folder=str(folder)),)))
    assert desk.hello().runs == ()
    for run in ("a/1", MACHINE):
        with pytest.raises(NoSuchRun):
            desk.document(run, "run.json")
    desk.close()


def test_the_ranks_of_a_job_are_runs(tmp_path: Path) -> None:
    job = tmp_path / "job"
    for rank in range(2):
        Recording.create(job / f"rank-{rank:05d}", {}).close()
    (job / "job").write_text("torch-x")
    desk = Desk("m8", tmp_path)
    desk.put(Update(until=0, runs=(RunRow(id="m8/job", node="m8", name="x", folder=str(job)),)))
    assert desk.hello().runs == (MACHINE, "m8/job/rank-00000", "m8/job/rank-00001", "m8/job")
    assert desk.pull(Ask(run="m8/job/rank-00001"))[1].rows == 0
    desk.put(Update(until=0, runs_gone=("m8/job",)))
    assert desk.hello().runs == (MACHINE,)
    desk.close()


def test_more_runs_than_are_held_open_can_be_read_in_turn(tmp_path: Path) -> None:
    desk = Desk("m8", tmp_path)
    for number in range(12):
        Recording.create(tmp_path / f"{number}", {}).close()
        desk.put(
            Update(until=0, runs=(RunRow(id=f"{number}", node="m8", name="x", folder=str(tmp_path / f"{number}")),))
        )
    for number in (*range(12), 0, 5):
        assert desk.pull(Ask(run=f"{number}"))[1].rows == 0
    desk.close()


def test_what_a_reader_that_hangs_has_left_is_not_told_as_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [100.0]
    monkeypatch.setattr(desks.time, "monotonic", lambda: at[0])
    desk = Desk("m8", None)
    desk.put(Update(until=0, nodes=(Node(name="a"),)))
    at[0] += desks.HANGING + 1
    with pytest.raises(desks.Hangs, match="read nothing for 16 s"):
        desk.news(Since())
    desk.beat()
    assert desk.news(Since()).update
