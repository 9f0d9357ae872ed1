"""Input, output and descriptors are the command's own."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

UNTIL_RECORDED = """
import glob, time
deadline = time.monotonic() + 60
while not glob.glob("gputune-runs/*/frames-*") and time.monotonic() < deadline: time.sleep(0.02)
time.sleep(0.3)
"""


def test_what_goes_in_and_out_is_not_touched(watch) -> None:
    text = "\x00\x1b[31m ö\n" * 1000
    done = watch("--quiet", "--", "cat", stdin=None, input=text)
    assert done.stdout == text
    assert done.stderr == ""


def test_nothing_is_printed_before_the_command_has_ended(watch) -> None:
    done = watch("--", "sh", "-c", "sleep 0.4; echo last >&2; kill -9 $$")
    assert done.stderr.startswith("last\n\ngputune: ")


def test_quiet_says_nothing_at_all(watch) -> None:
    assert watch("--quiet", "--", "true").stderr == ""


def test_a_file_as_stdin_is_read_from_where_it_stands(watch, tmp_path) -> None:
    file = tmp_path / "input"
    file.write_text("one\ntwo\n")
    with file.open() as lines:
        os.read(lines.fileno(), 4)
        assert watch("--quiet", "--", "cat", stdin=lines).stdout == "two\n"


def test_other_descriptors_are_inherited_and_ours_are_not(watch, tmp_path) -> None:
    with (tmp_path / "three").open("w") as three:
        program = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
        command = (sys.executable, "-I", "-S", "-c", program)
        bare = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=(three.fileno(),))
        watched = watch("--quiet", "--", *command, pass_fds=(three.fileno(),))
    assert watched.stdout == bare.stdout


def test_a_jobserver_passed_as_descriptors_can_be_used(watch) -> None:
    reads, writes = os.pipe()
    os.write(writes, b"token")
    done = watch("--quiet", "--", "bash", "-c", f"head -c 5 <&{reads}", pass_fds=(reads, writes))
    os.close(reads)
    os.close(writes)
    assert done.stdout == "token"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_stays_closed_for_the_command(watch, tmp_path, closed) -> None:
    look = f'{sys.executable} -I -S -c "import os, json; json.dump([n for n in (0, 1, 2) if os.path.exists('
    look += "f'/proc/self/fd/{n}')], open('open', 'w'))\""
    done = subprocess.run(
        ("sh", "-c", f"{sys.executable} -m gputune watch --quiet -- {look} {closed}"), check=False, timeout=60
    )
    watched = json.loads((tmp_path / "open").read_text())
    assert done.returncode == 0
    subprocess.run(("sh", "-c", f"{look} {closed}"), check=True, timeout=60)
    assert watched == json.loads((tmp_path / "open").read_text())


def test_a_stdout_that_the_command_closes_ends_for_its_reader(started) -> None:
    with started("--quiet", "--", "sh", "-c", "echo first; exec >&-; sleep 30") as running:
        assert running.stdout.read() == "first\n"  # comes at once, though the command runs on
        running.terminate()


def test_the_verdict_as_json_comes_on_stdout_after_the_run(watch) -> None:
    done = watch("--quiet", "--json", "-", "--", "echo", "from the command")
    first, _, rest = done.stdout.partition("\n")
    assert first == "from the command"
    assert json.loads(rest)["command"] == ["echo", "from the command"]


def test_the_verdict_as_json_goes_where_it_was_told(watch, tmp_path) -> None:
    watch("--quiet", "--json", "verdict.json", "--", "sh", "-c", "cd /; exit 3")
    assert json.loads((tmp_path / "verdict.json").read_text())["exit_code"] == 3


def test_the_environment_grows_by_our_names_only(watch, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs:/more")
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    command = (sys.executable, "-S", "-c", program)
    bare = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    watched = json.loads(watch("--quiet", "--", *command).stdout)
    guest, _, rest = watched.pop("PYTHONPATH").partition(":")
    assert rest == bare.pop("PYTHONPATH")
    assert (Path(guest) / "sitecustomize.py").exists()
    assert set(watched) - set(bare) == {"GPUTUNE_RINGS", "GPUTUNE_HOST_PID"}
    assert all(watched[name] == bare[name] for name in bare)


@pytest.mark.parametrize("theirs", ["", ":", "a:", ":a"])
def test_the_command_finds_its_modules_where_it_did(watch, monkeypatch, theirs) -> None:
    monkeypatch.setenv("PYTHONPATH", theirs)
    command = (sys.executable, "-c", "import sys; print(sys.path)")
    bare = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert watch("--quiet", "--", *command).stdout == bare


def test_modules_of_the_training_are_not_taken_for_our_own(watch, monkeypatch, tmp_path) -> None:
    """PYTHONPATH may hold packages for another Python, and a project files that are named like a library."""
    for name in ("click", "msgspec", "psutil", "pyarrow", "pynvml", "queue", "random"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not for gputune')")
    command = (sys.executable, "-I", "-c", UNTIL_RECORDED)
    for theirs in (str(tmp_path), ""):
        monkeypatch.setenv("PYTHONPATH", theirs)
        done = watch("--max-size", "1MiB", "--", *command)
        assert "not for gputune" not in done.stderr
        assert "not recorded" not in done.stderr
        assert (done.returncode, done.stdout) == (0, "")
        for run in [about.parent for about in (tmp_path / "gputune-runs").glob("*/run.json")]:
            assert list(run.glob("samples/*.parquet"))
            shutil.rmtree(run)


def test_a_nested_watch_puts_the_guest_in_front_once(watch) -> None:
    program = "import os; print(os.environ['PYTHONPATH'])"
    inner = (sys.executable, "-m", "gputune", "watch", "--quiet", "--", sys.executable, "-c", program)
    guest = watch("--quiet", "--", *inner).stdout.strip()
    assert guest.endswith("guest")
    assert ":" not in guest


def test_the_named_file_is_replaced_in_one_move(watch, tmp_path) -> None:
    """Who reads it meanwhile has the old document whole; a link of one's own stays, and so does the file's mode."""
    (tmp_path / "verdict.json").write_text("old")
    (tmp_path / "verdict.json").chmod(0o640)
    (tmp_path / "latest.json").symlink_to("verdict.json")
    with (tmp_path / "verdict.json").open() as reader:
        watch("--quiet", "--json", "latest.json", "--", "true")
        assert reader.read() == "old"
    assert (tmp_path / "latest.json").is_symlink()
    assert json.loads((tmp_path / "verdict.json").read_text())["exit_code"] == 0
    assert (tmp_path / "verdict.json").stat().st_mode & 0o777 == 0o640
    assert not list(tmp_path.glob(".*verdict*"))


def test_a_pipe_that_is_named_is_written_into(watch, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        watch("--quiet", "--json", "pipe", "--", "true")
        assert json.loads(read.result())["exit_code"] == 0


def test_a_folder_that_is_named_keeps_its_mode(watch, tmp_path) -> None:
    (tmp_path / "shared").mkdir(mode=0o750)
    (tmp_path / "shared").chmod(0o2770)
    watch("--quiet", "--out", "shared", "--", "true")
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o2770
    assert (tmp_path / "shared" / "run.json").stat().st_mode & 0o777 == 0o600
