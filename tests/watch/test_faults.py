"""A part that fails costs that part only, is said once, and never costs the command anything."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

FAKE_TORCH = Path(__file__).resolve().parents[1] / "guest" / "fake_torch"
TRAIN = """
import os, sys, time
time.sleep(0.5)
print("trained")
sys.exit(3)
"""


MEANWHILE = """
import os, time
deadline = time.monotonic() + 60
while not os.path.exists("failed") and time.monotonic() < deadline: time.sleep(0.01)
"""


def watch_broken(how: str, *options: str, train: str = TRAIN) -> "subprocess.CompletedProcess[str]":
    """Watch a command with a gputune in which the statements `how` have broken something; it leaves a file `failed`."""
    program = f"""
import sys
def fail(*_, **__):
    open("failed", "w").close()
    raise RuntimeError("planted \\x1b[31m failure")
{how}
sys.argv = ["gputune", "watch", *{options!r}, "--", sys.executable, "-S", "-c", {train!r}]
from gputune.__main__ import main
main()
"""
    return subprocess.run((sys.executable, "-c", program), check=False, capture_output=True, text=True, timeout=60)


def only_said_once(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 3
    assert done.stdout == "trained\n"
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("planted") == 1, done.stderr


@pytest.mark.parametrize(
    "how",
    [
        "import gputune.gathering; gputune.gathering.Gatherer.take = fail",
        "import gputune.gathering; gputune.gathering.Gatherer.features = fail",
        "import gputune.gathering; gputune.gathering.Gatherer.__init__ = fail",
        "import gputune.verdict.building; gputune.verdict.building.build = fail",
        "import gputune.report.terminal; gputune.report.terminal.render = fail",
        "import gputune.recording; gputune.recording.Recording.create = fail",
        "import gputune.recording.writing as w; w.Recording._write = fail",
        "import gputune.watching.recorder.outcome as o; o.RunOutcome.__init__ = fail",
        "import gputune.watching.recorder.life as l; l.Life.__init__ = fail",
    ],
)
def test_a_broken_part_is_named_once_and_the_command_is_untouched(how) -> None:
    only_said_once(watch_broken(how))


@pytest.mark.parametrize(
    "how",
    [
        "import gputune.sampler.ticker; gputune.sampler.ticker.Ticker.tick = fail",
        "import gputune.sampler.ticker; gputune.sampler.ticker.Ticker.__init__ = fail",
        "import gputune.host.tree; gputune.host.tree.Tree.refresh = fail",
    ],
)
def test_a_part_that_breaks_while_the_command_runs_is_named_once_too(how) -> None:
    only_said_once(watch_broken(how, train=MEANWHILE + TRAIN))


def test_a_probe_that_fails_is_named_in_the_document(tmp_path) -> None:
    done = watch_broken(
        "import gputune.probes.cpu as p; p.attach = fail", "--json", "verdict.json", train=MEANWHILE + TRAIN
    )
    assert done.returncode == 3
    unavailable = json.loads((tmp_path / "verdict.json").read_text())["unavailable"]
    assert "planted" in {row["probe"]: row["why"] for row in unavailable}["cpu"]


def test_a_full_disk_costs_the_recording_only(watch, tmp_path) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    done = watch("--", sys.executable, "-S", "-c", TRAIN, preexec_fn=fill)
    assert done.returncode == 3
    assert done.stdout == "trained\n"
    assert "exit status 3" in done.stderr
    assert done.stderr.count("File too large") == 1
    assert done.stderr.count("gputune: ") == 2  # the verdict, and that
    assert not list(tmp_path.glob("gputune-runs/*/findings.json*"))


def test_a_recording_that_is_gone_is_not_named(watch, tmp_path) -> None:
    (tmp_path / "train.py").write_text(
        "import shutil, sys, time, torch\n"
        "class Slow:\n"
        "    def __len__(self): return 60\n"
        "    def __getitem__(self, index): time.sleep(0.02); return index\n"
        "for n, _ in enumerate(torch.utils.data.DataLoader(Slow())):\n"
        "    if n == 50: shutil.rmtree(sys.argv[1], ignore_errors=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    for taken, named in (("run-1", False), ("nothing", True)):
        out = "run-1" if taken == "run-1" else "run-2"
        said = watch("--out", out, "--", sys.executable, "train.py", taken, env=environment).stderr
        assert "60 batches" in said
        assert "next: " in said
        assert (f" {out}\n" in said) == named, said


def test_a_full_output_costs_the_verdict_on_it_only(watch) -> None:
    with Path("/dev/full").open("w") as full:
        done = watch(
            "--json", "-", "--", "sh", "-c", "exit 3", capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 3
    assert "the verdict was not written to stdout (No space left on device)" in done.stderr


def test_a_low_limit_of_open_files_is_the_commands_only(watch) -> None:
    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    done = watch("--", "sh", "-c", "sleep 0.6; ulimit -Sn", preexec_fn=narrow)
    assert done.stdout == "24\n"
    assert "Too many open files" not in done.stderr


def test_a_current_folder_that_is_gone_costs_the_recording_only(watch, tmp_path) -> None:
    def leave() -> None:
        Path("gone").mkdir()
        os.chdir("gone")
        Path("../gone").rmdir()

    done = watch("--", "sh", "-c", "exit 3", preexec_fn=leave)
    assert done.returncode == 3
    assert done.stderr.count("nothing was recorded: `gputune-runs` cannot be written") == 1
    done = watch("--out", str(tmp_path / "run"), "--json", "v.json", "--", "sh", "-c", "exit 3", preexec_fn=leave)
    assert done.returncode == 3
    assert json.loads((tmp_path / "run" / "run.json").read_text())["exit_code"] == 3
    assert "`v.json` was not written" in done.stderr


def test_a_folder_that_cannot_be_made_costs_the_recording_only(watch, tmp_path) -> None:
    (tmp_path / "gputune-runs").write_text("in the way")
    done = watch("--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr.count("nothing was recorded") == 1
    assert "exit status 3" in done.stderr


def test_a_named_folder_that_cannot_be_made_does_too(watch) -> None:
    done = watch("--out", "/proc/below", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr.count("nothing was recorded: `/proc/below` cannot be written") == 1


def test_without_a_place_for_rings_the_command_runs_unheard(watch, tmp_path) -> None:
    program = f"""
import sys
from gputune.launch import folders
folders._places = lambda: [{str(tmp_path / "nowhere")!r}]
sys.argv = ["gputune", "watch", "--", "sh", "-c", "echo ${{GPUTUNE_RINGS-none}}; exit 3"]
from gputune.__main__ import main
main()
"""
    done = subprocess.run((sys.executable, "-c", program), check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stdout == "none\n"
    assert done.stderr.count("nothing was heard from inside") == 1


def test_a_run_without_python_says_so(watch) -> None:
    done = watch("--", "true")
    assert done.returncode == 0
    assert "no training was seen" in done.stderr


def test_a_run_of_a_tenth_of_a_second_is_a_run(watch, run_folder) -> None:
    done = watch("--", sys.executable, "-c", "import time; time.sleep(0.1)")
    assert done.returncode == 0
    assert "no training was seen" in done.stderr
    assert json.loads((run_folder() / "run.json").read_text())["finished"]


def test_what_is_written_is_for_the_user_alone(watch, run_folder) -> None:
    watch("--quiet", "--", sys.executable, "-S", "-c", TRAIN, umask=0)
    folder = run_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_secrets_reach_no_file(watch, run_folder, monkeypatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "s3cr3t-in-the-environment")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    done = watch("--", sys.executable, "-S", "-c", TRAIN, "--api-key", "s3cr3t-in-the-arguments")
    text = "".join(path.read_bytes().decode("latin-1") for path in run_folder().rglob("*") if path.is_file())
    assert "s3cr3t" not in text + done.stderr
    assert json.loads((run_folder() / "run.json").read_text())["environment"]["OMP_NUM_THREADS"] == "3"


def test_a_link_in_place_of_a_file_is_not_followed(started, eventually, tmp_path, run_folder) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    with started("--quiet", "--out", "gputune-runs/one", "--", "sh", "-c", "read x", stdin=subprocess.PIPE) as running:
        eventually((tmp_path / "gputune-runs/one/run.json").exists)
        (tmp_path / "gputune-runs/one/findings.json.new").symlink_to(victim)
        running.stdin.write("\n")
        running.communicate(timeout=60)
    assert victim.read_text() == "untouched"


def test_the_folder_is_named_for_the_script() -> None:
    from gputune.launch.folders import name_of

    for command, name in {
        ("python", "train.py", "--lr", "1"): "train",
        ("python", "-m", "pkg.train"): "train",
        ("torchrun", "--nproc-per-node", "2", "/a/b/main.py"): "main",
        ("bash", "run.sh"): "run",
        ("./my prog;rm",): "my_prog_rm",
        ("python",): "python",
        ("\x1b[31m.py",): "__31m",
        ("...",): "run",
        ("bash", "-lc", "TOKEN=hunter2 ./a/b"): "bash",
        ("python", "-c", "print(1)"): "python",
        ("env", "TOKEN=hunter2", "python3.11", "main"): "main",
        ("python", "train.py", "-c", "config.yaml"): "train",
    }.items():
        assert name_of(command) == name
    assert len(name_of((str(Path("x" * 300)),))) == 40


def test_a_training_without_room_for_a_ring_is_not_said_to_do_without_torch(watch, tmp_path) -> None:
    (tmp_path / "train.py").write_text(
        "import errno, os\n"
        "def full(*rest): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "os.posix_fallocate = full\n"
        "import torch\n"
        "for _ in torch.utils.data.DataLoader(list(range(8))): pass\n"
    )
    said = watch("--", sys.executable, "train.py", env={**os.environ, "PYTHONPATH": str(FAKE_TORCH)}).stderr
    assert "did not use torch" not in said
    assert "No space left on device" in said


def test_a_script_that_failed_before_it_used_torch_is_told_with_its_error(watch, run_folder, tmp_path) -> None:
    (tmp_path / "train.py").write_text("import sys\n\nimport no_such_module_of_mine\n")
    done = watch("--", "sh", "-c", f"'{sys.executable}' train.py")
    assert done.returncode == 1
    text = " ".join(done.stderr.split())
    assert "the command failed with status 1 before it trained" in text
    assert "ended by ModuleNotFoundError: No module named 'no_such_module_of_mine', at train.py:3" in text
    assert json.loads((run_folder() / "findings.json").read_text())["error"]["where"] == "train.py:3"


def test_an_error_that_a_helper_without_torch_ended_with_is_none_of_a_command_that_went_on(watch, tmp_path) -> None:
    helper = "import subprocess, sys; subprocess.run([sys.executable, '-c', '1 / 0'], stderr=subprocess.DEVNULL)"
    done = watch("--", sys.executable, "-c", helper)
    assert done.returncode == 0
    assert "ZeroDivisionError" not in done.stderr


CAUGHT = "Traceback (most recent call last)"
ERRORS = {
    "raise ValueError('3 classes, 4 labels\\nand more')": "ended by ValueError: 3 classes, 4 labels, at train.py:4",
    f"raise RuntimeError('Caught it in worker 0.\\n{CAUGHT}:\\nKeyError: 7\\n')": "ended by KeyError: 7, at",
    "raise OSError('https://me:s3cr3t-word@host refused')": "ended by OSError: https://me:***@host refused",
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_script_that_failed_is_told_with_its_error_and_line(watch, run_folder, tmp_path, error) -> None:
    (tmp_path / "train.py").write_text(f"import torch\nimport sys\ndef step():\n    {error}\nstep()\n")
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    bare = subprocess.run((sys.executable, "train.py"), check=False, capture_output=True, env=environment, text=True)
    done = watch("--", sys.executable, "train.py", env=environment)
    assert done.returncode == bare.returncode == 1
    assert done.stderr.startswith(bare.stderr)
    text = " ".join(done.stderr.removeprefix(bare.stderr).split())
    assert ERRORS[error] in text
    assert "the command failed with status 1 before it trained" in text
    assert "no training was seen" not in text
    assert json.loads((run_folder() / "findings.json").read_text())["error"]["where"] == "train.py:4"
    assert not [path for path in run_folder().rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
