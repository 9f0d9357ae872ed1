"""`gputune report RUN --html FILE`, and `gputune watch --html`: what is written, where, and what is said."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import making
import pytest

from gputune.html import writing
from gputune.proving import proof
from gputune.verdict.document import SpeedupRow, to_json
from tests.conftest import wait_until

GPUTUNE = (sys.executable, "-m", "gputune")
PATIENCE = 120.0  # s that anything may take before a test calls it hung


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GPUTUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(recording: Path, tmp_path: Path) -> Path:
    """Return a run folder of one's own."""
    return making.judged(Path(shutil.copytree(recording, tmp_path / "run")), making.KINDS["loader"])


def gputune(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*GPUTUNE, *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE)


def test_the_page_is_written_beside_the_words(run: Path) -> None:
    done = gputune("report", "run", "--html", "page.html")
    assert done.returncode == 0
    assert "python train.py" in done.stdout
    assert done.stderr == "gputune: the page is in `page.html`\n"
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_on_stdout_it_is_alone(run: Path) -> None:
    done = gputune("report", "run", "--html", "-")
    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.rstrip().endswith("</html>")
    assert done.stderr == ""


def test_two_things_on_stdout_are_refused(run: Path) -> None:
    done = gputune("report", "run", "--html", "-", "--json")
    assert done.returncode == 2
    assert "two things on stdout" in done.stderr


def test_a_file_that_is_there_is_replaced_in_one_move_and_keeps_its_mode(run: Path) -> None:
    file = Path("page.html")
    file.write_text("old")
    file.chmod(0o640)
    with file.open() as reader:
        assert gputune("report", "run", "--html", "page.html").returncode == 0
        assert reader.read() == "old"
    assert file.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("file", ["missing/page.html", "run"])
def test_what_cannot_be_a_file_is_refused_before_anything_is_read(run: Path, file: str) -> None:
    done = gputune("report", "nothing", "--html", file)
    assert done.returncode == 2
    assert f"`--html {file}`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_takes_nothing_is_said(run: Path) -> None:
    done = gputune("report", "run", "--html", "/dev/full")
    assert done.returncode == 1
    assert "`/dev/full` was not written (No space left on device)" in done.stderr


def test_a_folder_that_is_none_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    done = gputune("report", str(tmp_path), "--html", "page.html")
    assert done.returncode == 2
    assert "is no run folder" in done.stderr
    assert not Path("page.html").exists()


@pytest.mark.parametrize("command", [["report", "run", "--html", "x.html"], ["watch", "--html", "--", "true"]])
def test_without_jinja2_the_hint_can_be_typed(run: Path, command: list[str]) -> None:
    without = "import sys; sys.modules['jinja2'] = None; from gputune.__main__ import main; main()"
    hide = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: f(n, *a) if n != 'jinja2' else None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide + without, *command], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode in {2, 125}
    assert "needs jinja2" in done.stderr
    assert "hint: pip install 'gputune[report]'" in done.stderr


def page_of(folder: Path) -> str:
    """Return the page that a process of its own writes into a run folder, once it is there."""
    wait_until((folder / "report.html").exists)
    return (folder / "report.html").read_text()


TRAINING = """
import time, torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in DataLoader([torch.ones(4)] * 400, batch_size=4):
    optimizer.zero_grad(); net(batch).sum().backward(); optimizer.step(); time.sleep(0.005)
"""


def test_a_watch_leaves_a_page_that_only_its_owner_reads(tmp_path: Path) -> None:
    Path("train.py").write_text(TRAINING)
    done = gputune("watch", "--html", "--out", "run", "--", sys.executable, "train.py")
    assert done.returncode == 0
    assert "page: run/report.html, in a moment" in done.stderr
    text = page_of(tmp_path / "run")
    assert "gputune <span>run</span>" in text
    assert 'id="measured"' in text
    assert stat.S_IMODE((tmp_path / "run" / "report.html").stat().st_mode) == 0o600


def test_a_status_is_the_command_s_own_and_is_not_waited_with(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = f"open({str(gate)!r}).read()\n"  # the process that makes the page hangs until it is told to go on
    code = f"from gputune.watching.recorder import afterwards; afterwards.PAGE = {waits!r} + afterwards.PAGE; "
    code += "from gputune.__main__ import main; main()"
    Path("train.py").write_text("import sys; sys.exit(7)")
    command = [sys.executable, "-c", code, "watch", "--html", "--out", "run", "--", sys.executable, "train.py"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 7
    assert not (tmp_path / "run" / "report.html").exists()
    gate.write_text("")  # blocks until it is read: the process is there, and waits
    page_of(tmp_path / "run")


def test_what_fails_in_that_process_is_said_in_the_page(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("<b>broken</b>")

    monkeypatch.setattr(writing, "page", fail)
    monkeypatch.setattr(writing.os, "nice", lambda _: None)
    monkeypatch.setattr(writing, "lean", lambda: None)
    writing.main([str(run), "run"])
    assert "RuntimeError: &lt;b&gt;broken&lt;/b&gt;" in (run / "report.html").read_text()


def test_without_the_option_nothing_of_it_is_imported(tmp_path: Path) -> None:
    Path("train.py").write_text(TRAINING)
    log = tmp_path / "imported"
    code = f"""
import sys, os
from gputune.launch import link
send = link.PipeEnd.send
def noting(self, message):
    if isinstance(message, link.Spoken):
        with open({str(log)!r}, "a") as file:
            file.write("\\n".join(sys.modules) + "\\n")
    return send(self, message)
link.PipeEnd.send = noting
from gputune.__main__ import main
main()
"""
    command = [sys.executable, "-c", code, "watch", "--out", "run", "--", sys.executable, "train.py"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    names = log.read_text().splitlines()
    assert "gputune.report.terminal" in names
    assert [name for name in names if name.startswith(("jinja2", "gputune.html"))] == []


def test_a_proof_and_a_sweep_are_shown_in_words_too(run: Path, tmp_path: Path) -> None:
    folder = run / "proof-1"
    folder.mkdir()
    made = proof.Proof(
        kind="change", id="few-workers", where="", change={}, predicted=None,
        realised=SpeedupRow(low=1.9, likely=2.0, high=2.1), state="measured", held=True, says="a proof", trials=[],
    )  # fmt: skip
    (folder / "proof.json").write_bytes(to_json(made))
    done = gputune("report", "run/proof-1")
    assert done.stdout == proof.words(made) + "\n"
    assert json.loads(gputune("report", "run/proof-1", "--json").stdout)["says"] == "a proof"
