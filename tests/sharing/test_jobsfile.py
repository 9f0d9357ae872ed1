"""A jobs file is read, and what cannot be meant is refused with its line and the nearest key."""

from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.sharing import jobsfile

GOOD = """
[[jobs]]
command = "python train.py --fold '1 a'"
name = "fold1"
count = 2
memory = "6GB"
host-memory = "512 MiB"
weight = 2
env = { SEED = "1" }
cwd = "sub"

[[jobs]]
command = ["./eval.sh", "x y"]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "jobs.toml"
    file.write_text(text)
    return file


def test_jobs_have_what_the_file_says(tmp_path: Path) -> None:
    first, second = jobsfile.read(written(tmp_path, GOOD))
    assert first.argv == ("python", "train.py", "--fold", "1 a")
    assert (first.name, first.count, first.memory, first.host_memory) == ("fold1", 2, 6_000_000_000, 512 << 20)
    assert (first.weight, first.env, first.cwd, first.index_args) == (2.0, {"SEED": "1"}, str(tmp_path / "sub"), True)
    assert (second.argv, second.name, second.count, second.index_args) == (("./eval.sh", "x y"), "job1", 1, False)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (
            '[[jobs]]\ncommand = "a"\n\n[[jobs]]\ncommand = "b"\nmemori = "6GB"',
            "line 6: a job has no `memori`",
            "`memory`",
        ),
        ('[[jobs]]\ncommand = "a"\nhost_memory = "6GB"', "line 3: a job has no `host_memory`", "`host-memory`"),
        ('[[jobs]]\ncommand = "a"\nzzz = 1', "line 3: a job has no `zzz`", "known are `command`"),
        ('workers = 3\n[[jobs]]\ncommand = "a"', "line 1: there is no `workers`", "`jobs`"),
        ('[[job]]\ncommand = "a"', "line 1: there is no `job`", "did you mean `jobs`?"),
        ('[[jobs]]\nname = "a"', "line 1: the job has no `command`", ""),
        ('[[jobs]]\ncommand = "a \'b"', "line 2: `command` is no command", ""),
        ('[[jobs]]\ncommand = ""', "line 2: `command` is no command", ""),
        ('[[jobs]]\ncommand = "a"\ncount = 0', "line 3: `count` is no number", ""),
        ('[[jobs]]\ncommand = "a"\nmemory = "lots"', "line 3: `memory` is no size", ""),
        ('[[jobs]]\ncommand = "a"\nweight = -1', "line 3: `weight` is no weight", ""),
        ('[[jobs]]\ncommand = "a"\nname = "../x"', "line 3: `name` is no name", ""),
        ('[[jobs]]\ncommand = "a"\nenv = { A = 1 }', "line 3: `env` is no table of texts", ""),
        (
            '[[jobs]]\ncommand = "a"\nname = "n"\n[[jobs]]\ncommand = "b"\nname = "n"',
            "line 6: two jobs would have the log `n.log`",
            "",
        ),
        (
            '[[jobs]]\ncommand = "a"\nname = "n"\ncount = 2\n[[jobs]]\ncommand = "b"\nname = "n-1"',
            "line 7: two jobs would have the log `n-1.log`",
            "",
        ),
        ("jobs = 3", "it has no `[[jobs]]`", ""),
        ("", "it has no `[[jobs]]`", ""),
        ("[[jobs", "is no TOML", ""),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_line(tmp_path: Path, text: str, says: str, hint: str) -> None:
    with pytest.raises(BadUsage) as error:
        jobsfile.read(written(tmp_path, text))
    assert says in str(error.value)
    assert hint in error.value.hint


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="cannot be read"):
        jobsfile.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "size"),
    [("6GB", 6_000_000_000), ("1.5G", 1_500_000_000), ("512 MiB", 512 << 20), ("100", 100), ("6 XB", None), ("", None)],
)
def test_sizes(text: str, size: int | None) -> None:
    assert jobsfile.memory(text) == size
