"""The page of trainings that were really recorded, each kind made here: it draws, zooms, asks for nothing and reads.

One of each group of causes, of several ranks, packed, attached, and of runs of which little can be told.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from chromium import Chromium

from gputune.host import ptrace
from gputune.report import kept, summary
from gputune.verdict.document import Verdict

pytest.importorskip("torch")
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

TESTS = Path(__file__).parents[1]
GPUTUNE = (sys.executable, "-m", "gputune")
CARDS = (sys.executable, str(TESTS / "simgpu" / "run.py"), "--devices", "1", "--")
WITHIN = 200.0  # s; only a hang ends here
INK = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 8"
FEW = """
import torch
for batch in torch.utils.data.DataLoader(list(range(20)), batch_size=4):
    pass
"""
ENDLESS = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 10**9
    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.zeros(4)

for batch in DataLoader(Slow(), batch_size=4):
    time.sleep(0.02)
    print(".", end="", flush=True)
"""


def ran(folder: Path, *command: str) -> None:
    """Run a command to its end, whatever status the training leaves with."""
    env = {**os.environ, "ZOO_PACE": str(folder / "pace.json"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=WITHIN, check=False)
    if done.returncode == 77:  # a script of the zoo that cannot run on this machine
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert (folder / "run" / "findings.json").exists(), done.stderr


def watched(*script: str) -> Callable[[Path], None]:
    return lambda folder: ran(folder, *GPUTUNE, "watch", "--out", "run", "--", sys.executable, *script)


def zoo(name: str) -> Callable[[Path], None]:
    return watched(str(TESTS / "zoo" / f"{name}.py"))


def on_cards(*how: str) -> Callable[[Path], None]:
    script = str(TESTS / "zoo" / "room_to_share_simulator.py")
    return lambda folder: ran(folder, *CARDS, *GPUTUNE, *how, "--out", "run", "--", sys.executable, script)


def attached(folder: Path) -> None:
    """Look at a training that runs already."""
    with subprocess.Popen((sys.executable, "-c", ENDLESS), stdout=subprocess.PIPE) as training:
        try:
            assert training.stdout is not None
            assert training.stdout.read(1) == b"."
            if not ptrace.allowed(Path("/proc"), training.pid):
                pytest.skip(ptrace.refusal(Path("/proc"))[0])
            ran(folder, *GPUTUNE, "watch", "--pid", str(training.pid), "--for", "8s", "--out", "run")
        finally:
            training.kill()


TRAININGS = {
    "healthy": zoo("healthy_compute_bound"),
    "data loading": zoo("few_workers_sleeping_items"),
    "storage": zoo("small_files_pickles"),
    "preprocessing": zoo("preprocessing_in_loop_augment"),
    "model saving": zoo("frequent_checkpoint_model"),
    "metric computation": zoo("frequent_eval_loader"),
    "log printing": zoo("frequent_logging_flushed"),
    "metric reporting": zoo("frequent_reporting_http"),
    "ranks that wait for the network": zoo("communication_bound_wide"),
    "a device": on_cards("watch"),
    "packed": on_cards("share", "--procs", "2", "--no-index-args", "--trial", "0"),
    "attached": attached,
    "abstained": watched("-c", FEW),
    "no training": watched("-c", "import time; time.sleep(3)"),
}
OF_THAT_KIND: dict[str, Callable[[Verdict], object]] = {  # what the others come to is for the zoo to judge
    "ranks that wait for the network": lambda verdict: len(verdict.processes) == 2,
    "a device": lambda verdict: verdict.device,
    "packed": lambda verdict: len(verdict.processes) == 2,
    "attached": lambda verdict: verdict.attached,
    "abstained": lambda verdict: verdict.abstained,
    "no training": lambda verdict: not verdict.batches and not verdict.loaders,
}


@pytest.mark.parametrize("kind", TRAININGS)
def test_its_page_draws_zooms_and_reads_without_scripts(browser: Chromium, tmp_path: Path, kind: str) -> None:
    TRAININGS[kind](tmp_path)
    file = tmp_path / "page.html"
    shown = subprocess.run((*GPUTUNE, "report", "run", "--html", str(file)), cwd=tmp_path, check=False)
    assert shown.returncode == 0
    assert file.stat().st_size < 2_000_000
    verdict = kept.shown(tmp_path / "run")
    assert OF_THAT_KIND.get(kind, lambda _: True)(verdict)
    page = browser.show(file)
    plots = page.ask("JSON.parse(document.getElementById('measured').textContent).plots.length")
    assert 0 < plots == page.ask("document.querySelectorAll('#draw canvas').length")
    assert page.ask(f"[...document.querySelectorAll('canvas')].every({INK})")
    whole = float(page.ask("plots.dataset.to"))
    page.drag("#draw .u-over", 0.25, 0.75)
    zoomed = [float(page.ask(f"plots.dataset.{end}")) for end in ("from", "to")]
    assert zoomed == pytest.approx([whole / 4, whole * 3 / 4], abs=whole / 20)
    assert page.complaints() == []
    page.close()
    plain = browser.show(file, scripts=False)
    text = plain.ask("document.body.innerText")
    said = [summary.sentence(verdict), *(part for row in verdict.findings for part in (row.id, row.says, row.do))]
    said += [row.span for row in verdict.ledger]
    assert [each for each in said if each not in text] == []
    assert plain.complaints() == []
    plain.close()
