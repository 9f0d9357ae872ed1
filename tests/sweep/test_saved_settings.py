"""`gputune.toml` after a sweep: what it sets comes back as the guest's rules, and the rest of the file stays."""

import os
from pathlib import Path

import pytest

from gputune.core import config
from gputune.core.errors import BadUsage
from gputune.sweep import saved_settings

SETTINGS = {"num_workers": 6, "prefetch_factor": 4, "pin_memory": False, "persistent_workers": True}


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gputune.toml"
    saved_settings.write(file, saved_settings.text("train.py:41", SETTINGS, says="faster"))
    assert saved_settings.rules(file) == [{"where": "train.py:41", "set": SETTINGS, "duplicates": False}]


def test_a_place_with_odd_characters_comes_back_whole(tmp_path: Path) -> None:
    file, place = tmp_path / "x.toml", 'a "b"\\c\né.py:1'
    saved_settings.write(file, saved_settings.text(place, SETTINGS, shared_out=True))
    assert saved_settings.rules(file) == [{"where": place, "set": SETTINGS, "duplicates": True}]


def test_the_rest_of_the_file_stays_and_the_last_sweep_goes(tmp_path: Path) -> None:
    file = tmp_path / "gputune.toml"
    file.write_text("hz = 5\n\n[watch]\nquiet = true\n")
    saved_settings.write(file, saved_settings.text("a.py:1", {"num_workers": 2}))
    saved_settings.write(file, saved_settings.text("a.py:9", {"num_workers": 3}))
    assert saved_settings.rules(file) == [{"where": "a.py:9", "set": {"num_workers": 3}, "duplicates": False}]
    assert file.read_text().count("[[loader]]") == 1
    given = config.given("watch", {"hz": False, "quiet": True}, tmp_path, dict)
    assert (dict(given.options), given.unknown) == ({"hz": 5, "quiet": True}, ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "sets nothing of a loader"),
        ("loader = 3", "sets nothing of a loader"),
        ("loader = [3]", "is no table"),
        ("[[loader]]\nwhere = 'a.py:1'", "sets nothing"),
        ("[[loader]]\nnum_worker = 3", "`num_worker`"),
        ("[[loader]]\nnum_workers = 'many'", "`many`"),
        ("[[loader]", "is no TOML"),
        ("[[loader]]\nwhere = 5\nnum_workers = 2", "no `FILE:LINE`"),
        ("[[loader]]\nwhere = ''\nnum_workers = 2", "no `FILE:LINE`"),
    ],
)
def test_a_file_that_sets_nothing_says_why(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(BadUsage, match=r"x\.toml") as raised:
        saved_settings.rules(tmp_path / "x.toml")
    assert says in str(raised.value)


def test_behind_a_link_the_link_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "gputune.toml"
    real.write_text("# mine\n")
    link.symlink_to(real)
    saved_settings.write(link, saved_settings.text("train.py:3", {"num_workers": 2}))
    assert link.is_symlink()
    assert real.read_text().startswith("# mine\n")
    assert saved_settings.rules(link)


def test_a_file_keeps_its_mode_and_its_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "gputune.toml"
    file.write_bytes(b"hz = 5\r\n")
    file.chmod(0o600)
    for workers in (2, 3):
        saved_settings.write(file, saved_settings.text("train.py:3", {"num_workers": workers}))
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")
    assert file.read_bytes().startswith(b"hz = 5\r\n\r\n# >>>")
    assert [rule["set"] for rule in saved_settings.rules(file)] == [{"num_workers": 3}]
    assert [entry.name for entry in tmp_path.iterdir()] == ["gputune.toml"]


def test_in_a_folder_of_ours_it_is_nobody_elses_to_read(tmp_path: Path) -> None:
    file = tmp_path / "gputune.toml"
    file.write_text("hz = 5\n")
    file.chmod(0o644)
    saved_settings.write(file, saved_settings.text("train.py:3", {"num_workers": 2}), ours=True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().startswith("hz = 5\n")


def test_a_device_or_a_pipe_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """Root would put a file in the place of /dev/null; a pipe would be waited for."""
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(BadUsage, match="is a device or a pipe") as raised:
            saved_settings.check(file)
        assert "--write -" in raised.value.hint
        saved_settings.writable(file, "--csv")


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="No such file"):
        saved_settings.rules(tmp_path / "none.toml")


def test_what_could_not_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="does not exist"):
        saved_settings.check(tmp_path / "no" / "gputune.toml")
    with pytest.raises(BadUsage, match="is a folder"):
        saved_settings.check(tmp_path)


def test_a_file_of_other_bytes_is_refused_before_anything_runs_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "gputune.toml"
    file.write_bytes(b"# caf\xe9\nhz = 5\n")
    with pytest.raises(BadUsage, match=r"gputune\.toml.* no text in UTF-8") as raised:
        saved_settings.check(file)
    assert "--write FILE" in raised.value.hint
    saved_settings.writable(file, "--csv")  # which is written over whatever it holds
    assert file.read_bytes() == b"# caf\xe9\nhz = 5\n"
    file.write_text("# café\n", encoding="utf-8")
    saved_settings.check(file)


@pytest.mark.parametrize("twice", [False, True])
def test_a_sweep_s_lines_without_an_end_are_refused_before_anything_runs(tmp_path: Path, twice: bool) -> None:
    file = tmp_path / "gputune.toml"
    ours = saved_settings.text("train.py:3", {"num_workers": 2})
    before = ours.replace(f"{saved_settings.END}\n", "") + "hz = 5\n" + (ours if twice else "")
    file.write_text(before)
    for refused in (lambda: saved_settings.check(file), lambda: saved_settings.write(file, ours)):
        with pytest.raises(BadUsage, match="and none where they end") as raised:
            refused()
        assert saved_settings.END in raised.value.hint
    assert file.read_text() == before
