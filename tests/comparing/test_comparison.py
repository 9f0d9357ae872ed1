"""What two sides come to, in a document and in words."""

from pathlib import Path

import msgspec
import pytest

from gputune.comparing.comparison import compare
from gputune.comparing.sides import side
from gputune.comparing.words import words
from gputune.verdict.document import CpuRow, DeviceTotals, LedgerRow
from tests.comparing.conftest import Make, finding, loader


def sides(run: Make, tmp_path: Path, a: tuple[float, ...], b: tuple[float, ...], **changes: object) -> tuple[str, str]:
    """Make runs of both sides in turn; `changes` are those of B."""
    for n, rate in enumerate(a):
        run(f"a/{n}", rate, at=2 * n)
    for n, rate in enumerate(b):
        run(f"b/{n}", rate, at=2 * n + 1, **changes)
    return str(tmp_path / "a"), str(tmp_path / "b")


@pytest.mark.parametrize(
    ("a", "b", "state"),
    [
        ((100.0,), (103.0,), "unsure"),
        ((100.0,), (112.0,), "faster"),
        ((100.0,), (80.0,), "slower"),
        ((100.0, 101.0, 99.0), (110.0, 111.0, 109.0), "faster"),
        ((100.0, 120.0, 85.0), (110.0, 130.0, 95.0), "unsure"),
    ],
)
def test_a_difference_is_one_that_the_interval_holds(run: Make, tmp_path: Path, a, b, state) -> None:
    one, two = sides(run, tmp_path, a, b)
    found = compare(side(one), side(two))
    assert found.state == state
    assert (found.runs_needed is not None) == (state == "unsure")
    assert found.basis == ("floor" if len(a) == 1 else "runs")


def test_what_differs_too_much_is_not_compared_unless_asked(run: Make) -> None:
    one, two = (
        side(str(run("a"))),
        side(str(run("b", 1600.0, device=DeviceTotals(name="NVIDIA A100", busy=0.4, count=1)))),
    )
    found = compare(one, two, limit=0.05)
    assert (found.state, found.gate and found.gate.state) == ("not-comparable", "unknown")
    assert found.remedies == ["run both sides on the same kind and number of devices"]
    assert words(found).splitlines()[-3].startswith("not comparable: they differ in device")
    assert compare(one, two, anyway=True).state == "faster"


def test_units_are_not_compared_whatever_is_asked(run: Make) -> None:
    one, two = side(str(run("a"))), side(str(run("b", None, batches=900, steps_per_s=15.0)))
    found = compare(one, two, anyway=True)
    assert (found.state, found.ratio, found.unit) == ("not-comparable", None, "")


def test_one_run_a_side_on_crowded_cpus_tells_nothing(run: Make) -> None:
    crowd = CpuRow(allowed=2.0, job=0.3, others=1.7)
    found = compare(side(str(run("a", 100.0, cpu=crowd))), side(str(run("b", 136.0, cpu=crowd))))
    assert found.state == "not-comparable"
    assert "while nobody else uses the CPUs" in found.remedies[0]


@pytest.mark.parametrize(
    ("b", "state"),
    [((94.0, 94.2, 93.8), "slower"), ((97.0, 97.1, 96.9), "passed"), ((91.0, 95.0, 88.0), "unsure")],
)
def test_a_gate_fails_only_for_sure(run: Make, tmp_path: Path, b, state) -> None:
    one, two = sides(run, tmp_path, (100.0, 100.2, 99.8), b)
    found = compare(side(one), side(two), limit=0.05)
    assert found.gate is not None
    assert found.gate.state == state
    assert (found.gate.runs is not None) == (state == "unsure")


def test_settings_ledger_and_findings_stand_side_by_side(run: Make, tmp_path: Path) -> None:
    run("a/0", 100.0, at=0, findings=[finding("few-workers", 2.0)])
    run("a/1", 101.0, at=2, findings=[finding("few-workers", 2.2)])
    changed = {
        "loaders": [loader(num_workers=4, prefetch_factor=2)],
        "ledger": [LedgerRow(span="step", seconds=54.0, share=0.9), LedgerRow(span="sync", seconds=6.0, share=0.1)],
        "command": ["python", "train.py", "--workers", "4"],
    }
    run("b/0", 200.0, at=1, **changed)
    run("b/1", 201.0, at=3, **changed)
    found = compare(side(str(tmp_path / "a")), side(str(tmp_path / "b")))
    assert [(row.what, row.a, row.b) for row in found.settings if row.a != row.b] == [
        ("command", "-", "--workers 4"),
        ("loader 1 num_workers", "0", "4"),
        ("loader 1 prefetch_factor", "-", "2"),
    ]
    assert {row.span: round(row.difference, 6) for row in found.ledger} == {
        "step": 0.4,
        "loader.wait": -0.5,
        "sync": 0.1,
    }
    assert ("loader 1 batch_size", "16", "16") in [(row.what, row.a, row.b) for row in found.settings]
    assert "batch_size" not in words(found)
    (cause,) = found.findings
    assert (cause.id, cause.a_runs, cause.b_runs, cause.a_gain, cause.b_gain) == ("few-workers", 2, 0, 2.1, None)
    text = words(found)
    assert text.splitlines()[-1].startswith("B is faster: ×2.0 (")
    assert "few-workers  ×2.1 in 2 of 2  -" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(run: Make, tmp_path: Path, width: int) -> None:
    environment = {"PYTHONPATH": "/somewhere/" * 9}
    run("a/0", 100.0, at=0, about={"environment": environment}, exit_code=1)
    b = run("b", 101.0, about={"environment": {}}, command=["python", "train.py", "--folder", "/somewhere/else/" * 5])
    found = compare(side(str(tmp_path / "a")), side(str(b)), limit=0.05)
    text = words(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert text.split()[-40:] == words(found).split()[-40:]  # sentences are broken, not cut


def test_a_risk_is_found_and_promises_no_gain(run: Make) -> None:
    one, two = (
        side(str(run(name, findings=[finding("device-errors", gain)]))) for name, gain in (("a", 1.0), ("b", 1.2))
    )
    (line,) = (line.split() for line in words(compare(one, two)).splitlines() if "device-errors" in line)
    assert line == ["device-errors", "found", "×1.20"]


def test_a_share_differs_by_no_more_than_all(run: Make, tmp_path: Path) -> None:
    for number, share in enumerate((0.05, 0.95)):
        rows = [LedgerRow(span=name, seconds=60 * s, share=s) for name, s in (("step", share), ("sync", 1 - share))]
        run(f"a/{number}", 100.0, at=number, ledger=rows)
    found = compare(side(str(tmp_path / "a")), side(str(run("b"))))
    assert all(-1 <= row.low <= row.difference <= row.high <= 1 for row in found.ledger)


def test_a_run_on_both_sides_is_named(run: Make, tmp_path: Path) -> None:
    first, second = run("a/1", 100.0, at=0), run("a/2", 101.0, at=2)
    found = compare(side(str(tmp_path / "a")), side(str(second)))
    assert found.b.notes == ["2 is on both sides: it differs from itself in nothing"]
    assert "   2 is on both sides: " in words(found)
    assert compare(side(str(first)), side(str(second))).b.notes == []


def test_commits_are_settings(run: Make) -> None:
    commits = [{"id": "ab" * 20, "dirty": False}, {"id": "cd" * 20, "dirty": True}]
    one, two = (side(str(run(name, about={"commit": each}))) for name, each in zip("ab", commits, strict=True))
    assert [(r.what, r.a, r.b) for r in compare(one, two).settings if r.a != r.b] == [
        ("commit", "ababababab", "cdcdcdcdcd with changes")
    ]


def test_a_share_of_one_run_a_side_differs_by_what_two_runs_differ_by(run: Make) -> None:
    found = compare(side(str(run("a"))), side(str(run("b"))))
    assert all(row.low < 0 < row.high for row in found.ledger)


def test_the_document_reads_back(run: Make) -> None:
    found = compare(side(str(run("a"))), side(str(run("b"))), limit=0.1)
    again = msgspec.json.decode(msgspec.json.encode(found), type=type(found))
    assert again == found
    assert again.a.runs[0].started == 1_700_000_000.0


def test_hostile_names_reach_no_terminal(run: Make) -> None:
    evil = run("a\x1b]52;c;x\x07", 100.0, command=["python", "t\x1b[2J.py", "\u202eevil"])
    text = words(compare(side(str(evil)), side(str(run("b")))))
    assert not {"\x1b", "\x07", "\u202e"} & {*text}
