"""Whoever fails, hangs or is killed: the policy is kept, the status right, every log whole, and nobody is left."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

TASK = str(Path(__file__).parent / "task.py")
GPUTUNE = (sys.executable, "-m", "gputune", "share")
NOW = ("--trial", "0")  # all at once
SHELL = (
    'trap "echo term $GPUTUNE_PROCESS_INDEX; exit 9" TERM; '
    "echo up $GPUTUNE_PROCESS_INDEX; : > up$GPUTUNE_PROCESS_INDEX; while :; do sleep 0.05; done"
)
ENDED = (  # `ended N` waits until process N has ended, and somebody has noticed
    "ended() { while [ ! -s pid$1 ] || kill -0 $(cat pid$1) 2>/dev/null; do sleep 0.05; done; }; "
    "echo $$ > pid$GPUTUNE_PROCESS_INDEX"
)


def shell(code: str, *options: str, procs: int = 2) -> list[str]:
    return ["--procs", str(procs), "--no-index-args", *NOW, *options, "--", "sh", "-c", code]


def logs(folder: Path) -> dict[str, str]:
    return {file.stem: file.read_text() for file in (folder / "gputune-runs").glob("*/*.log")}


def test_all_well_is_status_0_with_a_log_and_a_row_each(share, document, tmp_path) -> None:
    done = share("--procs", "3", *NOW, "--json", "--json-file", "made.json", TASK, "--steps", "3")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == document()
    assert (tmp_path / "made.json").read_text() == done.stdout
    assert [row["exit_code"] for row in told["procs"]] == [0, 0, 0]
    for row in told["procs"]:
        text = Path(row["log"]).read_text()
        assert f"begin {row['index']} of 3: --steps 3 --process_index {row['index']} --process_num 3" in text
        assert f"end {row['index']}" in text
    assert "process2.log" in done.stderr
    assert not list(Path("/dev/shm").glob(f"gputune-rings-*-{told['procs'][0]['pid']}-*"))


def test_the_first_failure_is_the_status_and_the_others_go_on(share, document, tmp_path) -> None:
    code = f"{ENDED}; case $GPUTUNE_PROCESS_INDEX in 0) ended 1; exit 4;; 1) exit 7;; 2) ended 0; echo done;; esac"
    done = share(*shell(code, procs=3))
    assert done.returncode == 7, done.stderr
    assert [row["exit_code"] for row in document()["procs"]] == [4, 7, 0]
    assert logs(tmp_path)["process2"] == "done\n"


def test_a_death_by_a_signal_is_handed_on(share, document) -> None:
    done = share(*shell("kill -SEGV $$", procs=1))
    assert done.returncode == -signal.SIGSEGV
    assert document()["procs"][0]["exit_code"] == -signal.SIGSEGV


def test_stop_ends_the_others(share, document, tmp_path) -> None:
    wait = "until [ -e up0 ] && [ -e up2 ]; do sleep 0.05; done"
    code = f"[ $GPUTUNE_PROCESS_INDEX = 1 ] && {{ {wait}; exit 5; }}; {SHELL}"
    done = share(*shell(code, "--on-failure", "stop", procs=3))
    assert done.returncode == 5, done.stderr
    assert logs(tmp_path)["process0"] == "up 0\nterm 0\n"
    assert document()["procs"][2]["why"] == "ended because process 1 failed"
    assert "process 1 left with status 5: the others are ended, too" in done.stderr


def test_restart_starts_again_so_many_times_and_appends_to_the_log(share, document, tmp_path) -> None:
    code = 'echo try; [ $(grep -c try "$LOG") -ge 2 ]'
    env = {**os.environ, "LOG": str(tmp_path / "l" / "process0.log")}
    done = share(*shell(code, "--on-failure", "restart=2", "--log-dir", "l", procs=1), env=env)
    assert done.returncode == 0, done.stderr
    assert document()["procs"][0]["attempts"] == 2
    assert (tmp_path / "l" / "process0.log").read_text() == "try\ntry\n"
    assert "it starts again in 1 s" in done.stderr


def test_restart_gives_up(share, document) -> None:
    done = share(*shell("exit 3", "--on-failure", "restart=1", procs=1))
    assert (done.returncode, document()["procs"][0]["attempts"]) == (3, 2)


@pytest.mark.parametrize("policy", ["continue", "restart"])
def test_a_command_that_is_not_found_is_started_once(share, document, policy) -> None:
    done = share("--procs", "2", "--no-index-args", *NOW, "--on-failure", policy, "--", "no-such-command-here")
    assert done.returncode == 127, done.stderr
    assert [(row["exit_code"], row["attempts"]) for row in document()["procs"]] == [(127, 1)] * 2
    assert "start 4" not in done.stderr
    assert "starts again" not in done.stderr


def test_one_that_hangs_is_named_and_ended(share, document) -> None:
    code = "echo last words; [ $GPUTUNE_PROCESS_INDEX = 0 ] || exec sleep 1000"
    done = share(*shell(code, "--stall-timeout", "1s"))
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert "process 1 hangs" in done.stderr
    assert "its last words: last words" in done.stderr
    assert document()["procs"][1]["why"] == "hangs"


def test_one_that_does_not_end_when_asked_is_killed(share, document) -> None:
    code = 'trap "" TERM; echo up; while :; do sleep 0.1; done'
    done = share(*shell(code, "--stall-timeout", "1s", "--grace", "1s", procs=1))
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_every_process_once(started, eventually, tmp_path, number) -> None:
    name = number.name.removeprefix("SIG")
    code = f'trap "echo got; n=1" {name}; echo up; while [ -z "$n" ]; do sleep 0.05; done; sleep 0.5; echo end'
    with started(*shell(code, "--log-dir", "l", procs=3)) as running:
        eventually(lambda: [f for f in tmp_path.glob("l/*.log") if "up" in f.read_text()].__len__() == 3)
        running.send_signal(number)
        running.communicate(timeout=60)
    assert running.returncode == 0
    for file in tmp_path.glob("l/*.log"):
        assert file.read_text() == "up\ngot\nend\n"


def test_a_terminals_ctrl_c_reaches_every_process_once_and_twice_kills(tmp_path, eventually, gone, family) -> None:
    code = 'trap "echo got" INT; echo up; while :; do sleep 0.05; done'
    pid, terminal = pty.fork()
    if not pid:
        os.execv(GPUTUNE[0], [*GPUTUNE, *shell(code, "--log-dir", "l")])
    try:
        files = [tmp_path / "l" / f"process{n}.log" for n in range(2)]
        eventually(lambda: all(file.exists() and "up" in file.read_text() for file in files))
        everyone = family(pid)
        os.write(terminal, b"\x03")
        eventually(lambda: all("got" in file.read_text() for file in files))
        time.sleep(0.3)  # a second one would have come by now
        assert [file.read_text() for file in files] == ["up\ngot\n"] * 2
        os.write(terminal, b"\x03")
        seen = drained(terminal)
        assert "logs in l/" in seen
        eventually(lambda: gone(everyone[1:]))
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def drained(terminal: int) -> str:
    seen = b""
    with contextlib.suppress(OSError):  # the last process on it is gone
        while data := os.read(terminal, 65536):
            seen += data
    return seen.decode()


@pytest.mark.parametrize("who", ["typed", "launcher", "recorder", "typed and launcher"])
def test_nobody_is_left_whoever_is_killed(  # noqa: PLR0917 - fixtures
    started, eventually, tmp_path, family, gone, who
) -> None:
    code = '(trap "" TERM; exec setsid sleep 1000) & sleep 1000 & echo up; wait'
    with started(*shell(code, "--log-dir", "l")) as running:
        eventually(lambda: len([f for f in tmp_path.glob("l/*.log") if "up" in f.read_text()]) == 2)
        everyone = family(running.pid)
        launcher = next(p.parent() for p in everyone if p.name() == "sh" and p.parent().ppid() == running.pid)
        recorder = next(p for p in running_children(running.pid, gone) if p != launcher)
        for name, process in (("typed", everyone[0]), ("launcher", launcher), ("recorder", recorder)):
            if name in who:
                process.kill()
        if who == "recorder":
            eventually(lambda: len(running_children(running.pid, gone)) == 2)
            running.terminate()
        running.communicate(timeout=60)
        eventually(lambda: gone([p for p in everyone if p != recorder]))
    if who == "launcher":
        assert running.returncode == -signal.SIGKILL


def test_a_launcher_that_is_killed_is_missed(started, eventually, tmp_path, document) -> None:
    with started(*shell("echo up; exec sleep 1000")) as running:
        eventually(lambda: list(tmp_path.glob("gputune-runs/*/share.json")))
        first = document()["procs"][0]["pid"]
        psutil.Process(first).parent().kill()
        _, said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    assert "gputune: the launcher was killed by signal 9 (Killed): its processes were ended with it\n" in said
    told = document()
    assert (told["running"], told["exit_code"]) == (False, -9)
    assert [row["state"] for row in told["procs"]] == ["lost", "lost"]


def running_children(pid: int, gone: Callable[[list[psutil.Process]], bool]) -> list[psutil.Process]:
    return [p for p in psutil.Process(pid).children() if not gone([p])]


def test_what_a_task_leaves_behind_is_ended(share, eventually, tmp_path) -> None:
    code = "sleep 1000 & echo $!; (trap '' TERM; exec setsid sleep 1000) & echo $!"
    done = share(*shell(code, procs=1))
    assert done.returncode == 0, done.stderr
    (text,) = logs(tmp_path).values()
    assert [psutil.pid_exists(int(pid)) for pid in text.split()] == [False, False]


def test_output_in_two_places_at_once(share, tmp_path) -> None:
    done = share(*shell("echo one; echo two >&2", "--follow"))
    assert sorted(done.stdout.splitlines()) == ["0 | one", "0 | two", "1 | one", "1 | two"]
    assert logs(tmp_path)["process1"] == "one\ntwo\n"


def test_each_may_have_a_folder_of_its_own(share, tmp_path) -> None:
    done = share(*shell("pwd", "--own-dirs", "--log-dir", "l"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "l" / "process1.log").read_text() == f"{tmp_path}/l/process1\n"


def test_more_than_run_at_once_wait_their_turn(share, document) -> None:
    done = share(*shell("echo $$; sleep 0.3", "--at-once", "2", procs=5))
    assert done.returncode == 0, done.stderr
    assert all(row["exit_code"] == 0 for row in document()["procs"])
    assert document()["wall_s"] >= 0.9


def test_several_commands_run_side_by_side(share, document) -> None:
    done = share(*NOW, "--", "sh -c 'echo a; exit 3'", "--", "echo b")
    assert done.returncode == 3, done.stderr
    rows = document()["procs"]
    assert [(row["name"], Path(row["log"]).read_text()) for row in rows] == [("job0", "a\n"), ("job1", "b\n")]


def test_stdin_is_empty_and_a_question_does_not_hang(share) -> None:
    done = share(*shell("read answer; echo got $?; exec cat < /dev/tty", procs=1), stdin=subprocess.PIPE)
    assert done.returncode != 0
