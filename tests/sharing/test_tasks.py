"""Jobs become processes: each with its own arguments, variables, log and card."""

from pathlib import Path

import pytest

from gputune.sharing.spec import AUTO, Spec, TaskSpec
from gputune.sharing.tasks import tasks

ONE = TaskSpec(argv=("python", "train.py", "--lr", "1"), count=3)


def test_the_users_arguments_come_first_and_untouched() -> None:
    found = tasks(Spec(jobs=(ONE,), logs="/logs"))
    assert found[1].argv == ("python", "train.py", "--lr", "1", "--process_index", "1", "--process_num", "3")
    assert (found[1].env["GPUTUNE_PROCESS_INDEX"], found[1].env["GPUTUNE_PROCESS_NUM"]) == ("1", "3")
    assert [task.log for task in found] == [f"/logs/process{n}.log" for n in range(3)]


def test_flags_and_variables_have_the_names_that_were_asked_for() -> None:
    spec = Spec(jobs=(ONE,), index_flag="--shard", num_flag="--shards", index_env="SHARD")
    assert tasks(spec)[2].argv[-4:] == ("--shard", "2", "--shards", "3")
    assert (tasks(spec)[2].env["SHARD_INDEX"], tasks(spec)[2].env["SHARD_NUM"]) == ("2", "3")
    bare = Spec(jobs=(TaskSpec(argv=("a",), count=2, index_args=False),))
    assert [task.argv for task in tasks(bare)] == [("a",), ("a",)]


def test_counts_are_per_card() -> None:
    found = tasks(Spec(jobs=(ONE,)), ("GPU-a", "GPU-b"))
    assert [(task.number, task.of, task.card[-1]) for task in found] == [(n, 6, "aaabbb"[n]) for n in range(6)]
    assert found[4].env["CUDA_VISIBLE_DEVICES"] == "GPU-b"


def test_several_jobs_are_counted_each_by_itself() -> None:
    jobs = (
        TaskSpec(argv=("a",), name="a", count=2, weight=2.0),
        TaskSpec(argv=("b",), name="b", env={"X": "1"}, index_args=False),
    )
    found = tasks(Spec(jobs=jobs, logs="/logs"))
    assert [(task.slot, task.number, task.of) for task in found] == [(0, 0, 2), (1, 1, 2), (2, 0, 1)]
    assert [Path(task.log).name for task in found] == ["a-0.log", "a-1.log", "b.log"]
    assert [task.weight for task in found] == [2.0, 2.0, 1.0]
    assert found[2].env["X"] == "1"


def test_a_number_that_was_found_out_stands_in() -> None:
    assert len(tasks(Spec(jobs=(TaskSpec(argv=("a",), count=AUTO),)), count=4)) == 4


def test_a_script_is_found_from_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (task, *_) = tasks(Spec(jobs=(ONE,), own_dirs=True, logs=str(tmp_path)))
    assert task.argv[1] == str(tmp_path / "train.py")
    assert task.cwd == str(tmp_path / "process0")
