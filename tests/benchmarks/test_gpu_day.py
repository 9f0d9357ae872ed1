"""What a GPU day makes of what it measured: verdicts, time boxes, the table, and what it says where no card is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # as for a script that lies there

import gpu_day  # noqa: E402 - it is found from here on
from gpuday import boxes, causes, clock, cost, device_told, several, table, windows  # noqa: E402 - as above
from gpuday.check import HELD, NOT_HELD, NOT_RUN, TOLD, Check, Failed, Step, held, not_run, read, told  # noqa: E402
from gpuday.day import last_json  # noqa: E402 - as above


class Watch:
    """A clock that a test sets."""

    t = 0.0

    def __call__(self) -> float:
        return self.t


def steps(watch: Watch) -> list[Step]:
    def quick(day):
        watch.t += 5
        yield told("a", "ms", 1.0)

    def broken(day):
        yield held("b", "%", 2.0, 3.0)
        raise Failed("the card\nis gone")

    def slow(day):
        raise AssertionError("it was begun though it does not fit")

    return [Step(("a",), 1, quick), Step(("b", "c"), 1, broken), Step(("d",), 6, slow)]


def test_a_step_that_fails_is_one_sentence_and_one_that_does_not_fit_is_not_begun() -> None:
    watch = Watch()
    checks = list(boxes.taken("part", steps(watch), None, boxes.Box(10, watch)))
    assert [(c.name, c.verdict) for c in checks] == [("a", TOLD), ("b", HELD), ("c", NOT_RUN), ("d", NOT_RUN)]
    assert checks[2].note == "the card is gone"
    assert checks[3].note == "it needs 6 s, and 5 s of the part's 10 s were left"
    assert {c.part for c in checks} == {"part"}


def test_an_error_that_nobody_foresaw_is_named() -> None:
    def surprised(day):
        raise KeyError("x")

    (check,) = boxes.taken("part", [Step(("a",), 0, surprised)], None, boxes.Box(1))
    assert check.note == "KeyError: 'x'"


def test_what_a_part_wrote_before_it_was_ended_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text(json.dumps(told("a", "ms", 1.0).row()) + '\n{"part": "pa')
    checks = boxes.kept(file, "part", steps(Watch()), "its 5 s were over")
    assert [(c.name, c.value, c.verdict) for c in checks[1:]] == [(n, None, NOT_RUN) for n in "bcd"]
    assert checks[0].value == 1.0
    assert checks[1].note == "its 5 s were over"


@pytest.mark.parametrize(
    ("chosen", "total", "expected"),
    [
        (["a", "b"], 308, {"a": 100, "b": 200}),  # all of it, in the usual boxes
        (["a", "b"], 158, {"a": 50, "b": 100}),  # less than all of it needs
        (["a"], 308, {"a": 300}),  # alone: a larger one
        (["a"], 3008, {"a": 400}),  # but no larger than it can use
    ],
)
def test_boxes_are_stretched_over_the_parts_that_are_chosen(chosen, total, expected) -> None:
    assert boxes.stretched({"a": 100, "b": 200}, chosen, total) == pytest.approx(expected)


def test_a_later_call_replaces_what_it_could_run_and_nothing_else() -> None:
    before = [told("a", "ms", 1.0), told("b", "ms", 2.0), not_run("c", "no time")]
    now = [told("a", "ms", 9.0), not_run("b", "no time"), told("c", "ms", 3.0)]
    merged = boxes.merged(before, now, [("", "c"), ("", "a")])
    assert [(c.name, c.value) for c in merged] == [("c", 3.0), ("a", 9.0), ("b", 2.0)]
    (check,) = boxes.merged([not_run("a", "no time")], [not_run("a", "the card is gone")], [])
    assert check.note == "the card is gone"


def test_the_eight_minutes_are_below_what_a_lent_machine_allows_a_command() -> None:
    assert boxes.TOTAL_S + boxes.LAST_S < 600
    usual = {part: box for part, (box, _) in gpu_day.PARTS.items()}
    shares = boxes.stretched(usual, list(usual), boxes.TOTAL_S)
    assert all(step.seconds <= shares[part] for part, (_, of_part) in gpu_day.PARTS.items() for step in of_part)


def test_names_of_checks_are_unique_and_none_is_left_without_a_step() -> None:
    for _, of_part in gpu_day.PARTS.values():
        names = [name for step in of_part for name in step.names]
        assert len(names) == len({*names})
        assert all(step.names for step in of_part)


def test_a_bar_is_of_either_sign() -> None:
    assert held("a", "%", -3.0, 3.0).verdict == HELD
    assert held("a", "%", -3.1, 3.0).verdict == NOT_HELD
    assert held("a", "%", float("nan"), 3.0).verdict == NOT_HELD


def test_a_document_comes_back_as_it_was() -> None:
    checks = [held("a", "%", 1.0, 3.0), not_run("b", "no card"), told("c", "", "text")]
    document = json.loads(json.dumps(table.document(checks, {"card": "X"}, simulated=True)))
    assert document["simulated"] is True
    assert table.checks_of(document) == checks


@pytest.mark.parametrize("bad", [{}, {"schema_version": 99, "checks": []}, {"schema_version": 1, "checks": [{"a": 1}]}])
def test_a_document_of_another_kind_is_refused(bad) -> None:
    with pytest.raises(table.Unreadable):
        table.checks_of(bad)


def test_a_verdict_that_nobody_gives_is_refused() -> None:
    with pytest.raises(ValueError, match="green"):
        read({**told("a", "", 1.0).row(), "verdict": "green"})


def test_the_table_puts_each_check_beside_the_simulated_cards() -> None:
    checks = [held("a", "%", 1.234, 3.0, "a | b"), not_run("b", "one card")]
    before = [held("a", "%", 0.5, 3.0), not_run("b", "x"), told("gone", "ms", 1.0)]
    text = table.words(checks, {"card": "H100"}, before, simulated=False)
    assert "|  | a | % | ≤ 3 | 0.5 | 1.23 | held | a \\| b |" in text
    assert "|  | b |  |  | not run | – | not run | one card |" in text
    assert "1 held, 1 not run." in text
    assert "none of: : gone." in text
    assert "SIMULATED" not in text


def test_a_simulated_cards_table_says_so_first() -> None:
    assert "SIMULATED" in "\n".join(table.words([], {}, [], simulated=True).splitlines()[:3])


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), ("x", "x"), (0.0, "0"), (1.2345, "1.23"), (1234.5, "1234"), (1e-6, "1e-06"), (2.5e7, "2.5e+07")],
)
def test_values_have_as_many_digits_as_they_deserve(value, shown) -> None:
    assert table.cell(value) == shown


def test_the_trace_of_a_simulated_card_is_summed_without_copies_in_both_of_its_forms() -> None:
    old = ["K 90 100 7 gemm", "K 90 999 5 later", "C 90 110 50 h2d pageable 100", "K 80 99 3 before", "torn"]
    new = ["kernel 0 0x1 100 107 gemm 0", "h2d 0 0x1 107 200 - 100", "kernel 0 0x1 999 1004 later 0"]
    assert clock.booked(old, 100, 500) == 7
    assert clock.booked(new, 100, 500) == 7


def segment(number: int, ns: int) -> device_told.Fields:
    return device_told.Fields("SEGMENT", ns, number, 0b101)


def test_a_steps_computing_is_the_sum_of_its_parts_medians() -> None:
    records = [
        device_told.Fields("DEVICE", 4, 0, 0b101),
        device_told.Fields("GAP", 2, 9, 0),
        segment(0, 10),
        segment(0, 12),
        segment(0, 99),
    ]
    assert device_told.told(records)["compute"] is None
    found = device_told.told([*records, segment(2, 5)])
    assert (found["compute"], found["parts"], found["known"], found["seen"]) == (17, 2, 2, 1)
    assert (found["work"], found["idle"], found["copied"]) == (9, 2, 4)
    assert device_told.told([])["compute"] is None


def test_a_change_becomes_options_or_says_what_the_training_lacks() -> None:
    change = {"num_workers": 3, "pin_memory": True, "prefetch_factor": None, "in_order": False}
    assert windows.options(change) == ["--num-workers", "3", "--pin-memory", "1"]
    with pytest.raises(Failed, match="`in_order`"):
        windows.options({"in_order": True})


def test_what_watching_costs_is_held_against_the_bare_runs_on_both_sides() -> None:
    assert cost.costs([1.0, 1.2, 1.0], [1.1, 1.21]) == pytest.approx([0.0, 10.0])
    assert cost.depth_for(0.008, 8) == 2


def test_what_it_costs_is_not_known_where_bare_runs_differ_by_more() -> None:
    assert cost.known([1.0, 1.2, 1.205], [1.1, 1.21]) == pytest.approx([100 * (1.21 / 1.2025 - 1)])
    assert cost.known([1.0, 1.2], [1.1]) == []


def test_where_bare_runs_differ_the_median_step_is_told_all_the_same() -> None:
    bare, watched = [{"step_s": t, "median_s": 1.0} for t in (1.0, 1.2)], [{"step_s": 1.3, "median_s": 1.01}]
    made = cost.judged(5, bare, watched)
    checks = [next(made) for _ in range(3)]
    assert [(check.name, check.verdict) for check in checks][1] == ("the same of the median step", TOLD)
    assert checks[1].value == pytest.approx(1.0)
    with pytest.raises(Failed, match=r"bare runs differ by 20.0 %, watched ones by \+18.18 %"):
        next(made)


def cause(first: str, findings: list, realised: float) -> list[Check]:
    return list(causes.judged("sync_every_step_item", first, findings, realised))


def test_a_cause_is_right_if_it_is_first_and_its_gain_comes_true() -> None:
    findings = [{"id": "sync-every-step", "speedup": {"likely": 1.5}}]
    first, gain = cause("sync-every-step", findings, 1.2)
    assert (first.verdict, gain.verdict, gain.value) == (HELD, HELD, pytest.approx(25.0))
    assert [c.verdict for c in cause("few-workers", findings, 1.2)] == [NOT_HELD, NOT_RUN]


def test_silence_is_right_only_where_the_fix_brings_nothing() -> None:
    assert [c.verdict for c in cause("nothing", [], 1.01)] == [TOLD, NOT_RUN]
    assert [c.verdict for c in cause("nothing", [], 1.3)] == [NOT_HELD, NOT_RUN]


def test_the_rank_that_a_finding_names_is_read() -> None:
    assert several.named_rank({"where": "", "says": "rank 3 is late"}) == 3
    assert several.named_rank({"where": "", "says": "somebody is"}) is None


def test_figures_are_the_last_object_that_was_printed() -> None:
    assert last_json('epoch 1\n{"a": 1}\n{"a": 2}\nbye\n') == {"a": 2}
    with pytest.raises(Failed):
        last_json("no figures\n")


def test_without_a_card_it_says_so_in_one_sentence_and_leaves_77(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "gpu_day.py"), "--out", str(tmp_path / "out")],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 77
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpu-day: ")
    assert not (tmp_path / "out").exists()


def test_what_is_kept_of_the_simulated_card_is_readable_and_marked() -> None:
    found = json.loads(gpu_day.KEPT.read_text())
    assert found["simulated"] is True
    assert "SIMULATED" in found["about"]["what"]
    known = {(part, name) for part, (_, of_part) in gpu_day.PARTS.items() for step in of_part for name in step.names}
    assert {(check.part, check.name) for check in table.checks_of(found)} <= known
