"""The verdict on a terminal: short, right without colour, and safe to show."""

import re
from collections.abc import Callable
from dataclasses import replace
from textwrap import wrap
from typing import Any

import pytest

from gputune.core.finding import NO_CHANGE, Effect, Finding, Speedup
from gputune.core.sample import Guest
from gputune.features import Doing, Features, Frame, Interpreted, Machine
from gputune.report.streams import colour_wanted, encodable
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, build

Make = Callable[..., Any]
FOLDER = "gputune-runs/2026-11-21T10-01-06-train"


def shown(run: Features, *findings: Finding, width: int = 80, guests: tuple[Guest, ...] | None = None) -> list[str]:
    """Return the lines of a verdict without colour."""
    verdict = build(run, findings, overhead=Overhead(), guests=guests)
    return render(verdict, width=width, colour=False, run_folder=FOLDER).split("\n")


def test_says_where_the_time_went_why_what_it_is_worth_and_what_to_type(features: Make, finding: Make) -> None:
    text = "\n".join(shown(features(), finding()))
    assert "python train.py · 61.2 s · 855 samples/s · 3,100 batches" in text
    assert "NVIDIA H200 41% busy" in text
    assert "loader.wait 57%" in text
    assert "1. few-workers  ×2.2 (1.9–2.3)  at train.py:41" in text
    assert "do: set num_workers=6" in text
    assert "results: same order of samples, other randomness in augmentation" in text
    assert "gputune explain few-workers" in text
    assert f"gputune prove {FOLDER}" in text


def test_the_best_silent_rival_is_named_where_it_promises_about_as_much(features: Make, finding: Make) -> None:
    near = {"instead.heavy-collate": 2.05, "instead.small-files": 2.15, "instead.cold-cache": 1.2}
    text = "\n".join(shown(features(), finding(evidence=near)))
    assert "1. few-workers  ×2.2 (1.9–2.3); or instead small-files ×2.1  at train.py:41" in text
    assert "heavy-collate" not in text
    assert "instead" not in "\n".join(shown(features(), finding(evidence={"instead.cold-cache": 1.9})))


def test_what_only_an_edit_of_the_script_can_prove_is_not_offered_as_a_command(features: Make, finding: Make) -> None:
    text = "\n".join(shown(features(), finding(change={"save_every": 50})))
    assert f"gputune report {FOLDER}" in text
    assert "gputune prove" not in text


def test_what_ran_in_a_notebook_is_not_to_be_run_again(features: Make, finding: Make) -> None:
    kernel = ("python", "-m", "ipykernel_launcher", "-f", "kernel-1.json")
    text = "\n".join(shown(features(command=kernel), finding()))
    assert f"gputune report {FOLDER}" in text
    assert "gputune prove" not in text


def test_a_report_that_was_asked_for_again_names_the_proof_and_not_itself(features: Make, finding: Make) -> None:
    for change, ends in (({"num_workers": 6}, f" · gputune prove {FOLDER}"), ({"save_every": 50}, "few-workers")):
        verdict = build(features(), [finding(change=change)], overhead=Overhead())
        line = render(verdict, width=100, run_folder=FOLDER, again=True).splitlines()[-1]
        assert line.startswith("next: gputune explain few-workers")
        assert line.endswith(ends)


def test_what_may_help_is_said_with_its_place_and_how_to_settle_it(features: Make, finding: Make) -> None:
    unsure = finding(speedup=Speedup(low=0.74, likely=1.21, high=1.46, steady=1.02))
    around = finding(id="busy-host", do="end or move the others", where="", change={})
    for found in ([], [around]):
        verdict = build(features(), found, perhaps=[unsure], overhead=Overhead())
        text = " ".join(render(verdict, run_folder=FOLDER).split())
        assert "no change was found that is sure to help" in text
        assert "perhaps few-workers, ×1.21 (1.02–1.46 if steps keep their pace) at train.py:41: set" in text
        assert "next: gputune explain few-workers # what it is, and when it is wrong gputune prove" in text
        assert f"gputune prove {FOLDER} few-workers" in text


def test_of_several_with_one_id_the_command_names_the_place(features: Make, finding: Make) -> None:
    unsure = finding(speedup=Speedup(low=0.74, likely=1.21, high=1.46, steady=1.02), where="train.py:60")
    verdict = build(features(), [finding()], perhaps=[unsure], overhead=Overhead())
    assert f"gputune prove {FOLDER} few-workers@train.py:60" in render(verdict, run_folder=FOLDER)


def test_what_others_cost_does_not_hide_what_the_script_itself_does(features: Make, finding: Make) -> None:
    text = " ".join(shown(features(), finding(id="busy-host")))
    assert "in the script itself, the loader holds it up: 60% of the time" in text


@pytest.mark.parametrize(("stacks", "told"), [(60, True), (4, False)])
def test_where_batches_are_made_is_said_where_no_change_is_sure(
    features: Make, process: Make, stacks: int, told: bool
) -> None:
    """A lock of files, say, has no frame and no name: but its line is where the workers stand."""
    locked = Doing(kind="own", what="Cached.__getitem__", where="data.py:11", share=0.83)
    text = " ".join(shown(features(processes=(process(making=(locked,), making_stacks=stacks),))))
    assert ("is loader.wait (83% of making a batch at data.py:11, Cached.__getitem__), " in text) is told


def test_a_run_that_was_over_before_anybody_looked_is_told_what_a_longer_one_shows(
    features: Make, process: Make
) -> None:
    longer = "what its batches are made of shows in a longer run"
    assert longer in " ".join(shown(features()))
    assert longer not in " ".join(shown(features(unavailable={"stacks": "no permission"})))  # nor there
    frames = (Frame(where="train.py:60", function="augment", share=0.7, compute=False),)
    assert longer not in " ".join(shown(features(processes=(process(frames=frames, stack_samples=50),))))


def test_a_risk_is_said_with_when_it_comes_true_and_without_a_gain_that_is_none(features: Make, finding: Make) -> None:
    risk = {"id": "memory-growth", "risk": "full in 40 min at 3 MB a batch", "due": 2400.0, "speedup": NO_CHANGE}
    text = "\n".join(shown(features(), finding(), finding(**risk)))
    assert "2. memory-growth  risk  at train.py:41" in text
    assert "full in 40 min at 3 MB a batch" in text
    assert "full in 40 min" in "\n".join(shown(features(), finding(**risk)))


def test_what_ends_the_run_before_long_is_said_however_many_gains_come_before_it(features: Make, finding: Make) -> None:
    risk = finding(id="memory-growth", risk="the memory is full in 4 min", due=240.0, speedup=NO_CHANGE)
    later = finding(id="small-shm", risk="full in nine days", due=777_600.0, speedup=NO_CHANGE)
    gains = [finding(id=name) for name in ("few-workers", "heavy-collate", "blocking-copy", "host-bound")]
    text = "\n".join(shown(features(), *gains, later, risk))
    assert "6. memory-growth  risk" in text
    assert "full in 4 min" in text
    assert "small-shm" not in text


def test_an_offer_does_not_make_a_healthy_run_ill(features: Make, finding: Make, process: Make) -> None:
    run = features(processes=(process(ledger={"step": 57.0, "loader.wait": 1.7, "startup": 2.5}),))
    text = "\n".join(shown(run, finding(id="room-to-share", offer="two such jobs fit", speedup=NO_CHANGE)))
    assert "nothing to gain from the loader" in text
    assert "1. room-to-share  offer  at train.py:41" in text
    assert "two such jobs fit" in text


def test_a_healthy_run_says_so_in_three_lines(features: Make, process: Make) -> None:
    lines = shown(features(processes=(process(ledger={"step": 57.0, "loader.wait": 1.7, "startup": 2.5}),), devices=()))
    assert (
        lines
        == [
            "gputune: python train.py · 61.2 s · 855 samples/s · 3,100 batches",
            "█ step 93%  ▓ startup 4%  ▒ loader.wait 3%",
            "nothing to gain from the loader: 97% of the time after start-up is the step",
        ]
        or len(lines) == 4
    )


def test_does_not_call_waiting_healthy_because_nobody_knows_a_cure(features: Make) -> None:
    text = " ".join(shown(features()))
    assert "nothing to gain from the loader" not in text
    assert "no change was found that is sure to help" in text


def test_says_that_nothing_is_worth_changing_only_where_little_is_waited(features: Make, process: Make) -> None:
    text = "\n".join(shown(features(processes=(process(ledger={"step": 52.0, "loader.wait": 8.0}),))))
    assert "nothing found that is worth changing" in text


def test_names_the_place_where_most_of_an_unexplained_step_goes(features: Make, process: Make) -> None:
    frames = (Frame(where="train.py:60", function="augment", share=0.7, compute=False),)
    text = " ".join(shown(features(processes=(process(frames=frames, stack_samples=50),))))
    assert "most of it at train.py:60 in augment" in text


def test_lines_that_train_nothing_are_no_all_clear(features: Make, process: Make) -> None:
    quiet = {"ledger": {"step": 58.0, "startup": 3.2}, "looked": 200}
    device = features().devices  # busy for 41 %: a line may as well wait for it
    # 22 % of the stacks are not surely as much as would be worth a word
    for share, devices, told in ((0.5, (), True), (0.22, (), False), (0.5, device, False)):
        line = Interpreted(where="train.py:7", function="clip", share=share)
        text = " ".join(shown(features(processes=(process(aside=(line,), **quiet),), devices=devices)))
        said = "50% of the loop is in lines that neither run a model nor train, mostly at train.py:7 in clip: at most ×"
        assert (said in text) is told
        assert ("no change was found that is sure to help" in text) is told
        assert ("nothing to gain from the loader" in text) is not told


def test_a_loop_that_waits_is_said_to_be_held_up_before_it_is_said_that_no_cure_is_known(features: Make) -> None:
    text = " ".join(shown(features()))
    assert "the loader holds it up: 60% of the time after start-up is loader.wait" in text
    assert text.index("holds it up") < text.index("no change was found that is sure to help")


def test_a_pause_that_is_no_finding_is_named_beside_the_step(features: Make, process: Make) -> None:
    spent = {"step": 54.0, "checkpoint": 3.6, "logging": 0.6, "startup": 3.0}
    text = " ".join(shown(features(processes=(process(ledger=spent),))))
    assert "93% of the time after start-up is the step; checkpoint 6%" in text
    assert "the step; logging" not in text


def test_standing_in_launches_is_told_as_waiting_for_the_device(features: Make, process: Make) -> None:
    spent = {"step": 14.25, "launch.wait": 42.75, "startup": 3.0}
    text = " ".join(shown(features(processes=(process(ledger=spent),))))
    said = (
        "100% of the time after start-up is the step, 75% of it waiting for the device in launches: its queue is full"
    )
    assert said in text
    assert "launch.wait 7" in text
    little = {"step": 56.0, "launch.wait": 1.0, "startup": 3.0}
    assert "queue is full" not in " ".join(shown(features(processes=(process(ledger=little),))))


def test_says_of_a_training_that_was_not_seen_from_inside_where_its_stacks_were(features: Make, process: Make) -> None:
    frames = (
        Frame(where="train.py:60", function="augment", share=0.5, compute=True),
        Frame(where="train.py:60", function="augment", share=0.2, compute=False),
    )
    text = " ".join(shown(features(processes=(process(guest="it runs with -I", frames=frames, stack_samples=50),))))
    assert "no training was seen from inside; its stacks were 70% at train.py:60 in augment" in text


def test_does_not_praise_a_loader_that_is_not_there(features: Make, process: Make) -> None:
    text = " ".join(shown(features(processes=(process(loaders=(), ledger={"step": 58.0, "startup": 3.2}),))))
    assert "loader" not in text
    assert "100% of the time after start-up is the step" in text


def test_shows_the_name_of_a_script_and_not_its_whole_path(features: Make) -> None:
    (first, *_rest) = shown(features(command=("/usr/bin/python3", "/home/someone/project/train.py", "--lr=0.1")))
    assert first.startswith("gputune: python3 train.py --lr=0.1 · ")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_keeps_to_fifteen_lines_or_as_many_shorter_ones_of_the_given_width(
    features: Make, finding: Make, width: int, count: int
) -> None:
    long = "a sentence that goes on about the many things that were seen in this run " * 4
    run = features(
        unavailable={f"probe{n}": long for n in range(5)},
        dropped=12,
        command=("python", "a-very-long-name-of-a-script.py", *["--option"] * 30),
    )
    findings = [finding(says=long, do=long, where="some/long/path/to/" * 3 + "train.py:41")] * count
    lines = shown(run, *findings, width=width)
    to_do = len(wrap(f"do: {long}", width - 3, break_on_hyphens=False)) - 1 if findings else 0
    assert len(lines) <= max(15, 15 * 80 // width) + to_do
    assert not findings or f"do: {long.strip()}" in " ".join(" ".join(lines).split())  # which is never cut
    assert [line for line in lines if len(line) > width and "gputune " not in line] == []


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_loses_no_word(features: Make, finding: Make, process: Make, width: int) -> None:
    run = features(
        exit_code=137,
        processes=(process(), process(pid=9, guest="it runs with -I, so no guest could speak")),
    )
    found = finding(where="some/long/path/to/the/train.py:41")
    wide, narrow = shown(run, found, width=100), shown(run, found, width=width)
    assert [line for line in narrow if len(line) > width and "gputune " not in line] == []
    assert "…" not in "".join(narrow)
    said = set("\n".join(narrow).split())
    below = wide[[line.startswith("1.") for line in wide].index(True) :]
    assert [word for line in below for word in line.split() if word not in said and "(`gputune" not in line] == []


def test_every_effect_on_the_results_is_in_words(features: Make, finding: Make) -> None:
    order: tuple[Effect, ...] = ("same-order", "changes-order", "may-duplicate")
    numbers: tuple[Effect, ...] = ("changes-rounding", "changes-learning", "unknown")
    for effect in (*order, *numbers):
        assert [line for line in shown(features(), finding(effect=effect)) if "results: " in line and "…" not in line]
    assert "results:" not in "\n".join(shown(features(), finding(effect="identical")))


def test_what_an_effect_rests_on_is_said_with_it(features: Make, finding: Make) -> None:
    text = " ".join(" ".join(shown(features(), finding(effect="changes-order", because="it draws (torch)"))).split())
    assert "results: the order of the samples may change (it draws (torch))" in text


def test_names_a_process_that_was_not_heard_with_the_reason(features: Make, process: Make) -> None:
    lines = shown(features(processes=(process(guest="it runs with -I"),)))
    assert "not seen from inside: process 4711: it runs with -I" in lines
    assert "%" not in "".join(lines[1:])


def test_nobody_is_sent_to_the_doctor_for_records_that_came_too_late(features: Make, process: Make) -> None:
    """The machine can be measured well: what was missing is a recorder."""
    late = process(guest="the recorder came too late for 420 of the 520 records that it wrote")
    lines = shown(features(processes=(late,), dropped=420))
    assert not [line for line in lines if "gputune doctor" in line]
    assert "420 records were lost, the recorder came too late: figures are of the rest" in lines
    assert [line for line in shown(features(processes=(late,))) if "gputune doctor" in line]


def test_the_reason_why_a_process_was_not_seen_is_not_cut(features: Make, process: Make) -> None:
    reason = "Python was started with -I, which leaves PYTHONPATH or sitecustomize out"
    said = " ".join(line.strip() for line in shown(features(processes=(process(guest=reason),))))
    assert f"process 4711: {reason}" in said


def test_abstains_from_too_few_batches(features: Make, process: Make, loader: Make) -> None:
    text = "\n".join(shown(features(processes=(process(loaders=(loader(waits=(0.01,) * 5),)),))))
    assert "too few batches: 5 after the warm-up" in text
    assert "nothing to gain" not in text


def guest(state: str, role: str = "main") -> Guest:
    """Return a process as it was sighted."""
    return Guest(0, 1, 0, 0, 0, role, state)  # type: ignore[arg-type] # a role is one of three words


@pytest.mark.parametrize(
    ("guests", "says"),
    [
        (None, "no DataLoader was iterated and no optimizer made a step"),
        ((), "started no Python that gputune could reach"),
        ((guest("none", "worker"),), "started no Python that gputune could reach"),
        ((guest("hello"),), "one Python process ran and did not use torch"),
        ((guest("ring"),), "torch was used, but no DataLoader was iterated"),
    ],
)
def test_a_run_without_training_says_what_was_seen(features: Make, guests: tuple[Guest, ...] | None, says: str) -> None:
    text = " ".join(shown(features(processes=()), guests=guests))
    assert says in text
    assert "gputune doctor" in text


@pytest.mark.parametrize(
    ("guests", "status", "says"),
    [
        ((guest("hello"),), 1, "the command failed with status 1 before it used torch"),
        ((guest("hello"),), 130, "the command was ended by SIGINT before it used torch"),
        ((guest("ring"),), 1, "the command failed with status 1 before it trained"),
        ((), 2, "the command failed with status 2 and had started no Python that gputune could reach"),
        ((), 137, "the command was ended by SIGKILL and had started no Python that gputune could reach"),
        ((), 255, "the command failed with status 255 and had started no Python that gputune could reach"),
    ],
)
def test_a_command_that_failed_before_it_trained_is_none_for_the_doctor(
    features: Make, guests: tuple[Guest, ...], status: int, says: str
) -> None:
    text = " ".join(shown(features(processes=(), exit_code=status), guests=guests))
    assert says in text
    assert "no training was seen" not in text
    assert "gputune doctor" not in text


def test_a_training_that_failed_early_is_not_told_to_run_longer(features: Make, process: Make, loader: Make) -> None:
    few = process(loaders=(loader(waits=(0.01,) * 5, steps=(0.01,) * 5, fetches=()),), batches=8, optimizer_steps=8)
    text = " ".join(" ".join(shown(features(processes=(few,), exit_code=1))).split())
    assert "the command failed with status 1 after 8 batches, too few to predict anything from" in text
    assert "longer" not in text


def test_a_training_that_was_mostly_start_up_says_what_is_judged(features: Make, process: Make, finding: Make) -> None:
    short = process(ledger={"startup": 40.0, "step": 10.0, "loader.wait": 11.2}, loop=20.0)
    assert "start-up left out, this is about the 20.0 s of training:" in shown(features(processes=(short,)), finding())


def test_an_exit_status_is_shown_where_it_is_not_zero(features: Make) -> None:
    text = "\n".join(shown(features(exit_code=137)))
    assert "exit status 137 (SIGKILL)" in text
    assert "SIGKILL (137): often the out-of-memory killer" in text
    assert "exit status 143 (SIGTERM)" in "\n".join(shown(features(exit_code=143)))
    assert "exit status 3\n" in "\n".join(shown(features(exit_code=3)))
    assert "exit status 255\n" in "\n".join(shown(features(exit_code=255)))
    assert "exit status" not in "\n".join(shown(features()))


@pytest.mark.parametrize(
    ("kills", "says"),
    [
        ((1, "machine"), "the kernel killed a process of this machine for want of memory during the run"),
        ((2, "control group"), "the kernel killed 2 processes of the run's control group for want of memory"),
    ],
)
def test_who_was_killed_for_want_of_memory_is_said(features: Make, kills: tuple[int, str], says: str) -> None:
    text = " ".join(shown(features(exit_code=1, oom_kills=kills)))
    assert says in text
    assert "often" not in text


def test_of_a_training_that_an_inner_watch_listens_to_nothing_more_is_said(features: Make, process: Make) -> None:
    inner = process(guest="another `gputune watch` inside this one listens to it", stack_samples=50)
    run = features(processes=(inner,), devices=(), unavailable={"nvml": "there is no driver"})
    assert " ".join(shown(run)[1:]) == (
        "another `gputune watch` inside this one listens to it: its verdict is the one on this training"
    )


def test_escape_sequences_from_the_run_do_not_reach_the_terminal(features: Make, process: Make, finding: Make) -> None:
    bad = "x\x1b]52;c;ZXZpbA==\x07\u202e\x9b31m"
    run = features(command=("python", bad), unavailable={bad: bad})
    text = "\n".join(shown(run, finding(where=bad, says=bad, do=bad)))
    text += "\n".join(shown(features(processes=(process(guest=bad),))))
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text) is None


def test_colour_changes_no_word(features: Make, finding: Make) -> None:
    verdict = build(features(), [finding()], overhead=Overhead())
    plain = render(verdict, width=80, colour=False, run_folder=None)
    assert re.sub(r"\x1b\[[\d;]+m", "", render(verdict, width=80, colour=True, run_folder=None)) == plain
    assert "gputune prove" not in plain


@pytest.mark.parametrize(
    ("environ", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_only_where_it_is_wanted(environ: dict[str, str], *, terminal: bool, wanted: bool) -> None:
    assert colour_wanted(environ, terminal=terminal) is wanted


def test_a_terminal_without_unicode_gets_plain_letters(features: Make, finding: Make) -> None:
    text = "\n".join(shown(features(), finding()))
    assert encodable(text, "utf-8") == text
    plain = encodable(text, "ascii")
    assert "x2.2 (1.9-2.3)" in plain
    assert plain.isascii()
    assert encodable("é ×", None) == "? x"


def test_gains_below_a_half_show_the_digits_that_differ(features: Make, finding: Make) -> None:
    lines = shown(features(), finding(speedup=Speedup(low=1.02, likely=1.08, high=1.13)))
    assert any("×1.08 (1.02–1.13)" in line for line in lines)


def test_says_what_the_host_of_a_virtual_machine_took_where_it_matters(features: Make) -> None:
    machine = Machine(cpus=2, cpus_seen=2, busy=1.5, stolen=0.3)
    told = shown(features(machine=machine), width=120)
    assert any("gave 20% of the CPU time wanted to others" in line for line in told)
    little = replace(machine, stolen=0.03)
    assert not any("host of this virtual machine" in line for line in shown(features(machine=little)))


@pytest.mark.parametrize(
    ("share", "said"), [(0.2, "it waits for the training"), (0.97, "if the training waits for that thread")]
)
def test_says_who_takes_the_batches_where_the_training_does_not(
    features: Make, process: Make, loader: Make, share: float, said: str
) -> None:
    apart = loader(waits=(), steps=(), wait_total=0.0, apart=share)
    run = features(processes=(process(loaders=(apart,), ledger={"step": 57.0, "startup": 2.5}),), devices=())
    text = " ".join(line.strip() for line in shown(run))
    assert f"another thread takes its batches, and is in next() {share:.0%} of the time: {said}" in text
    assert "nothing to gain from the loader" not in text
    assert "run longer" not in text


def test_a_short_run_shows_its_loop_and_the_rest_as_figures(features: Make, process: Make) -> None:
    spent = {"startup": 8.0, "step": 6.0, "loader.wait": 2.0, "teardown": 4.0}
    short = process(ledger=spent, wall=20.0, loop=8.0)
    text = "\n".join(shown(features(processes=(short,), wall=20.0, devices=())))
    assert "20.0 s (8.0 s start-up, 4.0 s teardown)" in text
    assert "█ step 75%  ▓ loader.wait 25%\n" in text
    long = replace(short, wall=40.0, ledger={name: 2 * seconds for name, seconds in spent.items()})
    text = "\n".join(shown(features(processes=(long,), wall=40.0, devices=())))
    assert "█ startup 40%  ▓ step 30%  ▒ teardown 20%  ░ loader.wait 10%\n" in text
